#!/usr/bin/env python3
"""Proxies and the environment: which proxy is used, what is said of it, and who reads the variables. TAP.

Usage: proxies.py ORIGIN_READ WATCHED_GETENV

The server is tests/support/liar.py with TLS and without, the proxy tests/support/connect_proxy.py, and Squid.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent),
                str(pathlib.Path(__file__).resolve().parents[1] / "support")]
import connect_proxy  # noqa: E402
import faults  # noqa: E402
import harness  # noqa: E402

H5PY = harness.H5PY["3.14.0"]
PASSWORD = "top%2Fsecret"       # as a URL has it
PLAIN = "top/secret"
VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
# Reads a dataset; changes the environment; reads another one.
READER = """
import ctypes, os, sys, h5py, json, threading
with h5py.File(sys.argv[1], "r") as f:
    a = int(f["a"][...].sum())
    os.environ.update(json.loads(sys.argv[2]))
    print(a, int(f["b"][...].sum()))
if "LD_PRELOAD" in os.environ:      # that it is seen
    thread = threading.Thread(target=ctypes.CDLL(None).getenv, args=(b"CONTROL",))
    thread.start()
    thread.join()
"""
SAMPLE = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], "w") as f:
    f["a"], f["b"] = np.arange(3000000), np.arange(5000000)
"""


class Test:
    def __init__(self, program, file, liar, shadow):
        self.program, self.file, self.liar, self.shadow = program, file, liar, shadow
        self.clean = {k: v for k, v in harness.clean_env().items()
                      if k.lower() not in VARIABLES} | {"XHDF5_CA_BUNDLE": liar.cacert}

    def env(self, proxy, variable="https_proxy", login=f"me:{PASSWORD}@", **more):
        return self.clean | {variable: f"http://{login}127.0.0.1:{proxy.port}", "XHDF5_LOG": "all",
                             "XHDF5_STATS": "on"} | more

    def open(self, env, base=None):
        """What it printed, errors and traces too."""
        status, out, err = harness.run([self.program, "--open", f"{base or self.liar.base}/ok/x.h5"], env)
        return out, err

    def h5py(self, env, changes=None, **options):
        env = harness.driver_env(None, self.shadow, **options) | env
        return harness.run([H5PY, "-c", READER, f"{self.liar.base}/ok/x.h5", json.dumps(changes or {})], env)


def nothing_shown(*texts):
    for text in texts:
        for secret in (PASSWORD, PLAIN, "bWU6"):     # base64 of "me:"
            assert secret not in text, text[-2000:]


def used(tap, t):
    for base, variable, word in ((t.liar.base, "https_proxy", "CONNECT 127."),
                                 (t.liar.http, "http_proxy", " http://127.")):
        with tap.claim(f"{variable} with a name and a password: read through it, and neither is shown"), connect_proxy.Proxy(f"me:{PLAIN}") as p:
            out, err = t.open(t.env(p, variable), base)
            assert out.startswith("size="), out
            assert p.asked and all(word in line and status == 200 for line, _, status in p.asked), p.asked
            nothing_shown(out, err)
    with tap.claim("the variables are read as curl reads them"):
        host = "127.0.0.1"
        for variables, base, goes in (
                ({"HTTPS_PROXY": 1}, t.liar.base, 1), ({"all_proxy": 1}, t.liar.base, 1),
                ({"ALL_PROXY": 1}, t.liar.http, 1),
                ({"HTTP_PROXY": 1}, t.liar.http, 0), ({"http_proxy": 1}, t.liar.base, 0),
                ({"https_proxy": 1}, t.liar.http, 0),
                ({"https_proxy": "", "ALL_PROXY": 1}, t.liar.base, 1),
                ({"https_proxy": 1, "ALL_PROXY": "http://127.0.0.1:1"}, t.liar.base, 1),
                ({"https_proxy": 1, "no_proxy": "*"}, t.liar.base, 0),
                ({"https_proxy": 1, "NO_PROXY": host}, t.liar.base, 0),
                ({"https_proxy": 1, "no_proxy": f"a.org, {host}"}, t.liar.base, 0),
                ({"https_proxy": 1, "no_proxy": "127.0.0.0/8"}, t.liar.base, harness.libcurl() < (7, 86)),
                ({"https_proxy": 1, "no_proxy": "27.0.0.1,128.0.0.0/8"}, t.liar.base, 1),
                ({"https_proxy": 1, "no_proxy": ""}, t.liar.base, 1)):
            # One proxy for each: connections of the program before may be accepted late.
            with connect_proxy.Proxy() as p:
                env = t.clean | {k: f"127.0.0.1:{p.port}" if v == 1 else v for k, v in variables.items()}
                out, err = t.open(env, base)
                assert out.startswith("size="), (variables, out)
                assert bool(p.connections()) == bool(goes), (variables, base)


