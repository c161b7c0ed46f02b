#!/usr/bin/env python3
"""h5py's interpreters as the tests start them (support/warm_python.py) do and end as those of a shell: the same output,
exit status and files, from the first import to the last destructor."""
import contextlib
import io
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402
import warm_python  # noqa: E402

PROGRAMS = {
    "words, names, an exit status": """
        import sys
        print(__name__, sys.argv[2:], [name for name in globals() if name[0] != "_"])
        print(vars(sys.modules["__main__"]) is globals())
        sys.exit(3)""",
    "a text at the exit": "import sys; sys.exit('no more')",
    "an exception, also in a destructor": """
        class A:
            def __del__(self): raise ValueError("in the end")
        a = A()
        def f(): raise ValueError("no")
        f()""",
    "threads, then what atexit knows, then objects, the last ones in a circle": """
        import atexit, threading, time
        class A:
            def __init__(self, name): self.name = name
            def __del__(self): print("gone", self.name, other is None or other.name)
        one, other = A("one"), A("other")
        other.itself = other
        atexit.register(print, "registered")
        said = threading.Event()
        def late():
            said.wait()
            time.sleep(0.05)    # not a wait: it ends behind the program's last line
            print("thread")
        threading.Thread(target=late).start()
        print("main")
        said.set()""",
    "a file that is left open to be written": """
        import sys, h5py
        f = h5py.File(sys.argv[1], "w"); f["a"] = range(1000)
        def use(): return f""",
    "one that a module keeps": "import sys, h5py; h5py.kept = h5py.File(sys.argv[1], 'w'); h5py.kept['b'] = range(100)",
    "the driver that the environment names": """
        import sys, h5py
        print(h5py.File(sys.argv[1], "w").driver)
        h5py.File("https://127.0.0.1:1/none.h5")""",
    "output that is lost": "import os; os.close(1); print('lost')",
}


def of(start, code, env, place):
    """What a program says, its end, and the bytes of the file that it made."""
    file = place / "out.h5"
    p = start([str(harness.H5PY["3.14.0"]), "-c", code, str(file), "word"], env=env, stdin=subprocess.DEVNULL,
              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = p.communicate(timeout=60)
    # The way to a line differs, and where things lie.
    err = [re.sub("0x[0-9a-f]+|after [0-9]+ ms", "", line) for line in err.splitlines() if line[0] != " "]
    made = file.read_bytes() if file.exists() else b""
    file.unlink(missing_ok=True)
    return p.returncode, out, err, made


def forks():
    return sum(warm.forks for warm in warm_python.Popen.warm.values())


def main():
    tap = harness.Tap()
    env = harness.driver_env(connect_timeout_ms=1000, retries=0) | {"XHDF5_SHADOW": "off"}
    with tempfile.TemporaryDirectory(prefix="xh-warm-") as d:
        for claim, code in PROGRAMS.items():
            with tap.claim(f"as from a shell: {claim}"):
                # What does not name h5py is started as from a shell.
                text, before = "# h5py\n" + textwrap.dedent(code), forks()
                ordinary = of(warm_python.ORDINARY_POPEN, text, env, pathlib.Path(d))
                assert forks() == before
                warm = of(warm_python.Popen, text, env, pathlib.Path(d))
                assert forks() == before + 1
                print("#", ordinary[:3])
                assert ordinary == warm, (ordinary[:3], warm[:3], ordinary[3] == warm[3])
    with tap.claim("of a program that does not end, and of what it started, it is told where they hang"):
        said, code = io.StringIO(), "import signal, subprocess; print('h5py'); subprocess.run(['sleep', '1000'])"
        with contextlib.redirect_stdout(said):
            try:
                harness.run([harness.H5PY["3.14.0"], "-c", code], env, timeout=2)
                raise AssertionError("it has ended")
            except subprocess.TimeoutExpired:
                pass
        said = said.getvalue()
        assert re.search(r"process \d+: sleep 1000", said) and said.count("Thread") >= 2 and "nanosleep" in said, said
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
