#!/usr/bin/env python3
"""The driver takes little stack: threads of programs that have thousands, and of some languages, have 64 KiB.

usage: stack.py BUILD_OF_TESTS    (the directory of test_stack)
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402
import named  # noqa: E402

MOST = 56 << 10     # of 64 KiB, of which the C library takes some


def main():
    program = pathlib.Path(sys.argv[1]) / "test_stack"
    tap = harness.Tap()
    with named.Site() as site:
        file = f"{site.url['home']}/private/hostile.h5"
        env = harness.clean_env() | {"BEARER_TOKEN": named.TOKEN, "XHDF5_CA_BUNDLE": site.cacert, "XHDF5_SHADOW": "off",
                                     "XHDF5_OVERLAY_DIR": str(site.run / "overlay"), "XHDF5_WRITABLE": "on"}
        for way, name in {"open": file, "link": file, "expect": file, "bytes": file, "local": site.local / "near.h5",
                          "change": f"{site.url['home']}/private/near.h5",
                          "create": f"{site.url['home']}/private/fresh.h5"}.items():
            for more in ({}, {"XHDF5_LOCAL_SHADOW": "on"}) if way == "local" else ({},):
                with tap.claim(f"{way}{', local_shadow' if more else ''}: at most {MOST} bytes of stack"):
                    status, out, err = harness.run([str(program), way, str(name)], env | more,
                                                   cwd=site.cwd)
                    assert status == 0, out + err
                    print(f"# {way}: {out.strip()} bytes", flush=True)
                    assert int(out) <= MOST, out
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
