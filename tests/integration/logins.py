#!/usr/bin/env python3
"""Logins by redirect, as NASA's Earthdata has them: tests/support/archive.py. TAP.

Usage: logins.py ORIGIN_READ

All is read by h5py and by origin_read, with all logs on. In the end the logs of the hosts, and all that came out of the
readers, are searched for passwords, tokens, cookies and signatures.
"""
import hashlib
import importlib.util
import os
import pathlib
import re
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402
import obedient  # noqa: E402

H5PY = harness.H5PY["3.14.0"]
SAMPLE = """
import sys, h5py, numpy as np
for path in sys.argv[1:]:
    with h5py.File(path, "w") as f:
        f["a"] = np.arange(100000)
        f["large"] = np.arange(6 << 20)     # large enough that nothing brings it before it is asked for
with h5py.File(sys.argv[1].replace("f.h5", "names.h5"), "w") as f:
    f["link"] = h5py.ExternalLink("https://data.example.earthdatacloud.nasa.gov/signed/f.h5", "/a")
    layout = h5py.VirtualLayout((16, 100), "i8")
    for i in range(16):
        with h5py.File(sys.argv[1].replace("f.h5", f"s{i}.h5"), "w") as source:
            source["a"] = np.arange(100) + i
        layout[i] = h5py.VirtualSource(f"https://data.example.earthdatacloud.nasa.gov/signed/s{i}.h5", "a", (100,))
    f.create_virtual_dataset("all", layout)
"""