def refused(tap, t):
    for what, value in (("a port that is none", f"http://me:{PASSWORD}@127.0.0.1:12x"),
                        ("a slash in the password", f"http://me:{PLAIN}@127.0.0.1:1"),
                        ("a host that is none", f"http://me:{PASSWORD}@a b:1"),
                        ("a scheme that is none", f"me:{PASSWORD}://127.0.0.1:1")):
        with tap.claim(f"a proxy with {what}: the error names the variable and not the password, and nothing is asked"):
            out, err = t.open(t.clean | {"https_proxy": value, "XHDF5_LOG": "all"})
            assert out.startswith("XH_E_INVAL") and "https_proxy" in out, out
            nothing_shown(out, err)
            out = t.open(t.clean | {"https_proxy": value, "no_proxy": "127.0.0.1"})[0]
            assert out.startswith("size="), out
    with tap.claim("a login that the proxy refuses (407) is shown to it once, whatever is opened and however often, and the error says so"), \
            connect_proxy.Proxy("me:another") as p:
        env = t.env(p, XHDF5_SIDECAR="auto")
        code = "import sys, h5py\nfor i in range(3):\n    try:\n        h5py.File(sys.argv[1])\n    except PermissionError as e:\n        print(e)"
        out, err = harness.run([H5PY, "-c", code, f"{t.liar.base}/ok/x.h5"],
                               harness.driver_env(None, t.shadow) | env)[1:]
        assert out.count("407 Proxy Authentication Required") == 3 and "https_proxy" in out and f"127.0.0.1:{p.port}" in out, out + err[-1000:]
        assert [status for _, _, status in p.asked] == [407], p.asked
        nothing_shown(out, err)
    with tap.claim("so it is when a file is to be written"), connect_proxy.Proxy("me:another") as p:
        code = "import sys, h5py\ntry:\n    h5py.File(sys.argv[1], 'w')\nexcept OSError as e:\n    print(type(e).__name__, e)"
        env = harness.driver_env(None, t.shadow, writable="on", overlay_dir=t.file.with_name("kept")) | t.env(p)
        out, err = harness.run([H5PY, "-c", code, f"{t.liar.base}/ok/new.h5"], env)[1:]
        assert "PermissionError" in out and "407 Proxy Authentication Required" in out, out + err[-1000:]
        assert [status for _, _, status in p.asked] == [407], p.asked
        nothing_shown(out, err)
    with tap.claim("of http the same, where the proxy answers instead of the server"), connect_proxy.Proxy("me:another") as p:
        out, err = t.open(t.env(p, "http_proxy"), t.liar.http)
        assert out.startswith("XH_E_ACCES 407") and "http_proxy" in out, out
        assert len(p.asked) == 1, p.asked
        nothing_shown(out, err)
    for base, variable in ((t.liar.base, "https_proxy"), (t.liar.http, "http_proxy")):
        with tap.claim(f"{variable} by SOCKS: read through it"), connect_proxy.Socks(f"me:{PLAIN}") as p:
            out, err = t.open(t.clean | {variable: f"socks5h://me:{PASSWORD}@127.0.0.1:{p.port}", "XHDF5_LOG": "all"},
                              base)
            assert out.startswith("size=") and p.asked, out
            nothing_shown(out, err)
        with tap.claim(f"{variable} by SOCKS: a login that is refused is shown once, and the error says so"), connect_proxy.Socks("me:another") as p:
            out, err = t.open(t.clean | {variable: f"socks5h://me:{PASSWORD}@127.0.0.1:{p.port}", "XHDF5_LOG": "all"},
                              base)
            assert out.startswith("XH_E_ACCES 407") and variable in out, out
            assert len(p.asked) == 1, p.asked
            nothing_shown(out, err)
    with tap.claim("a proxy that wants a login and is given none: an error that says how to give one"), connect_proxy.Proxy("me:another") as p:
        out, err = t.open(t.env(p, login=""))
        assert out.startswith("XH_E_ACCES 407") and "https_proxy=http://user:password@" in out, out
    with tap.claim("a proxy that forbids the server (403): no retry, and an error that says so"), connect_proxy.Proxy(refuses=403) as p:
        out, err = t.open(t.env(p, login=""))
        assert out.startswith("XH_E_ACCES 403") and "does not let this machine connect" in out and "no_proxy" in out, out
        assert len(p.asked) <= 2, p.asked     # PROPFIND beside the head
    with tap.claim("… and neither the next opening nor one to write asks it again"), connect_proxy.Proxy("me:top/secret", refuses=403) as p:
        code = ("import sys, h5py\nfor mode in 'rrwr':\n    try:\n        h5py.File(sys.argv[1], mode)\n"
                "    except PermissionError as e:\n        print(e)")
        env = harness.driver_env(None, t.shadow, writable="on", overlay_dir=t.file.with_name("kept")) | t.env(p)
        out, err = harness.run([H5PY, "-c", code, f"{t.liar.base}/ok/forbidden.h5"], env)[1:]
        assert out.count("does not let this machine connect") == 4, out + err[-1000:]
        assert [status for _, _, status in p.asked] == [403], p.asked
        nothing_shown(out, err)
    with tap.claim("a proxy that cannot reach the server (503) is asked again, and the error tells its status"), connect_proxy.Proxy(refuses=503) as p:
        out, err = t.open(t.env(p, login="", XHDF5_RETRIES="1"))
        assert out.startswith("XH_E_NET 503") and f"127.0.0.1:{p.port}" in out and len(p.asked) >= 2, (out, p.asked)
    for status in 302, 511:
        with tap.claim(f"a proxy that wants a login by a browser ({status}): the error says so"), \
                connect_proxy.Proxy(refuses=status) as p:
            out, err = t.open(t.env(p, login="", XHDF5_RETRIES="1"))
            assert out.startswith(f"XH_E_NET {status}") and f"127.0.0.1:{p.port}" in out and "browser" in out, out
    with tap.claim("a proxy that answers 100 first: no retry, and an error that names it"), \
            connect_proxy.Proxy(interim=b"HTTP/1.1 100 Continue\r\n\r\n") as p:
        out, err = t.open(t.env(p, login=""))
        assert out.startswith("XH_E_NET 100") and f"127.0.0.1:{p.port}" in out and "1xx" in out, out
        assert "browser" not in out and len(p.asked) <= 2, (out, p.asked)


