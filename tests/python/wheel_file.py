"""What a wheel is by its file alone: for wheel_check and wheel_check_aarch64."""
import re
import subprocess
import tarfile
import tempfile
import zipfile

GLIBC = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def output(*argv, **kwds):
    return subprocess.run([str(a) for a in argv], check=True, stdout=subprocess.PIPE, text=True, **kwds).stdout


def what_it_is(tap, wheel, prefix="", page_bytes=4096):
    """|prefix|: of binutils for the wheel's machine, whose kernels have pages of up to |page_bytes|."""
    with tempfile.TemporaryDirectory() as d, zipfile.ZipFile(wheel) as z:
        z.extractall(d)
        so, tool = f"{d}/xhdf5/plugins/libhdf5_vfd_xhdf5.so", f"{d}/xhdf5/tool/xhdf5"
        with tap.claim("one wheel for every Python, for glibc 2.28 or older"):
            tag = re.search(r"-(py3-none)-.*manylinux_2_(\d+)_", wheel.name)
            assert tag and int(tag[2]) <= 28, wheel.name
        with tap.claim("it needs the C library and nothing else; the tool HDF5's names beside"):
            for file, more in ((so, ()), (tool, ("H5",))):
                needs = set(re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-d", file)))
                assert needs <= GLIBC, needs
                names = re.findall(r"^ +U (\S+)$", output(f"{prefix}nm", "-D", "--undefined-only", file), re.M)
                assert all("@GLIBC" in n or n.startswith(more or "-") for n in names), names
        with tap.claim(f"its segments can be mapped where pages are of {page_bytes} bytes"):
            for file in so, tool:
                found = output("readelf", "-lW", file)
                segments = re.findall(r"^ +LOAD +(\S+) +(\S+) .* (0x\S+)$", found, re.M)
                assert segments and all(int(align, 16) >= page_bytes for _, _, align in segments), found
                assert all((int(at, 16) - int(to, 16)) % page_bytes == 0 for at, to, _ in segments), found
                ends = [int(to, 16) + int(n, 16) for to, n in
                        re.findall(r"^ +GNU_RELRO +\S+ +(\S+) +\S+ +\S+ +(\S+) ", found, re.M)]
                # The loader protects whole pages alone: what is of a page that is not full stays writable.
                assert ends and all(end % page_bytes == 0 for end in ends), found
        newest = max(tuple(map(int, v.split("."))) for f in (so, tool)
                     for v in re.findall(r"GLIBC_([\d.]+)", output(f"{prefix}nm", "-D", f)))
        tap.ok(newest <= (2, 28), f"its newest symbol of the C library is of {'.'.join(map(str, newest))}", newest)
        with tap.claim("it shows HDF5's names and nothing of curl's or OpenSSL's"):
            shown = set(output(f"{prefix}nm", "-D", "--defined-only", "--format=just-symbols", so).split())
            assert shown and all(s.startswith("H5") for s in shown), shown
        names = z.namelist()
        with tap.claim("what a package index shows of it has no links into a checkout, and names the extras"):
            said = z.read(next(n for n in names if n.endswith("dist-info/METADATA"))).decode()
            assert set(re.findall(r"^Provides-Extra: (.+)$", said, re.M)) == {"h5py", "xarray"}, said
            shown = said.partition("\n\n")[2]
            assert "[h5py]" in shown and "[xarray]" in shown, shown
            assert all(link.startswith("https://") for link in re.findall(r"\]\(([^)]*)\)", shown)), shown
            assert "xhdf5/py.typed" in names
        with tap.claim("licences are listed"):
            assert all(f"xhdf5/licences/{n}" in names for n in ("README.txt", "openssl.txt", "curl.txt", "libzstd.txt",
                                                                   "lz4.txt", "jansson.txt", "uthash.txt", "fuse3.txt"))
            assert any(n.endswith("dist-info/licenses/LICENSE") for n in names)
            with tarfile.open(wheel.with_name("libfuse-source.tar")) as source:    # beside it, as the LGPL wants
                said = z.read("xhdf5/licences/README.txt").decode()
                version = re.search(r"^  fuse3 (?:\d+:)?([^,]+),", said, re.M)[1]
                assert f"fuse3_{version}.dsc" in source.getnames(), (version, source.getnames())
