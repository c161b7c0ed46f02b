#!/usr/bin/env python3
"""URLs that lead somewhere else than to a file: the wrong scheme, port or path, a certificate that has ended, a token that is
none. Each error says what to write or to do instead.

Usage: misaddressed.py [WORD …]        with words: only the claims that hold all of them

At nginx and XRootD where they answer so; liar.py has certificates that no client may take.
"""
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402
from faults import Liar  # noqa: E402
from validators import SAMPLE, Reader, Tap, refused, whole  # noqa: E402

PATHLIB = """
import pathlib, sys
sys.path[:0] = [p for p in sys.argv[2:]]
import h5py
try:
    h5py.File(pathlib.Path(sys.argv[1]), "r")
except Exception as e:
    print(type(e).__name__, e)
"""


def told(reader, url, kind, *text, **env):
    refused(reader.read(url, [0], env=env), kind, *text)


def another_port(liar, kind):
    """A TLS port of its own, whose later connections get the certificate |kind|."""
    with urllib.request.urlopen(f"{liar.http}/_port:tls", timeout=20) as reply:
        base = f"https://127.0.0.1:{json.load(reply)}"
    with contextlib.suppress(OSError):
        subprocess.run(["curl", "-sk", f"{base}/cert-{kind}/x"], timeout=20, check=False, stdout=subprocess.DEVNULL)
    return base


def ports(tap, reader, servers, liar):
    # First of all: libcurl 8.14 takes a TLS connection that is there for http:// too.
    tap.wanted("http to nginx's TLS port: the error says to use https", told, reader,
               servers["nginx"].url.replace("https:", "http:") + "/data.h5",
               "OSError", "https://")
    tap.wanted("http to a TLS port that answers by an alert: the same", told, reader,
               liar.base.replace("https:", "http:") + "/ok/1.h5", "OSError", "https://")
    for kind, server in servers.items():
        tap.wanted(f"{kind}: a directory: the error says that it is one", told, reader, server.url + "/sub", "OSError",
                   "directory", "[Nn]ame a file in it")
        tap.wanted(f"{kind}: a directory with its slash: the same", told, reader, server.url + "/sub/", "OSError",
                   "directory", "[Nn]ame a file in it")
    tap.wanted("a directory that is not shown: the error says that it is one, and of no token", told, reader,
               liar.base + "/403/sub/", "PermissionError",
               "directory", "Name a file in it")
    tap.wanted("https to a plain port: the error says to use http, at once", told, reader,
               liar.http.replace("http:", "https:") + "/ok/2.h5", "OSError",
               "speaks no TLS", "http://")
    for kind, say in (("expired", "has expired.*owner.*clock"), ("host", "another (host|server)"),
                      ("self", "XHDF5_CA_BUNDLE")):
        def show(kind=kind, say=say):
            told(reader, another_port(liar, kind) + "/ok/1.h5", "OSError", "certificate", say)
        tap.wanted(f"a certificate that no client may take ({kind}): the error says why, and whose it is to mend", show)


def names(tap, reader, servers):
    for name, *text in (
            ("s3a://bucket/x.h5", "write s3://BUCKET/KEY"), ("davs://h/x.h5", "write https:// instead"),
            ("root://h//x.h5", "serve the same paths over https"),
            ("htps://h/x.h5", "write https://h/x.h5"), ("https:/h/x.h5?sig=SECRET", r"pathlib\.Path"),
            (" https://h/x.h5", "begins with a blank"),
            ("h.example.org:/x.h5", "scp")):
        def show(name=name, text=text):
            result = reader.read(name, [0])
            refused(result, "FileNotFoundError", "no such local file", *text)
            assert "SECRET" not in result["text"], result["text"]
        tap.wanted(f"{name.partition('?')[0]!r}: FileNotFoundError that says what to write", show)
    def pathlib_url():
        status, out, err = harness.run([harness.H5PY["3.14.0"], "-c", PATHLIB, servers["nginx"].url + "/data.h5"],
                                       harness.driver_env(servers["nginx"]))
        assert re.search(r"pathlib\.Path\(\) makes one slash of two: give the URL as a string", out), out + err
    tap.wanted("pathlib.Path of a URL: the error says what it does", pathlib_url)
    def in_the_way():
        with tempfile.TemporaryDirectory() as d, contextlib.chdir(d):
            os.mkdir("s3:")
            status, out, err = harness.run([harness.H5PY["3.14.0"], "-c",
                                            "import h5py, sys; h5py.File('s3:/x.h5', 'w')['a'] = 1; "
                                            "print(h5py.File('s3:/x.h5')['a'][()])"], harness.driver_env(), cwd=d)
            assert out.strip() == "1", out + err
    tap.wanted("a local file whose name looks like a URL's is read and written", in_the_way)
    tap.wanted("a port that is left empty is the scheme's own", told, reader,
               servers["nginx"].url.rpartition(":")[0] + ":/data.h5", "OSError",
               "(no connection|443|port)")


def answers(tap, reader, http, liar):
    tap.wanted("403 with Retry-After once: asked again, as it is a limit of how often",
               lambda: whole(reader.read(http.base + "/limit:0@2-2/1.h5")))
    tap.wanted("403 with Retry-After for good: the error speaks of the limit, and of no token", limit, reader, http)
    tap.wanted("what a server says cannot steer a terminal", controls, reader, liar)
    tap.wanted("a token that is none: a line says that it is not sent; what is public is read", malformed, reader, liar)


TOOL = harness.BUILD / "vfd" / "tool" / "xhdf5"