class Test:
    def __init__(self, site, directory, shadow, origin_read):
        self.site, self.dir, self.shadow, self.origin_read = site, directory, shadow, origin_read
        self.said = ""
        env = harness.driver_env(None, shadow, log="all", retries=2, readahead="off", head_bytes=4096,
                                 whole_file_bytes=4096)
        for name in ("EARTHDATA_TOKEN", "no_proxy", "NO_PROXY", "http_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
            env.pop(name, None)
        env |= {"BEARER_TOKEN_FILE": os.devnull, "XDG_RUNTIME_DIR": str(directory), "HOME": str(directory)}
        self.env = env | site.env()
        local = obedient.Reader(harness.clean_env())
        self.digests = local.ask(open=str(directory / "data/f.h5"), digest=["a", "large"])["digest"]
        local.end()
        self.all = [hashlib.sha256(b"".join((i + n).to_bytes(8, "little") for i in range(16)
                                            for n in range(100))).hexdigest()]

    def netrc(self, password, machine=None, host=None):
        file = pathlib.Path(tempfile.mkdtemp(dir=self.dir), "netrc")
        file.write_text(f"{machine or 'machine ' + (host or archive.LOGIN)} login {archive.USER} password {password}\n")
        file.chmod(0o600)
        return {"NETRC": str(file), "XHDF5_NETRC": "on"}

    def reader(self, **env):
        return obedient.Reader(self.env | env)

    def end(self, reader):
        self.said += reader.end()

    def open(self, url, names=("a",), **env):
        """What a process of its own gets."""
        reader = self.reader(**env)
        result = reader.ask(open=url, digest=list(names))
        self.end(reader)
        return result

    def read(self, url, **env):
        """The same by origin_read, which compares all bytes."""
        status, out, err = harness.run([self.origin_read, url, self.dir / "data/f.h5", 5, 20],
                                       self.env | {"XHDF5_LOG": ""} | env)
        self.said += out + err
        return out

    def good(self):
        return self.netrc(archive.PASSWORD)


def refused(result, *text):
    assert "text" in result, "it was read"
    assert "PermissionError" in result["kinds"], result
    for pattern in text:
        assert re.search(pattern, result["text"]), f"does not tell {pattern!r}: {result['text']}"


def counted(app):
    with app.lock:
        return app.sent_to_login, app.shown, app.logins


def since(app, before):
    return tuple(now - then for now, then in zip(counted(app), before))


URL = "https://data.example.earthdatacloud.nasa.gov"


def good(tap, t, app):
    for way in ("signed", "own"):
        with tap.claim(f"/{way}/: a name and a password in the netrc file read it: one login for a process's files"):
            before, reader = counted(app), t.reader(**t.good(), XHDF5_SIDECAR="auto")
            for name in ("f", "g", "f"):
                said = reader.ask(open=f"{URL}/{way}/{name}.h5", digest=["a"])
                assert said.get("digest") == t.digests[:1], said
            t.end(reader)
            assert since(app, before)[1:] == (1, 1), since(app, before)   # sidecars are sent to log in too, and wait
    with tap.claim("the signed URL is asked directly for all but the first bytes of each file"):
        log = t.site.log("data")
        assert log.count("GET /signed/f.h5 302") <= 6, log.count("GET /signed/f.h5 302")


def expired(tap, t, app):
    for way, renews in (("own", 1), ("signed", 0)):
        with tap.claim(f"/{way}/: a session ends while the file is open: {renews} further logins, and the right bytes"):
            reader = t.reader(**t.good())
            first = reader.ask(open=f"{URL}/{way}/f.h5", digest=["a"], close=False)
            assert first.get("digest") == t.digests[:1], first
            t.site.expire()
            before = counted(app)
            then = reader.ask(digest=["large"])
            assert then.get("digest") == t.digests[1:], then
            t.end(reader)
            assert since(app, before)[2] == renews, since(app, before)
    with tap.claim("/signed/: session and signature end while the file is open: a further login, and the right bytes"):
        app.signed_s = 2
        reader = t.reader(**t.good())
        first = reader.ask(open=f"{URL}/signed/g.h5", digest=["a"], close=False)
        assert first.get("digest") == t.digests[:1], first
        t.site.expire()
        ends, app.signed_s = time.time() + 3, 600
        while time.time() < ends:   # nginx counts in seconds
            time.sleep(0.05)
        before = counted(app)
        then = reader.ask(digest=["large"])
        assert then.get("digest") == t.digests[1:], then
        t.end(reader)
        assert since(app, before) == (1, 1, 1), since(app, before)


def at_once(tap, t, app):
    with tap.claim("a session ends under many connections: all are sent to log in, one does, a fork's child goes on"):
        app.forget, app.waits_for = 60, 3
        before = counted(app)
        said = t.read(f"{URL}/own/f.h5", **t.good())
        app.forget, app.waits_for = None, 0
        assert said.startswith("ok:"), said
        sent, shown, logins = since(app, before)
        print(f"# {sent} sent to log in, {shown} times with the password, {logins} logins")
        assert sent > 3 and shown == logins == 2, (sent, shown, logins)


    with tap.claim("sixteen sources of a virtual dataset: one login"):
        before = counted(app)
        said = t.open(str(t.dir / "data/names.h5"), ["all"], **t.good(), XHDF5_CREDENTIAL_HOSTS=archive.DATA,
                      XHDF5_READAHEAD="on")
        assert said.get("digest") == t.all, said
        assert since(app, before)[1:] == (1, 1), since(app, before)


def wrong(tap, t, app):
    for how in ("401", "page"):
        with tap.claim(f"a wrong password ({how}): PermissionError that names the login host; it is shown once"
                       " for several files"):
            app.wrong = how
            before, reader = counted(app), t.reader(**t.netrc("Wrong-Word-Of-Somebody"))
            for name in ("f", "g"):
                refused(reader.ask(open=f"{URL}/signed/{name}.h5"), f"signed/{name}.h5", f"login at {archive.LOGIN}",
                        "failed", "netrc file")
            t.end(reader)
            assert since(app, before)[1] == 1, since(app, before)
    app.wrong = "401"
    for what, env in (("no netrc", {}), ("netrc without the host", t.netrc(archive.PASSWORD, host="else.example")),
                      ("netrc with a default alone", t.netrc("a-word-for-any", machine="default")),
                      ("the login host not listed", t.good() | {"XHDF5_LOGIN_HOSTS": "login.example.org"})):
        with tap.claim(f"{what}: PermissionError that says what to do; the login host gets no password"):
            before = counted(app)
            says = () if "LOGIN_HOSTS" in str(env) else ("EARTHDATA_TOKEN", "XHDF5_NETRC=on",
                                                         f"machine {archive.LOGIN}")
            refused(t.open(f"{URL}/signed/f.h5", **env), re.escape(archive.LOGIN), *says)
            assert since(app, before)[1] == 0, since(app, before)
    with tap.claim("login_hosts that makes no sense: an error that says so"):
        said = t.open(f"{URL}/signed/f.h5", **t.good(), XHDF5_LOGIN_HOSTS=".nasa.gov")
        assert "login_hosts" in said.get("text", "") and ".nasa.gov" in said["text"], said


def unapproved(tap, t, app):
    app.approved = False
    for how in ("401", "page", "error"):
        app.unapproved = how
        with tap.claim(f"an application that the user has not approved ({how}): PermissionError that says so"):
            refused(t.open(f"{URL}/signed/f.h5", **t.good()), archive.LOGIN, "approve the application",
                    "error=access_denied" if how == "error" else "has not approved")
    app.approved = True
    with tap.claim("a login host that cannot be reached: an error that names it"):
        port = t.site.proxy.to.pop(f"{archive.LOGIN}:443")
        said = t.open(f"{URL}/signed/f.h5", **t.good())
        t.site.proxy.to[f"{archive.LOGIN}:443"] = port
        assert archive.LOGIN in said.get("text", ""), said
    with tap.claim("a server that keeps no session: PermissionError that says it is a loop, after one login"):
        app.keeps = False
        before = counted(app)
        refused(t.open(f"{URL}/signed/f.h5", **t.good()), f"login at {archive.LOGIN}", "loop")
        assert since(app, before)[2] == 1, since(app, before)
        app.keeps = True


def token(tap, t, app):
    with tap.claim("EARTHDATA_TOKEN: no login, and the signed URL gets no token"):
        before = counted(app)
        said = t.open(f"{URL}/signed/f.h5", EARTHDATA_TOKEN=archive.TOKEN, BEARER_TOKEN="AnotherTokenThatIsNotForThem")
        assert said.get("digest") == t.digests[:1] and since(app, before) == (0, 0, 0), (said, since(app, before))
        assert "AnotherTokenThatIsNotForThem" not in t.site.log("data")
    with tap.claim("a token that is not taken: PermissionError that names EARTHDATA_TOKEN"):
        refused(t.open(f"{URL}/signed/f.h5", EARTHDATA_TOKEN="EDL-OldTokenOfAlice-1"), "token of EARTHDATA_TOKEN",
                "not accepted")
    with tap.claim("another host that the user names gets no EARTHDATA_TOKEN"):
        refused(t.open(f"https://{archive.OTHER}/f.h5", EARTHDATA_TOKEN=archive.TOKEN), "401", "no token was found")
        assert "Bearer" not in t.site.log("other")


def hostile(tap, t, app):
    other, there = f"https://{archive.OTHER}", f"{archive.LOGIN}/oauth/authorize?client_id="
    for what, url in (("a redirect to another host that asks for a password", f"{URL}/to/{archive.OTHER}/f.h5"),
                      ("a redirect to a host in the domain of the cookie", f"{URL}/to/{archive.SIBLING}/f.h5"),
                      ("such a host that the program names", f"https://{archive.SIBLING}/f.h5"),
                      ("another host's redirect to the login, which was not sent from the archive",
                       f"{other}/to/{there}other&response_type=code&redirect_uri={other}"),
                      ("a redirect through the login to another host",
                       f"{URL}/to/{there}archive&response_type=code&redirect_uri={other}/give"),
                      ("another port of the login host", f"{URL}/to/{archive.LOGIN}:8443/oauth/authorize")):
        with tap.claim(f"{what}: nothing is given away"):
            reader = t.reader(**t.good(), EARTHDATA_TOKEN="")
            assert reader.ask(open=f"{URL}/own/f.h5", digest=["a"]).get("digest")     # so there is a session
            assert "text" in reader.ask(open=url)
            t.end(reader)
    log = t.site.log("other")
    with tap.claim("the other host was asked, and got neither cookie nor Authorization"):
        assert log.count("GET /f.h5") >= 1 and 'auth="-" cookie="-"' in log, log
        for line in log.splitlines():
            assert 'auth="-" cookie="-"' in line, line
    with tap.claim("the store was asked, and got neither cookie, its own included, nor Authorization"):
        log = t.site.log("store")
        assert log.count("206") > 10 and all('auth="-" cookie="-"' in line for line in log.splitlines()), log[-3000:]


def named(tap, t, app):
    local = t.dir / "data/names.h5"
    link = {"names": ["link"]}
    with tap.claim("a file that names the URL starts no login: the error says why"):
        before = counted(app)
        said = t.open(str(local), ["link"], **t.good())
        assert "text" in said and re.search("no token, certificate or password", said["text"]), said
        assert since(app, before)[1] == 0, since(app, before)
    with tap.claim("nor after the program has logged in there: the session is not the file's"):
        reader = t.reader(**t.good())
        assert reader.ask(open=f"{URL}/signed/g.h5", digest=["a"]).get("digest")
        assert "text" in reader.ask(open=str(local), digest=["link"])
        t.end(reader)
    with tap.claim("with the host in credential_hosts it does"):
        said = t.open(str(local), ["link"], **t.good(), XHDF5_CREDENTIAL_HOSTS=archive.DATA)
        assert said.get("digest") == t.digests[:1], said


def doctor(tap, t, app):
    def run(**env):
        status, out, err = harness.run([harness.BUILD / "vfd/tool/xhdf5", "doctor", f"{URL}/signed/f.h5"], t.env | env)
        t.said += out + err
        return status, out + err
    with tap.claim("doctor: names the login, and opens the file through it"):
        status, said = run(**t.good())
        assert re.search(rf"redirects.*to a login at {archive.LOGIN}:443, for which the netrc file has", said), said
        assert re.search(r"opening +.*\d", said) and status in (0, 1), (status, said)
    with tap.claim("doctor without a login: says how to give one"):
        status, said = run()
        assert status == 3 and "XHDF5_NETRC=on" in said and "EARTHDATA_TOKEN" in said, (status, said)


def nothing_shown(tap, t):
    secrets = t.site.secrets()
    logs = {name: t.site.log(name) for name in ("data", "login", "store", "other")}
    with tap.claim("there is something to search: logs of all hosts, traces, secrets of each kind"):
        assert all(log.count("GET ") for log in logs.values()), {name: len(log) for name, log in logs.items()}
        assert " origin send " in t.said and len(secrets) > 20 and " origin login " in t.said
        told = {name for secret, where in secrets.items() for name in where if secret in logs[name]}
        assert told == {"data", "login", "store"}, told
    with tap.claim("no password, token, cookie or signature is in the log of a host that it is not for"):
        for secret, where in secrets.items():
            for name in set(logs) - where:
                assert secret not in logs[name], [line for line in logs[name].splitlines() if secret in line]
    with tap.claim("none is in what the readers printed, in a trace, an error or a shadow"):
        places = {str(p): p.read_bytes() for p in t.shadow.rglob("*") if p.is_file()}
        places["what was printed"] = t.said.encode()
        for secret in secrets:
            for place, content in places.items():
                assert secret.encode() not in content, f"{secret} is in {place}"


def main():
    tap = harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-logins-") as d, harness.shadow_dir() as shadow:
        directory = pathlib.Path(d)
        directory.chmod(0o755)      # nginx reads as another user
        (directory / "data").mkdir()
        status, _, err = harness.run([H5PY, "-c", SAMPLE, directory / "data/f.h5", directory / "data/g.h5"],
                                     harness.clean_env())
        assert status == 0, err
        harness.age(directory / "data")
        with archive.Archive(directory / "data", directory / "run") as site:
            t = Test(site, directory, shadow, sys.argv[1])
            for part in (good, expired, at_once, wrong, unapproved, token, hostile, named, doctor):
                part(tap, t, site.app)
            nothing_shown(tap, t)
    return tap.done()


def fetch():
    """oauthlib is no part of the box: the first run fetches it."""
    extras = harness.TOP / "containers/extras"
    if importlib.util.find_spec("oauthlib") is None and extras.exists():
        harness.run([extras, "logins"], dict(os.environ))
        importlib.invalidate_caches()
    return importlib.util.find_spec("oauthlib") is not None


if __name__ == "__main__":
    if not fetch():
        print("1..0 # SKIP no oauthlib: containers/extras could not fetch it")
        sys.exit(0)
    import archive
    sys.exit(main())
