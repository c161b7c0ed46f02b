"""h5py's interpreters, started from one that has imported numpy already, and mapped the libraries of h5py and curl.
That and numpy's end are five sixths of the processor's time which such a process takes (0.025 s in place of 0.15),
and the tests start two thousand.

`Popen` is subprocess.Popen, but for [*one of the interpreters, "-c", code, words…] and [*interpreter, script.py,
words…] whose code has h5py in it: it asks a process of that interpreter, which it starts when the first such command
comes, and which forks for each. An interpreter is a program, or chroot, a root and a program in it. No function of HDF5
or curl has run in that process: h5py, HDF5 and the driver begin in the fork, and find the command's own environment.
The fork is this process's own child, as any other: what waits for it, kills or suspends it sees no difference. It ends
as an interpreter does: threads are waited for, then what was registered with atexit, then the command's own objects,
then what libraries registered with exit(). Only the modules are not taken apart. A command that wants more of its start
(another user, LD_PRELOAD of what `use_preloaded` was not told of, …) is started as ever.
"""
import contextlib
import ctypes
import json
import os
import pathlib
import socket
import subprocess
import threading

ORDINARY = (True, None, None, None, -1, False, -1)    # restore_signals, gid, gids, uid, umask, start_new_session, process_group
SEED = {"PYTHONHASHSEED": "0"}    # of all of them, whether they want it or not
MOST_BYTES = 100_000    # of a command: a packet
PR_SET_CHILD_SUBREAPER = 36
LIBCURL = os.environ.get("TEST_LIBCURL", "libcurl.so.4")    # what the plugin is linked with (containers/test --oldest)
ORDINARY_POPEN = subprocess.Popen

# The process that forks. A fork has its parent's parent for a parent: of two forks the first one ends.
WARM = r"""
def serve(link):
    import json, os, socket, sys
    while True:
        data, fds, _, _ = socket.recv_fds(link, 1 << 18, 3)
        if not data:
            os._exit(0)
        told, tells = os.pipe()
        first = os.fork()
        if first == 0:
            second = os.fork()
            if second:
                os.write(tells, b"%d" % second)
                os._exit(0)
            break
        os.close(tells)
        pid = os.read(told, 20)
        os.waitpid(first, 0)
        for fd in (told, *fds):
            os.close(fd)
        link.send(pid)
    link.close()
    for n, fd in enumerate(fds):
        os.dup2(fd, n)
    for fd in (told, tells, *fds):
        os.close(fd)
    words, env, cwd = json.loads(data)
    sys.path[1:1] = [p for p in env.get("PYTHONPATH", "").split(":") if p]
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    return words

def command(words, here):
    import os, sys
    sys.argv[:] = words
    if words[0] == "-c":
        sys.argv[1:2] = []
        return compile(words[1], "<string>", "exec")
    sys.path[0], here["__file__"] = os.path.dirname(os.path.abspath(words[0])), words[0]
    with open(words[0], "rb") as script:
        return compile(script.read(), words[0], "exec")

# Returns the exit status.
def run(code, here):
    import sys
    try:
        exec(code, here)
    except SystemExit as why:
        if why.code is None or isinstance(why.code, int):
            return why.code or 0
        print(why.code, file=sys.stderr)
        return 1
    except Exception:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0

# Comes back where the interpreter has more to say of the end.
def end(status):
    import atexit, ctypes, gc, sys, threading
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.modules["__main__"] = None
    gc.collect()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except Exception:
        return
    ctypes.PyDLL(None).exit(status)

def map_libraries(h5py, libcurl):
    import ctypes, glob, os
    for library in [*glob.glob(h5py + "/*.so"), *glob.glob(h5py + "/_debian_h5py_serial/*.so")]:
        ctypes.CDLL(library)
    # The first one that is mapped is the driver's; in another root it may lie elsewhere.
    ctypes.CDLL(libcurl if os.path.exists(libcurl) else "libcurl.so.4")

def main(link):
    import gc, os, socket, sys, types
    import inspect, logging, subprocess, uuid    # what h5py imports beside numpy
    import numpy
    if len(sys.argv) > 2:
        map_libraries(os.path.dirname(os.path.dirname(numpy.__file__)) + "/h5py", sys.argv[2])
    gc.freeze()    # a fork does not copy what it never looks at
    words = serve(socket.socket(fileno=link))
    sys.modules["__main__"] = types.ModuleType("__main__")
    here = vars(sys.modules["__main__"])
    status = run(command(words, here), here)
    del here
    end(status)
    sys.exit(status)

import sys
main(int(sys.argv[1]))
"""


