#!/usr/bin/env python3
"""local_shadow=on: what is written through it is what sec2 would have written, at every flush and at the end; killed in any
write it leaves a file that is no worse than sec2's killed there; readers share; nothing is asked of a tmpfs that is full, small
or another's. Files lie on the disk of the build, which is made to look like NFS (it is not used on a local disk), and on perf/slowfs, a file system that takes half a millisecond for everything.

  local_shadow.py LOCAL_WRITER DYING_WRITES [--all]     with --all: killed in each write, of sec2's too
"""
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import warm_python  # noqa: E402
from harness import BUILD, DATA_PYTHON, Tap, clean_env, driver_env, run, shadow_dir  # noqa: E402

WRITER, DYING = sys.argv[1:3]
warm_python.use_preloaded(DYING)
ALL = "--all" in sys.argv
DELAY_US = 500

MAKE = """
import h5py, numpy as np, sys
r = np.random.default_rng(1)
paged = dict(fs_strategy='page', fs_page_size=4096, page_buf_size=65536) if sys.argv[2] == 'latest' else {}
with h5py.File(sys.argv[1], 'w', libver=sys.argv[2], **paged) as f:
    for i in range(60):
        g = f.require_group(f'g{i % 7}')
        d = g.create_dataset(f'd{i}', data=r.integers(0, 99, (i + 1, 50)), track_times=False)
        d.attrs['unit'] = 'mm' * i
        if i % 5 == 0:
            g.create_dataset(f'z{i}', data=np.arange(5000 + i), chunks=(512,), maxshape=(None,), compression='gzip')
    f.create_dataset('words', data=['w' * i for i in range(200)], dtype=h5py.string_dtype())
    f.create_dataset('big', data=r.random(200_000))
with h5py.File(sys.argv[1], 'r+', libver=sys.argv[2]) as f:
    f['words'][7] = 'another'
    f['big'][1000:1004] = [1, 2, 3, 4]
    f['g0/z0'].resize((9000,))
    f['g0/z0'][8000:] = 5
    for i in range(0, 60, 9):
        del f[f'g{i % 7}/d{i}']
    f.flush()
    f.move('g3', 'h/g3')
    f.create_dataset('late', data=np.arange(77), track_times=False)
    del f['big']
    assert f['words'][7] == b'another' and f['g0/z0'][8500] == 5
"""
SAME = """
import h5py, sys
a, b = (h5py.File(n, 'r') for n in sys.argv[1:])
names = []
a.visit(names.append)
others = []
b.visit(others.append)
assert names == others and len(names) > 60, (names, others)
for n in names:
    if isinstance(a[n], h5py.Dataset):
        assert (a[n][...] == b[n][...]).all() and a[n].dtype == b[n].dtype, n
    assert dict(a[n].attrs) == dict(b[n].attrs), n
"""


def must(argv, env, **more):
    status, out, err = run(argv, env, **more)
    assert status == 0, f"{argv[:4]}: {status} {err[-2000:]}"
    return out, err


def on(shadow=None, **options):
    """The environment; the disk of the build passes for a network file system. Files are so old that their times tell
    their versions apart."""
    return driver_env(shadow=shadow, local_shadow="on", **options) | {"LD_PRELOAD": DYING, "DYING_NFS": "1",
                                                                      "DYING_AGED_S": "1000"}


def python(script, *words, env):
    return must([DATA_PYTHON, "-c", script, *words], env)


