#!/usr/bin/env python3
"""Hostile files of HDF5's multi driver: the parts that their driver information names.

usage: multi.py BUILD_OF_TESTS    (the directory of test_multi)

HDF5 opens a part that a file names with the program's own lists. So a file at a URL could have it read local files, and
send the user's token to any server.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402
import named  # noqa: E402


def main():
    program = pathlib.Path(sys.argv[1]) / "test_multi"
    tap = harness.Tap()
    with named.Site() as site:
        home, secret = site.run / "home", f"{site.local}/secret-{'x' * 60}-r.h5"
        env = harness.clean_env() | {"BEARER_TOKEN": named.TOKEN}

        def run(*argv, **more):
            status, out, err = harness.run([str(a) for a in (program, *argv)], env | more, cwd=site.cwd)
            assert status == 0, out + err
            return out + err

        def read(name, **more):
            return run("read", site.cacert, f"{site.url['home']}/{name}", **more)
        for version in "old", "latest":
            run("make", home / f"good-{version}", version, "%s-r.h5", "")
            run("make", home / f"raw-{version}", version, "%s-r.h5", f"{site.local}/secret.raw")
            run("make", home / f"local-{version}", version, secret, "")
            with tap.claim(f"{version}: a file of the multi driver at a URL names the parts beside it: they are read"):
                assert read(f"good-{version}") == "d 100\n", read(f"good-{version}")
            with tap.claim(f"{version}: external raw data is refused where its heap lies in another part"):
                out = read(f"raw-{version}")
                assert re.search("(?s)error.*whose data is in the external file.*local_sources", out), out
                assert "33300" not in out, out
                out = read(f"raw-{version}", XHDF5_LOCAL_SOURCES="on")
                assert out == "d 100\next 33300\n", out
            with tap.claim(f"{version}: a local file that it names as a part is refused, but with local_sources"):
                out = read(f"local-{version}")
                assert re.match("(?s)open error.*names '.*xx-r.h5' as another part.*local_sources", out), out
                out = read(f"local-{version}", XHDF5_LOCAL_SOURCES="on")
                assert out == "d 100\n", out
        # The block of the old format has no checksum.
        named_url = f"{site.url['foreign']}/stolen-r.h5".encode()
        text, was = (home / "local-old-s.h5").read_bytes(), secret.encode()
        assert text.count(was) == 1 and len(named_url) < len(was)
        (home / "url-s.h5").write_bytes(text.replace(was, named_url.ljust(len(was), b"\0")))
        (home / "url-l.h5").write_bytes((home / "local-old-l.h5").read_bytes())
        (site.run / "foreign/stolen-r.h5").write_bytes(pathlib.Path(secret).read_bytes())
        with tap.claim("a server that it names is asked for nothing, and gets no token, with local_sources, too"):
            for local in "off", "on":
                before = len(site.logs()["foreign"])
                out = read("url", XHDF5_LOCAL_SOURCES=local)
                assert re.match("(?s)open error.*names 'https://127.*as another part", out), out
                assert site.logs()["foreign"][before:] == "", site.logs()["foreign"]
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