class Warm:
    """One interpreter's process that forks."""

    def __init__(self, python, preload=None, maps=True):
        """|python|: words; |preload|: its LD_PRELOAD; |maps|: the libraries of h5py and curl, too."""
        self.forks = 0
        self.link, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            env = {k: v for k, v in os.environ.items()
                   if not k.startswith(("HDF5_", "XHDF5_", "PYTHONPATH"))} | {"OPENBLAS_NUM_THREADS": "1"} | SEED
            env |= {"LD_PRELOAD": preload} if preload else {}
            maps = [LIBCURL] if maps else []
            self.process = subprocess.Popen([*python, "-c", WARM, str(its.fileno()), *maps], env=env,
                                            pass_fds=[its.fileno()],
                                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def fork(self, message, fds):
        """Returns the process's number."""
        libc = ctypes.CDLL(None)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            self.forks += 1
            socket.send_fds(self.link, [message], fds)
            return int(self.link.recv(20))
        finally:
            libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def needs_h5py(words, name="h5py"):
    """Whether the code of [-c, code, …] or [script.py, …] names it."""
    if len(words) < 2 and words[:1] == ["-c"]:
        return False
    with contextlib.suppress(OSError):
        return name in (words[1] if words[0] == "-c" else pathlib.Path(words[0]).read_text())
    return False


class Popen(subprocess.Popen):
    pythons, preloads, maps, warm, lock = (), (), True, {}, threading.Lock()

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags,
                       shell, *more):
        words = [str(a) for a in args] if isinstance(args, (list, tuple)) else [args]
        python = next((p for p in self.pythons if words[:len(p)] == p), [])
        rest = words[len(python):]
        env = dict(os.environ if env is None else env)
        preload = env.get("LD_PRELOAD") if env.get("LD_PRELOAD") in self.preloads else None
        pipes = more[:6]
        place = "/" if python[:1] == ["chroot"] else str(cwd or os.getcwd())    # as chroot has it
        message = json.dumps([rest, {k: str(v) for k, v in env.items()}, place]).encode()
        if (not python or not rest or not (rest[0].endswith(".py") or rest[0] == "-c") or
                not needs_h5py(rest, "h5py" if self.maps else "hdf5") or executable or
                preexec_fn or pass_fds or shell or more[6:] != ORDINARY or len(message) > MOST_BYTES or
                any(k.startswith(("LD_", "PYTHON", "MALLOC_", "OMP_", "OPENBLAS_")) and v != (os.environ | SEED).get(k)
                    and k != "PYTHONPATH" and not (k == "LD_PRELOAD" and preload) for k, v in env.items())):
            return super()._execute_child(args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo,
                                          creationflags, shell,
                                          *more)
        with self.lock:
            mine = os.getpid(), preload, *python    # a fork of this process has none
            if mine not in self.warm:
                self.warm[mine] = Warm(python, preload, self.maps)
            its = [fd if fd != -1 else n for n, fd in enumerate((pipes[0], pipes[3], pipes[5]))]
            try:
                self.pid = self.warm[mine].fork(message, its)
            finally:
                self._close_pipe_fds(*pipes)
        self._child_created = True


def use(pythons):
    """From here on subprocess.Popen and subprocess.run start |pythons|, words each, so."""
    Popen.pythons = [[str(word) for word in p] for p in pythons]
    subprocess.Popen = Popen


def use_unmapped():
    """So with numpy alone, where it counts what is loaded before h5py or xhdf5 is: commands that name either."""
    Popen.maps = False


def use_preloaded(library):
    """So also with |library| as LD_PRELOAD. It must read its variables at each call: they are set behind its start."""
    Popen.preloads = (*Popen.preloads, str(library))
