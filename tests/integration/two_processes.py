#!/usr/bin/env python3
"""Several processes and one shadow: what crosses the link, counted in the server's own log.

Usage: two_processes.py nginx|xrootd
"""
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

READ_ALL = """
import sys, hashlib, h5py
with h5py.File(sys.argv[1], "r") as f:
    d = f["images"]
    h = hashlib.sha256()
    for i in range(d.shape[0]):
        h.update(d[i].tobytes())
    print(h.hexdigest())
"""
GATE = """
import sys, h5py
print("ready", flush=True)
sys.stdin.readline()
"""
READ_AFTER = """
import hashlib, sys, h5py
with h5py.File(sys.argv[1], "r") as f:
    d, h = f["images"], hashlib.sha256()
    for i in range(d.shape[0]):
        if i == AFTER:
            print("ready", flush=True)
            sys.stdin.readline()
        h.update(d[i].tobytes())
    print(h.hexdigest())
"""
LIST_TREE = """
import sys, h5py
n = 0
def visit(name, obj):
    global n
    n += 1 + len(dict(obj.attrs))
with h5py.File(sys.argv[1], "r") as f:
    f.visititems(visit)
print(n)
"""


def make(path, *words):
    status, out, err = harness.run([harness.DATA_PYTHON, harness.TOP / "tests/support/mkdata.py", words[0], path,
                                    *words[1:]], harness.clean_env(), timeout=300)
    if status:
        raise RuntimeError(out + err)


def python(code, target, env, version="3.14.0"):
    status, out, err = harness.run([harness.H5PY[version], "-c", code, target], env, timeout=200)
    if status:
        raise RuntimeError(err[-3000:])
    return out.strip()


def start(code, target, env, stdin=subprocess.DEVNULL):
    return subprocess.Popen([str(harness.H5PY["3.14.0"]), "-c", code, target], env=env, stdin=stdin,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def main():
    kind = sys.argv[1]
    tap = harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-two-") as data:
        pathlib.Path(data).chmod(0o755)
        images, tree = f"{data}/images.h5", f"{data}/tree.h5"
        make(images, "images", "--n", "12", "--side", "1024")
        make(tree, "tree", "--datasets", "500")
        size = pathlib.Path(images).stat().st_size
        with harness.Server(kind, data) as server, harness.shadow_dir() as shadow:
            env = harness.driver_env(server, shadow)
            want = python(LIST_TREE, tree, harness.clean_env())
            with tap.claim("a first process lists the tree"):
                assert python(LIST_TREE, f"{server.url}/tree.h5", env) == want
            with tap.claim("a second process lists the tree with at most two requests"):
                before = server.requests()
                assert python(LIST_TREE, f"{server.url}/tree.h5", env, "3.16.0") == want
                after = server.requests()
                assert 1 <= after[0] - before[0] <= 2, f"{after[0] - before[0]} requests"
                assert after[1] - before[1] < 10000, f"{after[1] - before[1]} bytes"
            whole = python(READ_ALL, images, harness.clean_env())

            def together(n, most, code=READ_ALL, stdin=subprocess.DEVNULL, name="images", **options):
                """|n| processes on a new shadow read all of it, right, and fetch |most| bytes at most. Where one is kept from the
                processor for long, the others do not wait for it: that comes twice. How much comes where all run is measured by the
                bench (P2-all)."""
                with harness.shadow_dir() as fresh:
                    before = server.requests()[1]
                    at_once = harness.driver_env(server, fresh, **options)
                    all_of = [start(code, f"{server.url}/{name}.h5", at_once, stdin) for _ in range(n)]
                    if stdin == subprocess.PIPE:
                        assert [p.stdout.readline() for p in all_of] == ["ready\n"] * n
                        for p in all_of:
                            p.stdin.write("go\n")
                            p.stdin.flush()
                    for out, err in [p.communicate(timeout=200) for p in all_of]:
                        assert out.strip() == whole, err[-2000:]
                    fetched = server.requests()[1] - before
                    print(f"# {n} processes: {fetched} bytes for a file of {size}")
                    assert fetched <= most, f"{fetched} bytes for a file of {size}"
            with tap.claim("four processes racing on one shadow all read right, and fetch the file once together, not each"):
                together(4, 2 * size)
            with tap.claim("eight that open together and read what one alone would stream fetch it once together, not each"):
                together(8, 2 * size, GATE + READ_ALL, subprocess.PIPE, stream_bytes="1M")
            with tap.claim("two with a budget that holds a third of the file: what was fetched ahead does not make "
                           "way, before it is read, for what is fetched farther ahead"):
                make(f"{data}/chunks.h5", "images", "--n", "12", "--side", "1024", "--chunked", "none",
                     "--chunk-rows", "128")
                harness.age(data)
                # 6 to 8 times before that was mended; 3.7 where one was kept from the processor for long
                together(2, 5 * size, GATE + READ_ALL, subprocess.PIPE, "chunks", shadow_budget_bytes="8M")
            with tap.claim("one that comes when another has read a part, and fetched more ahead for itself alone, gets "
                           "what that one has"), harness.shadow_dir() as fresh:
                before = server.requests()[1]
                pair = []
                for read in "3", "1":
                    # The second one asks for nothing ahead before the first one shares: how much would depend on time.
                    more = {} if read == "3" else {"readahead": "off"}
                    own_env = harness.driver_env(server, fresh, stream_bytes="1M", log="stats", **more)
                    pair.append(start(READ_AFTER.replace("AFTER", read), f"{server.url}/images.h5", own_env,
                                      subprocess.PIPE))
                    assert pair[-1].stdout.readline() == "ready\n", pair[-1].stderr.read()[-2000:]
                    # what is under way when the first one shares comes twice
                    harness.wait_for(lambda: server.requests()[1] - before >= size, "all of it for the first one")
                for p in pair:      # the first one shares at its next read
                    p.stdin.write("go\n")
                    p.stdin.flush()
                    if p is pair[0]:
                        first = p.communicate(timeout=200)
                second = pair[1].communicate(timeout=200)
                for out, err in first, second:
                    assert out.strip() == whole, err[-2000:]
                counters = [dict(re.findall(r"\b(\w+)=(\d+)\b", err)) for _, err in (first, second)]
                print(f"# {counters}")
                # What the first one's reader has taken, but for the first image, which was kept: two of twelve images.
                own = int(counters[1]["bytes_fetched"])
                assert own <= 0.2 * size, f"the second one fetched {own} bytes of {size} for itself: {counters}"
                # On a busy machine a reply may be so late that it is asked for a second time.
                again = sum(int(c.get(name, 0)) for c in counters for name in ("hedged", "retries"))
                fetched = server.requests()[1] - before
                print(f"# {fetched} bytes for a file of {size}, {again} requests sent again")
                assert again or fetched <= 1.2 * size, f"{fetched} bytes for a file of {size}: {counters}"
            with tap.claim("a file that changed is read anew by the next process"):
                make(tree, "tree", "--datasets", "100")
                want = python(LIST_TREE, tree, harness.clean_env())
                assert python(LIST_TREE, f"{server.url}/tree.h5", env) == want
            with tap.claim("without a shadow directory that can be used, reading works from private memory"):
                private = harness.driver_env(server, "/proc/nowhere")
                assert python(LIST_TREE, f"{server.url}/tree.h5", private) == want
            with tap.claim("with the shadow switched off, reading works"):
                assert python(LIST_TREE, f"{server.url}/tree.h5", dict(env, XHDF5_SHADOW="off")) == want
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