def doctor(env, url, step, *text, never=None):
    """The doctor's step that fails, and what it says and advises."""
    status, out, err = harness.run([TOOL, "doctor", "--quick", "--json", url], env)
    failed = [s for s in json.loads(out)["steps"] if s["state"] == "failed"]
    assert status == 3 and [s["step"] for s in failed] == [step], out + err
    said = failed[0]["text"] + " -> " + failed[0].get("advice", "")
    for pattern in text:
        assert re.search(pattern, said), f"does not tell {pattern!r}: {said}"
    assert never is None or not re.search(never, said), said


def doctors(tap, servers, liar, http, trusted, shadow):
    """xhdf5 doctor says of each what the error of an opening says."""
    env = harness.driver_env(None, shadow, retries=1) | {"XHDF5_CA_BUNDLE": trusted, "BEARER_TOKEN_FILE": os.devnull}

    def claim(text, url, step, *said, never=None, **more):
        tap.wanted(f"doctor: {text}",
                   lambda: doctor(env | more, url() if callable(url) else url, step, *said, never=never))
    claim("http to nginx's TLS port: use https", servers["nginx"].url.replace("https:", "http:") + "/data.h5", "reply",
          "write https://", never="URL of a file")
    claim("http to a TLS port that answers by an alert: perhaps https",
          liar.base.replace("https:", "http:") + "/ok/8.h5", "reply", "write https://")
    for kind, say, never in (("expired", "owner has to renew it.*clock", "XHDF5_CA_BUNDLE=|another host"),
                             ("host", "made out to another host", "XHDF5_CA_BUNDLE=|renew|clock"),
                             ("self", "XHDF5_CA_BUNDLE=", "renew|clock|another host")):
        claim(f"a certificate that no client may take ({kind}): why, and whose it is to mend",
              lambda kind=kind: another_port(liar, kind) + "/ok/8.h5", "TLS", say, never=never)
    for kind, server in servers.items():
        for end in "", "/":
            claim(f"{kind}: a directory{' with its slash' if end else ''}: it is one", server.url + "/sub" + end,
                  "reply", "URL of a directory. Name a file in it", never="login|range")
    claim("a directory that is not shown: it is one", liar.base + "/403/sub/", "reply", "directory.*Name a file in it",
          never="token")
    claim("403 with Retry-After: a limit of how often, and no token", liar.base + "/limit:0/8.h5", "reply",
          "limits how often", never="token")
    claim("401 over http: use https", http.base + "/token/8.h5", "reply", "no token is sent over http: use https")
    claim("a token that is none was not sent, which is not the same as none", liar.base + "/token/8.h5", "reply",
          "no token was sent", never="no token was found", BEARER_TOKEN="two words")


def to_write(tap, servers, directory):
    """A directory is opened to be written by no mode."""
    program = "import sys, h5py; h5py.File(sys.argv[1], sys.argv[2])"
    for kind, server in servers.items():
        for mode in "w", "x", "a", "r+":
            for end in "", "/":
                def show(server=server, mode=mode, end=end):
                    env = harness.driver_env(server, writable="on", overlay_dir=directory / "kept")
                    words = [harness.H5PY["3.14.0"], "-c", program, server.url + "/sub" + end, mode]
                    status, out, err = harness.run(words, env)
                    assert status and re.search(r"this is a directory.*Name a file in it", err), err or "it was opened"
                tap.wanted(f"{kind}: a directory{end and ' with its slash'}, to be written ({mode}): the error says "
                           "that it is one", show)


def limit(reader, http):
    result = reader.read(http.base + "/limit:0/2.h5", [0])
    refused(result, "OSError", "limit", "Retry-After|ask.* again|less often")
    assert "token" not in result["text"], result["text"]


def controls(reader, liar):
    result = reader.read(liar.base + "/controls/1.h5", [0])
    refused(result, "PermissionError", "the server says: no .31m red")
    assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e]", result["text"]), repr(result["text"])


def malformed(reader, liar):
    before = len(reader.printed())
    whole(reader.read(liar.base + "/ok/3.h5", env={"BEARER_TOKEN": "two words"}))
    whole(reader.read(liar.base + "/ok/4.h5", env={"BEARER_TOKEN": "two words"}))
    more = reader.printed()[before:]
    assert more.count("no token is sent") == 1 and "BEARER_TOKEN holds" in more and "two words" not in more, more
    told(reader, liar.base + "/token/5.h5", "PermissionError", "BEARER_TOKEN holds", BEARER_TOKEN="two words")


def main():
    tap = Tap(sys.argv[1:])
    with contextlib.ExitStack() as stack:
        directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="xh-misaddressed-")))
        directory.chmod(0o755)
        root = directory / "root"
        (root / "sub").mkdir(parents=True)
        files = root / "data.h5", directory / "small.h5"
        status, _, err = harness.run([harness.DATA_PYTHON, "-c", SAMPLE, *files], harness.clean_env())
        assert status == 0, err
        for p in (root, root / "sub"):
            p.chmod(0o755)
        files[0].chmod(0o644)
        servers = {kind: stack.enter_context(harness.Server(kind, root)) for kind in ("nginx", "xrootd")}
        liar, http = stack.enter_context(Liar(files[0], directory / "tls")), stack.enter_context(Liar(files[0]))
        trusted = directory / "trusted.pem"
        trusted.write_text("".join(pathlib.Path(p).read_text()
                                   for p in (liar.cacert, *(s.cacert for s in servers.values()))))
        shadow = stack.enter_context(harness.shadow_dir())
        reader = Reader(directory, shadow, str(trusted))
        ports(tap, reader, servers, liar)
        names(tap, reader, servers)
        answers(tap, reader, http, liar)
        doctors(tap, servers, liar, http, str(trusted), shadow)
        to_write(tap, servers, directory)
        reader.end()
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
