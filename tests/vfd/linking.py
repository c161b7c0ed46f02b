#!/usr/bin/env python3
"""How programs and the plugin find each other: symbols, kinds of linking, the installed files,
and the example of docs/c-api.md.

usage: linking.py SAMPLE    (an HDF5 file with a data set of doubles, d)
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import harness  # noqa: E402

EXPORTS = ["H5Dxhdf5_prefetch", "H5FD_xhdf5_init", "H5FDxhdf5_bytes_close", "H5FDxhdf5_bytes_expect",
           "H5FDxhdf5_bytes_open", "H5FDxhdf5_bytes_read", "H5FDxhdf5_bytes_shown", "H5FDxhdf5_bytes_size",
           "H5FDxhdf5_call_for", "H5FDxhdf5_commit", "H5FDxhdf5_discard",
           "H5FDxhdf5_expect", "H5FDxhdf5_get_stats",
           "H5FDxhdf5_prefetch", "H5PLget_plugin_info", "H5PLget_plugin_type",
           "H5Pget_fapl_xhdf5", "H5Pset_fapl_xhdf5"]
SUM = "20000 values, sum 9.9995e+07"

# A libhdf5 that only a library loaded RTLD_LOCAL sees, as in a Python extension module.
EXTENSION = """
#include <xhdf5.h>
int extension(const char *name);
int extension(const char *name)
{
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    if (H5Pset_fapl_xhdf5(fapl, NULL) < 0 || H5Pget_driver(fapl) != H5FD_XHDF5)
        return 1;
    return H5Fopen(name, H5F_ACC_RDONLY, fapl) < 0;
}
"""
LOADER = """
#include <dlfcn.h>
int main(int argc, char **argv)
{
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    int (*f)(const char *) = library ? (int (*)(const char *))dlsym(library, "extension") : 0;
    return f ? f(argv[2]) : 9;
}
"""
# Links one copy of the driver, while HDF5_DRIVER has loaded another one.
TWO_COPIES = """
#include <xhdf5.h>
#define REFUSED(call) ((call) < 0 ? 0 : (fprintf(stderr, "not refused: %s\\n", #call), 1))
#include <stdio.h>
int main(int argc, char **argv)
{
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS), theirs = H5Fopen(argv[1], H5F_ACC_RDONLY, H5P_DEFAULT);
    char text[20];
    int bad = theirs < 0 || REFUSED(H5FD_XHDF5) | REFUSED(H5Pset_fapl_xhdf5(fapl, NULL)) |
              REFUSED(H5FDxhdf5_commit(theirs)) | REFUSED(H5FDxhdf5_discard(theirs, H5FD_XHDF5_DISCARD_ALL)) |
              REFUSED(H5FDxhdf5_get_stats(theirs, text, sizeof text));
    H5Fclose(theirs);
    H5Pset_fapl_sec2(fapl);
    hid_t plain = H5Fopen(argv[1], H5F_ACC_RDONLY, fapl);
    bad |= plain < 0 || H5FDxhdf5_commit(plain) != 0 || H5FDxhdf5_get_stats(plain, text, sizeof text) != 0;
    H5Fclose(plain);
    return bad;
}
"""


def sh(*argv, env=None):
    """Runs a command that must succeed; returns what it printed."""
    r = subprocess.run([str(a) for a in argv], env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert r.returncode == 0, f"{' '.join(map(str, argv))}: exit status {r.returncode}\n{r.stdout}{r.stderr}"
    return r.stdout


def pkg_config(*words, env=None):
    return sh("pkg-config", *words, env=env).split()


class Work:
    """A directory to build in."""

    def __init__(self, path):
        self.path = pathlib.Path(path)

    def cc(self, out, source, *words):
        """Compiles a C text, or a file when it is a path, to a program or library."""
        if not isinstance(source, pathlib.Path):
            source, text = self.path / f"{out}.c", source
            source.write_text(text)
        sh("cc", "-o", self.path / out, source, *words)
        return self.path / out


def check_symbols(tap):
    plugin = pathlib.Path(harness.plugin_dir()) / "libhdf5_vfd_xhdf5.so"
    with tap.claim("the plugin has no undefined H5 symbol"):
        undefined = [s for s in sh("nm", "-D", "--undefined-only", plugin).split() if s.startswith("H5")]
        assert not undefined, undefined
    with tap.claim("it exports its interface and nothing else"):
        defined = sorted(line.split()[-1] for line in sh("nm", "-D", "--defined-only", plugin).splitlines())
        assert defined == EXPORTS, defined
    with tap.claim("it needs no libhdf5, and is never unloaded"):
        dynamic = sh("readelf", "-d", plugin)
        assert not re.search(r"NEEDED.*hdf5", dynamic) and "NODELETE" in dynamic, dynamic


def check_header(tap, work):
    flags = pkg_config("--cflags", "hdf5-serial")
    text = '#include <xhdf5.h>\n#include <xhdf5.h>\nH5FD_xhdf5_config_t c = H5FD_XHDF5_CONFIG_INIT;\n'
    for compiler, std, suffix in (("cc", "c99", "c"), ("cc", "c17", "c"), ("c++", "c++11", "cc"),
                                  ("c++", "c++20", "cc")):
        claim = f"the header stands alone as {std}"
        if not shutil.which(compiler):
            tap.skip(claim, f"no {compiler}")
            continue
        with tap.claim(claim):
            source = work.path / f"alone.{suffix}"
            source.write_text(text)
            sh(compiler, f"-std={std}", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{harness.TOP}/vfd",
               "-isystem", flags[0][2:], source)


def check_kinds_of_linking(tap, work, sample):
    """Programs of their own build, the plugin loaded or linked."""
    flags = pkg_config("--cflags", "--libs", "hdf5-serial")
    ours = [f"-I{harness.TOP}/vfd", f"-L{harness.BUILD}/vfd", "-lhdf5_vfd_xhdf5", f"-Wl,-rpath,{harness.BUILD}/vfd"]
    env = harness.driver_env()
    life = HERE / "test_life.c"
    with tap.claim("a program that is not position-independent finds its libhdf5"):
        program = work.cc("fixed", HERE / "test_loaded.c", "-no-pie", "-fno-pie", *ours, *flags)
        sh(program, sample, env=env)
    with tap.claim("a library loaded RTLD_LOCAL finds its libhdf5, without HDF5_PLUGIN_PATH"):
        extension = work.cc("extension.so", EXTENSION, "-shared", "-fPIC", *ours, *flags)
        loader = work.cc("loader", LOADER)
        sh(loader, extension, sample, env=harness.clean_env())
    with tap.claim("where HDF5 has loaded another copy of the driver than the one that is linked: an error"):
        others = work.path / "others"
        others.mkdir()
        shutil.copy(pathlib.Path(harness.plugin_dir()) / "libhdf5_vfd_xhdf5.so", others)
        program = work.cc("two", TWO_COPIES, *ours, *flags)
        status, out, err = harness.run([program, sample], {**env, "HDF5_PLUGIN_PATH": str(others)})
        assert status == 0 and err.count("another copy of the driver") >= 5, f"exit status {status}: {err}"
    static = pathlib.Path(flags_dir(flags)) / "libhdf5.a"
    if not static.exists():
        tap.skip("static libhdf5", f"no {static}")
        return
    libs = [flags[0], static, *"-lcrypto -lcurl -lpthread -lsz -laec -lz -ldl -lm".split()]
    with tap.claim("a static libhdf5 that the program exports is found, life after life"):
        program = work.cc("static", life, "-rdynamic", "-Wl,--whole-archive", static, "-Wl,--no-whole-archive", *libs)
        sh(program, "reopen", sample, "d", env=env)
        sh(program, "exit", sample, "d", env=env)
    with tap.claim("a static libhdf5 that is not exported is an error that says so"):
        program = work.cc("hidden", life, *libs)
        status, out, err = harness.run([program, "exit", sample, "d"], env)
        assert status == 1 and "-rdynamic" in err, f"exit status {status}: {err}"
    for how, words in (("not exported", ()), ("exported, and not whole", ("-rdynamic",))):
        with tap.claim(f"a static libhdf5, {how}, and the driver linked: the error says what to do"):
            program = work.cc("mine", example(), *words, *libs, *ours)
            status, out, err = harness.run([program, sample, "d"], env)
            assert status == 1 and "--whole-archive" in err and "-rdynamic" in err, f"exit status {status}: {err}"
    if shutil.which("h5cc"):
        with tap.claim("h5cc -shlib builds the example"):
            source = work.path / "mine.c"
            sh("h5cc", "-shlib", source, "-o", work.path / "by_h5cc", *ours)
            assert sh(work.path / "by_h5cc", sample, "d", env=harness.clean_env()).strip() == SUM


def example():
    """The program of docs/c-api.md."""
    return re.search(r"```c\n(.*?)```", (harness.TOP / "docs/c-api.md").read_text(), re.S).group(1)


def flags_dir(flags):
    """The directory of pkg-config's -L."""
    return next(f[2:] for f in flags if f.startswith("-L"))