def near(log):
    """What the driver says of each file at its closing: a list of dicts."""
    return [{k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", line)} for line in re.findall(r" stats near (.*)", log)]


def same_as_sec2(place, where):
    for libver in ("earliest", "latest") if ALL else (("earliest",) if where == "disk" else ("latest",)):
        ours, theirs = place / f"ours-{libver}.h5", place / f"theirs-{libver}.h5"
        _, log = python(MAKE, ours, libver, env=on(log="stats"))
        python(MAKE, theirs, libver, env=clean_env())
        assert len(near(log)) >= 2, log
        python(SAME, ours, theirs, env=clean_env())
        python(SAME, ours, theirs, env=on())


def told_to_nobody(place):
    """Started without standard error, a program opens its file as number 2; or without output and input, as 1 or 0."""
    words = 2 * ["f['words'][7] = 'another'; f.flush()"]
    for closed in "2>&-", "1>&- 2>&-", "0<&- 1>&- 2>&-":
        ours = place / "told.h5"
        script = "import h5py, sys; f = h5py.File(sys.argv[1], 'r+'); " + "; ".join(words) + "; f.close()"
        python(MAKE, ours, "latest", env=clean_env())
        must(["sh", "-c", f'exec "$@" {closed}', "sh", DATA_PYTHON, "-c", script, ours], on(log="all"))
        assert b"xhdf5" not in ours.read_bytes(), ours.read_bytes()[:400]
        python(SAME, ours, ours, env=clean_env())


FLUSH = """
import h5py, sys
with h5py.File(sys.argv[1], 'r+') as f:
    f['new'] = list(range(100))
    f['old'].attrs['note'] = 1
    print('written', flush=True); sys.stdin.readline()
    f.flush()
    print('flushed', flush=True); sys.stdin.readline()
    f['newer'] = 5
"""
LOOK = "import h5py, sys; f = h5py.File(sys.argv[1], 'r'); print(sorted(f), list(f['old'].attrs), int(f['old'][...].sum()))"


def flushed_is_there(place):
    """Another process, by sec2: nothing before a flush, all of it after one."""
    file, plain = place / "flush.h5", clean_env() | {"HDF5_USE_FILE_LOCKING": "FALSE"}
    python("import h5py, sys; h5py.File(sys.argv[1], 'w')['old'] = range(1000)", file, env=clean_env())
    with subprocess.Popen([DATA_PYTHON, "-c", FLUSH, file], env=on(), text=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as w:
        said = [w.stdout.readline().strip(), python(LOOK, file, env=plain)[0].strip()]
        w.stdin.write("\n"), w.stdin.flush()
        said += [w.stdout.readline().strip(), python(LOOK, file, env=plain)[0].strip()]
        w.stdin.write("\n"), w.stdin.flush()
    said.append(python(LOOK, file, env=plain)[0].strip())
    assert w.returncode == 0
    assert said == ["written", "['old'] [] 499500", "flushed", "['new', 'old'] ['note'] 499500",
                    "['new', 'newer', 'old'] ['note'] 499500"], said


def no_second_writer(place):
    file = place / "locked.h5"
    script = ("import h5py, subprocess, sys; f = h5py.File(sys.argv[1], 'w'); f['a'] = 1; "
              "sys.exit(subprocess.run([sys.executable, '-c', 'import h5py, sys; h5py.File(sys.argv[1], \"r+\")', "
              "sys.argv[1]]).returncode)")
    for opener in (on(), clean_env()):
        status, _, err = run([DATA_PYTHON, "-c", script, file], opener)
        assert status == 1 and "unable to lock file" in err, err


SWMR = """
import h5py, numpy as np, subprocess, sys
with h5py.File(sys.argv[1], 'w', libver='latest') as f:
    d = f.create_dataset('d', (0,), maxshape=(None,), chunks=(10,), dtype='i4')
    f['x'] = 1
    f.swmr_mode = True
    r = subprocess.Popen([sys.executable, '-c', '''
import h5py, sys
f = h5py.File(sys.argv[1], 'r', libver='latest', swmr=True)
for line in sys.stdin:
    f['d'].refresh()
    print(f['d'].shape[0], int(f['d'][...].sum()), flush=True)
''', sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for n in range(1, 6):
        d.resize((n * 100,))
        d[-100:] = n
        d.flush()
        r.stdin.write('look\\n'); r.stdin.flush()
        assert r.stdout.readline().split() == [str(n * 100), str(sum(range(1, n + 1)) * 100)], n
    r.stdin.close()
    assert r.wait() == 0
"""


def swmr_goes_round(place):
    python(SWMR, place / "swmr.h5", env=on())
    script = ("import h5py, sys; f = h5py.File(sys.argv[1], 'r+', libver='latest'); f['later'] = 2; f.swmr_mode = True; "
              "f['d'][0] = 77; f['d'].flush(); f.close(); assert h5py.File(sys.argv[1])['d'][0] == 77")
    python(script, place / "swmr.h5", env=on())


FORK = r"""
import h5py, os, sys
f = h5py.File(sys.argv[1], 'w')
for i in range(20): f[f'd{i}'] = [1] * 10
ready, go = os.pipe()
child = os.fork()
if child == 0:
    os.read(ready, 1)       # the parent has closed the file
    try:
        f['d0'][0] = 7; f.flush()
    except (OSError, RuntimeError) as e:
        assert 'opened by the parent' in str(e), e
        sys.exit(5)         # with the file open: HDF5 closes it
    os._exit(6)
for i in range(20): f[f'd{i}'][...] = 2
f.close()
os.write(go, b'x')
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert code == 5, code
f = h5py.File(sys.argv[1])
print([sum(f[f'd{i}'][...]) == 20 for i in range(20)].count(True))
"""
NEIGHBOUR = r"""
import h5py, subprocess, sys
with h5py.File(sys.argv[1], 'w') as f:
    for name in 'abcdefghij': f[name] = [0]
f = h5py.File(sys.argv[1], 'r+')
for name in 'acegi': f[name][0] = f[name][0] + 1    # a dataset that is closed is written: HDF5 keeps nothing of it
subprocess.run([sys.executable, '-c', "import h5py, sys\nf = h5py.File(sys.argv[1], 'r+')\nfor n in 'bdfhj': f[n][0] = 7\nf.close()",
                sys.argv[1]], check=True)
f['i'][0] = 3
f.close()
f = h5py.File(sys.argv[1])
print([int(f[name][0]) for name in 'abcdefghij'])
"""


def no_child_writes(place):
    out, err = python(FORK, place / "fork.h5", env=on())
    assert out.strip() == "20" and err.count("this child of a fork wrote did not go to the file") == 1, (out, err)


def a_neighbour_keeps_his(place):
    """Where flock fails with ENOSYS, which HDF5 passes over, two processes may write distinct datasets."""
    out, _ = python(NEIGHBOUR, place / "neighbour.h5",
                    env=on() | {"DYING_NO_FLOCK": "1", "HDF5_USE_FILE_LOCKING": "BEST_EFFORT"})
    assert out.strip() == "[1, 7, 1, 7, 1, 7, 1, 7, 3, 7]", out


# --- killed

RANK = {"opens": 1, "shut": 0}


def killed(place, env, libver, at):
    """The writer, killed in its write number |at|; what is then left, as local_writer check says, after h5clear."""
    file = place / "dies.h5"
    shutil.copyfile(place / f"base{libver}.h5", file)
    run([WRITER, "change", file, *libver.split()], env | {"LD_PRELOAD": DYING, "DYING_AT": str(at)})
    if libver:
        run(["h5clear", "-s", file], clean_env())
    state, *right = must([WRITER, "check", file], clean_env())[0].split()
    return (RANK[state], *map(int, right))


def crash(place, libver):
    """Kills sec2 and us in our writes. Returns both lists of what was left, and that of the writes (ours)."""
    must([WRITER, "make", place / f"base{libver}.h5", *libver.split()], clean_env())
    left = []
    for env in (clean_env(), on()):
        count, file = place / "count", place / "whole.h5"
        shutil.copyfile(place / f"base{libver}.h5", file)
        must([WRITER, "change", file, *libver.split()], env | {"LD_PRELOAD": DYING, "DYING_COUNT": str(count)})
        assert must([WRITER, "check", file], clean_env())[0].split() == ["opens", "32", "20", "20"]
        n = int(count.read_text())
        sec2 = len(left) == 0
        step = 1 if ALL or n < 20 else n // 16 if sec2 else 2
        left.append([killed(place, env, libver, at) for at in range(1, n + 1, step)])
    return left


def tell(name, left):
    whole = sum(old == 32 for _, old, _, _ in left)
    shut = sum(not opens for opens, *_ in left)
    print(f"# {name}: killed in {len(left)} writes: old data all there {whole}, some of it {len(left) - whole - shut}, "
          f"does not open {shut}")
    return whole / len(left), shut / len(left)


def crashes(tap, place, where):
    for libver in ("", "latest") if ALL or where == "disk" else ("",):
        with tap.claim(f"killed in any write, the file is no worse than sec2's, {where} {libver or 'earliest'}"):
            theirs, ours = crash(place, libver)
            (whole2, shut2), (whole, shut) = tell("sec2", theirs), tell("local_shadow", ours)
            assert whole >= whole2 and (shut <= shut2 or shut * len(ours) <= 1), (theirs, ours)
            # Until writing back replaces something in place, all is as the last flush left it.
            assert ours.count((1, 32, 0, 0)) >= 2 and ours.count((1, 32, 20, 0)) >= 2, ours
            # So few writes: each but those in place leaves one of the three states whole.
            states = sum(right[1:] in ((32, 0, 0), (32, 20, 0), (32, 20, 20)) for right in ours)
            assert states >= len(ours) - 5, ours


# --- readers

READ = ("import h5py, sys; f = h5py.File(sys.argv[1], 'r'); s = 0\n"
        "for i in range(500): s += int(f[f'd{i}'][...].sum())\n"
        "print(s)")


def many(place):
    """A file of 500 small datasets, 3.3 MB, and the sum of them."""
    file = place / "many.h5"
    _, log = python("import h5py, sys, numpy as np; f = h5py.File(sys.argv[1], 'w')\n"
                    "for i in range(500): f[f'd{i}'] = np.arange(i, i + 750)\n"
                    "f.close()", file, env=on(log="stats"))
    return file, str(sum(sum(range(i, i + 750)) for i in range(500))), near(log)[0]


def readers_share(shadow, file, want):
    out, log = python(READ, file, env=on(shadow, log="stats"))
    first = near(log)[0]
    assert out.strip() == want and file.stat().st_size <= first["bytes"] + 4096 and first["reads"] <= 40, first
    out, log = python(READ, file, env=on(shadow, log="stats"))
    assert out.strip() == want and near(log)[0]["reads"] == 0, log
    shutil.rmtree(shadow), shadow.mkdir(mode=0o700)
    env = on(shadow, log="stats")
    both = [subprocess.Popen([DATA_PYTHON, "-c", READ, file], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True)
            for _ in range(3)]
    said = [p.communicate(timeout=60) for p in both]
    assert all(out.strip() == want for out, _ in said), said
    assert sum(near(err)[0]["bytes"] for _, err in said) <= 1.6 * file.stat().st_size, said


def changed_file_is_another(place, shadow, file, want):
    python("import h5py, sys; h5py.File(sys.argv[1], 'r+')['d0'][0] += 9", file, env=on(shadow))
    out, _ = python(READ, file, env=on(shadow))
    assert out.strip() == str(int(want) + 9), out
    """A server's clock counts whole seconds, and is five seconds behind this machine's."""
    env = on(shadow) | {"DYING_CHANGED_S": str(int(time.time()) - 5)}
    for more in 9, 18:    # changes within one second of that clock
        out, _ = python(READ, file, env=env)
        assert out.strip() == str(int(want) + more), (out, want, more)
        python("import h5py, sys; h5py.File(sys.argv[1], 'r+')['d0'][0] += 9", file, env=clean_env())
    assert python(READ, file, env=env)[0].strip() == str(int(want) + 27)


def in_mounts(script, *words):
    return ["unshare", "--mount", "--propagation", "unchanged", "sh", "-c",
            f'set -e; {script}\nshift {len(words)}; exec "$@"',
            "sh", *map(str, words)]


def poor_tmpfs(tap, shadow, file, want):
    """What the shadow's own tests have in full (crashes.py): here that a local file is read through it all the same."""
    for what, script, words in (
            ("of 64 MB", 'mount -t tmpfs -o size=64m,mode=700 none "$1"', [shadow]),
            ("that is full", 'mount -t tmpfs -o size=2m,mode=700 none "$1"; head -c 9m /dev/zero >"$1/other" 2>/dev/null || :', [shadow]),
            ("that is another's", 'mount -t tmpfs -o size=2m,mode=700 none "$1"; chown 65534 "$1"', [shadow]),
            ("that is open to all", 'mount -t tmpfs -o size=2m,mode=777 none "$1"', [shadow]),
            ("that is a link", 'rm -r "$1"; ln -s /dev/shm "$1"', [shadow])):
        with tap.claim(f"a file is read right with a tmpfs {what}"):
            out, log = must([*in_mounts(script, *words), DATA_PYTHON, "-c", READ, file], on(shadow, log="stats,shadow"))
            assert out.strip() == want, out
            assert ("private=0" if "64" in what else "private=1") in log or "full" in what, log
            with contextlib.suppress(FileNotFoundError):
                if shadow.is_symlink():
                    shadow.unlink()
            shutil.rmtree(shadow, ignore_errors=True)
            shadow.mkdir(mode=0o700, exist_ok=True)


def all_of(tap, place, shadow, where):
    with tap.claim(f"created, changed and read, it is sec2's file, {where}"):
        same_as_sec2(place, where)
    with tap.claim(f"after H5Fflush another process sees a valid file, before it the old one, {where}"):
        flushed_is_there(place)
    crashes(tap, place, where)
    with tap.claim(f"a child of a fork writes nothing of what its parent holds, {where}"):
        no_child_writes(place)
    with tap.claim(f"without locks a neighbour's bytes stay, {where}"):
        a_neighbour_keeps_his(place)
    with tap.claim(f"SWMR goes round it, {where}"):
        swmr_goes_round(place)
    with tap.claim(f"processes that read one file share what was read, {where}"):
        file, want, _ = many(place)
        readers_share(shadow, file, want)
    with tap.claim(f"a file that was changed is read as it is now, {where}"):
        changed_file_is_another(place, shadow, file, want)


def on_disk(tap, shadow):
    with tempfile.TemporaryDirectory(dir=BUILD) as d:
        place = pathlib.Path(d)
        if subprocess.run(["stat", "-fc", "%T", d], capture_output=True, text=True).stdout.strip() == "tmpfs":
            return tap.skip("on disk", "the build lies on tmpfs")
        all_of(tap, place, shadow, "disk")
        with tap.claim("locks hold"):
            no_second_writer(place)
        with tap.claim("what is told goes to no file in standard error's place"):
            told_to_nobody(place)
        with tap.claim("on a local disk it is not used"):
            env = on(log="stats")
            del env["DYING_NFS"]
            _, log = python("import h5py, sys; h5py.File(sys.argv[1], 'w')['a'] = 1", place / "plain.h5", env=env)
            assert not near(log), log
            _, log = python("import h5py, sys; h5py.File(sys.argv[1])['a'][()]", place / "plain.h5", env=env)
            assert not near(log), log
        file, want, _ = many(place)
        if os.geteuid() == 0:
            poor_tmpfs(tap, shadow, file, want)
        with tap.claim("off, the driver does what it did"):
            _, log = python(READ, file, env=driver_env(log="all"))
            assert "near" not in log, log


@contextlib.contextmanager
def slow(back, place):
    """The directory |back| at |place|, as a slow file system."""
    fs = subprocess.Popen([BUILD / "perf" / "slowfs", back, place, str(DELAY_US)], stdout=subprocess.PIPE, text=True)
    try:
        assert fs.stdout.readline() == "ready\n"
        yield
    finally:
        fs.terminate()
        fs.wait()


def on_a_full_disk(tap):
    """Each write of the program has come to its end by then, and nothing of HDF5's says more."""
    with tempfile.TemporaryDirectory(dir="/tmp") as back, tempfile.TemporaryDirectory(dir="/tmp") as d:
        must(["mount", "-t", "tmpfs", "-o", "size=1m", "none", back], clean_env())
        try:
            with slow(back, d), tap.claim("a program ends with its file open and the disk full: a line says so"):
                file = pathlib.Path(d, "\x1b[31mbase.h5")
                must([WRITER, "make", file], clean_env())
                with contextlib.suppress(OSError), open(f"{d}/other", "wb", buffering=0) as other:
                    while other.write(bytes(4096)):
                        pass
                _, err = must([WRITER, "leave", file], driver_env(local_shadow="on"))
                assert err.startswith(f"xhdf5: {d}/?[31mbase.h5: ") and "No space left on device" in err, err
                assert err.count("\n") == 1, err
                assert must([WRITER, "check", file], clean_env())[0].split() == ["opens", "32", "0", "0"]
        finally:
            must(["umount", back], clean_env())


def at_its_close(tap):
    """NFS tells of a full disk, or quota, when a file is closed."""
    if subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True).returncode:
        return tap.skip("a disk that is found full when the file is closed", "strace cannot trace here")
    with tempfile.TemporaryDirectory(dir="/tmp") as back, tempfile.TemporaryDirectory(dir="/tmp") as d, slow(back, d), \
         tap.claim("so it does where the file system tells of it only when the file is closed"):
        file = pathlib.Path(d, "base.h5")
        must([WRITER, "make", file], clean_env())
        _, err = must(["strace", "-f", "-o", "/dev/null", "-P", file, "-e", "inject=close:error=EDQUOT", WRITER,
                       "leave", file], driver_env(local_shadow="on"))
        assert re.fullmatch(r"xhdf5: .*/base\.h5: not all that was written is in the file: .*quota.*\n", err), err


def on_slowfs(tap, shadow):
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        return tap.skip("on a slow file system", "no /dev/fuse, or not root")
    with tempfile.TemporaryDirectory(dir="/tmp") as back, tempfile.TemporaryDirectory(dir="/tmp") as d, slow(back, d):
        all_of(tap, pathlib.Path(d), shadow, "slowfs")
        with tap.claim("small datasets are written in few operations"):
            _, _, wrote = many(pathlib.Path(d))
            assert wrote["writes"] <= 12, wrote
    on_a_full_disk(tap)
    at_its_close(tap)


def main():
    tap = Tap()
    with shadow_dir() as shadow:
        on_disk(tap, shadow)
        on_slowfs(tap, shadow)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
