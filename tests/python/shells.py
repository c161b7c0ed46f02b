#!/usr/bin/env python3
"""zsh and fish complete the package's command, as they are and with the files that the wheel installs. Prints TAP.

usage: shells.py PREFIX    where the package is installed: PREFIX/bin/xhdf5, PREFIX/share; zsh and fish are on the PATH
containers/box wheel --check calls it; bash is tested daily (tests/integration/tool_words.py).
"""
import os
import pathlib
import pty
import select
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

# What is typed, and what stands there after the tabulator.
TYPED = {"xhdf5 doc": "xhdf5 doctor", "xhdf5 cache wa": "xhdf5 cache warm", "xhdf5 recover exp": "xhdf5 recover export",
         "xhdf5 publish --bo": "xhdf5 publish --body", "xhdf5 doctor --wri": "xhdf5 doctor --writing",
         "xhdf5 cache warm --metad": "xhdf5 cache warm --metadata-only", "xhdf5 get kno": "xhdf5 get known.h5"}


class Terminal:
    """An interactive shell on a terminal."""

    def __init__(self, argv, env, directory):
        self.child, self.fd = pty.fork()
        if self.child == 0:
            os.chdir(directory)
            os.execvpe(argv[0], argv, env)
        self.said = ""

    def wait(self, text, seconds=20):
        """Returns once |text| came."""
        end = time.monotonic() + seconds
        while text not in self.said:
            if not select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError(f"not shown: {text}: {self.said[-500:]!r}")
            self.said += os.read(self.fd, 65536).decode(errors="replace")

    def send(self, text):
        self.said = ""
        os.write(self.fd, text.encode())

    def close(self):
        os.close(self.fd)
        os.kill(self.child, 9)
        os.waitpid(self.child, 0)


def zsh(prefix, env, directory):
    t = Terminal(["zsh", "-f", "-i"], {**env, "TERM": "dumb"}, directory)
    t.send(f"unsetopt zle; PROMPT='> '; fpath=({prefix}/share/zsh/site-functions $fpath); autoload -Uz compinit; compinit -u -D; setopt zle; echo rea''dy\n")
    t.wait("ready")
    try:
        for typed, completed in TYPED.items():
            t.send(f"{typed}\t")
            t.wait(completed)
            t.send("\x15")
    finally:
        t.close()


def fish(prefix, env, directory):
    source = f"source {prefix}/share/fish/vendor_completions.d/xhdf5.fish; complete -C $argv[1]"
    for typed, completed in TYPED.items():
        r = subprocess.run(["fish", "--no-config", "-c", source, typed], env=env, cwd=directory, capture_output=True,
                           text=True, timeout=60)
        offered = [line.split("\t")[0] for line in r.stdout.splitlines()]
        assert completed.split()[-1] in offered, (typed, offered, r.stderr)


def main():
    tap = harness.Tap()
    prefix = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="xh-shells-") as d:
        pathlib.Path(d, "known.h5").touch()
        env = harness.clean_env() | {"PATH": f"{prefix}/bin:{os.environ['PATH']}", "HOME": d, "XDG_CONFIG_HOME": d}
        for shell in zsh, fish:
            with tap.claim(f"{shell.__name__} completes commands, options and files"):
                shell(prefix, env, d)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