def check_installed(tap, work, sample):
    """`meson install`, then the manual's example by pkg-config, and the plugin by its directory."""
    stage = work.path / "stage"
    with tap.claim("meson install puts plugin, header and .pc file in their places"):
        sh("meson", "install", "-C", harness.BUILD, "--no-rebuild", "--quiet", "--destdir", stage)
        found = {p.name: p for p in stage.rglob("*")}
        assert {"xhdf5.h", "xhdf5.pc", "libhdf5_vfd_xhdf5.so", "plugins"} <= found.keys(), sorted(found)
    pc = next(stage.rglob("xhdf5.pc"))
    env = dict(harness.clean_env(), PKG_CONFIG_PATH=str(pc.parent))
    prefix = pkg_config("--variable=prefix", "xhdf5", env=env)[0]
    words = ["pkg-config", f"--define-variable=prefix={stage}{prefix}"]
    with tap.claim("the example of docs/c-api.md builds with pkg-config and reads, without any environment"):
        flags = sh(*words, "--cflags", "--libs", "xhdf5", env=env).split()
        program = work.cc("sum", example(), "-Wall", "-Wextra", "-Werror", *flags,
                          *pkg_config("--cflags", "--libs", "hdf5-serial"),
                          *[f"-Wl,-rpath,{f[2:]}" for f in flags if f.startswith("-L")])
        said = sh(program, sample, "d", env=harness.clean_env()).strip()
        assert said == SUM, said
    with tap.claim("the installed plugin directory serves HDF5_PLUGIN_PATH and holds nothing else"):
        plugins = pathlib.Path(sh(*words, "--variable=plugindir", "xhdf5", env=env).strip())
        assert os.listdir(plugins) == ["libhdf5_vfd_xhdf5.so"], os.listdir(plugins)
        env = dict(harness.driver_env(), HDF5_PLUGIN_PATH=str(plugins))
        assert "DATASET" in sh("h5dump", "-H", sample, env=env)


def main():
    sample = pathlib.Path(sys.argv[1]).resolve()
    tap = harness.Tap()
    check_symbols(tap)
    with tempfile.TemporaryDirectory(prefix="xh-linking-") as path:
        work = Work(path)
        check_header(tap, work)
        check_kinds_of_linking(tap, work, sample)
        check_installed(tap, work, sample)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