def doctor(tap, t):
    with tap.claim("xhdf5 doctor names the proxy without its login"), connect_proxy.Proxy(f"me:{PLAIN}") as p:
        out, err = harness.run([harness.BUILD / "vfd/tool/xhdf5", "doctor", "--quick", f"{t.liar.base}/ok/x.h5"],
                               t.env(p))[1:]
        assert f"http://127.0.0.1:{p.port} (https_proxy)" in out and "206" in out, out + err
        nothing_shown(out, err)
    with tap.claim("xhdf5 doctor tells a proxy that refuses"), connect_proxy.Proxy("me:another") as p:
        out, err = harness.run([harness.BUILD / "vfd/tool/xhdf5", "doctor", "--quick", f"{t.liar.base}/ok/x.h5"],
                               t.env(p))[1:]
        assert "407 Proxy Authentication Required" in " ".join(out.split()), out + err
        nothing_shown(out, err)


def squid(tap, t):
    """A real one: CONNECT and absolute URLs, with a login. Its log has who asked for what, and how that ended."""
    try:
        server = harness.Server("squid-proxy", None, words=("--ports", "1-65535")).__enter__()
    except harness.serve().Impossible as why:
        tap.skip("Squid", why)
        return
    log = pathlib.Path(server.facts["log"])
    try:
        token, address = server.facts["token"], server.url.removeprefix("http://")

        def open_by(login, variable, base):
            before = len(log.read_text().splitlines())
            env = {k: v for k, v in t.clean.items()} | {variable: f"http://{login}{address}", "XHDF5_LOG": "all"}
            out, err = t.open(env, base)
            assert token not in out + err, err[-2000:]
            return out, lambda: log.read_text().splitlines()[before:]
        for base, variable, word in ((t.liar.base, "https_proxy", "CONNECT 127."),
                                     (t.liar.http, "http_proxy", "GET http")):
            with tap.claim(f"{variable} is Squid: read through it"):
                out, asked = open_by(f"reader:{token}@", variable, base)
                assert out.startswith("size="), out
                harness.wait_for(lambda: any(f'user="reader" "{word}' in line for line in asked()), "a line in its log")
            for what, login in (("a wrong login", "reader:wrong@"), ("no login", "")):
                with tap.claim(f"{variable} is Squid, and {what} is refused: said once, and what to do"):
                    out, asked = open_by(login, variable, base)
                    assert out.startswith("XH_E_ACCES 407") and variable in out, out
                    harness.wait_for(lambda: asked(), "a line in its log")
                    assert len(asked()) <= 2 and all("status=407" in line for line in asked()), asked()
    finally:
        server.__exit__()


def at_opening(tap, t, watched):
    right = f"{sum(range(3000000))} {sum(range(5000000))}\n"
    with tap.claim("a proxy that is set after a file was opened is not that file's"), connect_proxy.Proxy() as p:
        status, out, err = t.h5py(t.clean, {"https_proxy": f"http://127.0.0.1:{p.port}"}, readahead="off",
                                  stream_bytes=0)
        assert out == right and not p.asked, (out, err, p.asked)
    with tap.claim("one that was set when it was opened stays, whatever is set then"), connect_proxy.Proxy() as p:
        env = {k: v for k, v in t.env(p, login="").items() if k != "XHDF5_LOG"}
        status, out, err = t.h5py(env, {"https_proxy": "http://127.0.0.1:1", "no_proxy": "*"}, readahead="off",
                                  stream_bytes=0)
        assert out == right and p.asked, (out, err, p.asked)
    with tap.claim("no thread but the program's own reads an environment variable: opening, sidecars, several endpoints, reading"):
        netrc = t.file.with_name("netrc")
        netrc.write_text("machine a.org login x password y\n")
        netrc.chmod(0o600)
        env = t.clean | {"LD_PRELOAD": watched, "NETRC": str(netrc), "BEARER_TOKEN": "x", "XHDF5_NETRC": "on"}
        both = f"{t.liar.base}/ok,{t.liar.other}/ok"
        for options in ({"sidecar": "auto"}, {"sidecar": "body"}, {"endpoints": both}):
            status, out, err = t.h5py(env, **options)
            assert out == right, out + err[-2000:]
            asked = set(re.findall("getenv .*", err))
            assert len(asked) == 1 and "getenv CONTROL " in asked.pop(), asked


def main():
    tap = harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-proxies-") as d, harness.shadow_dir() as shadow:
        file = pathlib.Path(d, "x.h5")
        subprocess.run([str(H5PY), "-c", SAMPLE, str(file)], check=True, env=harness.clean_env())
        with faults.Liar(file, pathlib.Path(d, "tls")) as liar:
            t = Test(sys.argv[1], file, liar, shadow)
            used(tap, t)
            refused(tap, t)
            squid(tap, t)
            doctor(tap, t)
            at_opening(tap, t, os.path.abspath(sys.argv[2]))
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
