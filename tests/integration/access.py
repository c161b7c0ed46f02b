#!/usr/bin/env python3
"""Private files at stock servers: who has the right token or certificate reads, who has not is told why.

Usage: access.py nginx|xrootd

A throw-away CA, an issuer of tokens (server/issue_token; its keys are served by a stock nginx), and
the server with the configurations for private files of server/. All is read by h5py in one process,
with all logs on; in the end everything that came out of it, and all that it keeps, is searched for
tokens, keys and passwords.
"""
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402
import obedient  # noqa: E402

sys.path.insert(0, str(harness.TOP / "server"))
import throwaway_ca  # noqa: E402

H5PY = harness.H5PY["3.14.0"]
SAMPLE = """
import sys, h5py, numpy as np
rng = np.random.default_rng(7)
for path in sys.argv[1:]:
    with h5py.File(path, "w") as f:
        f["a"] = rng.integers(0, 99, 100000)
        f["b"] = rng.integers(0, 99, 100000)
        if "private/f.h5" in path:    # large enough that nothing brings it before it is asked for
            f["large"] = np.arange(6 << 20)
"""
CREDENTIALS = ("BEARER_TOKEN", "BEARER_TOKEN_FILE", "X509_USER_PROXY", "X509_USER_CERT", "X509_USER_KEY")


class Reader(obedient.Reader):
    """h5py with the driver in a process of its own, which keeps what it prints."""

    def __init__(self, directory, shadow, cacert):
        env = harness.driver_env(None, shadow, log="all", stats="on", retries=2, readahead="off")
        super().__init__(env | {"XHDF5_CA_BUNDLE": str(cacert), "XDG_RUNTIME_DIR": str(directory),
                                "BEARER_TOKEN_FILE": os.devnull})

    def read(self, url, **credentials):
        env = {name: None for name in CREDENTIALS} | {"XHDF5_CREDENTIAL_HOSTS": None, "BEARER_TOKEN_FILE": os.devnull}
        return self.ask(env=env | credentials, open=url, digest=["a", "b"])


class Site:
    """The issuer and the server, and what a user of them has."""

    def __init__(self, kind, directory):
        self.kind, self.dir = kind, directory
        self.secrets = {}
        self.said = ""
        self.files = 0
        self.ca = directory / "ca"
        self.ca.mkdir()
        throwaway_ca.make_ca(self.ca)
        for name in ("alice", "mallory"):
            throwaway_ca.make_user(self.ca, self.ca, name)
            throwaway_ca.make_proxy(self.ca, name)
        self.strangers = directory / "strangers"
        self.strangers.mkdir()
        throwaway_ca.make_ca(self.strangers)
        throwaway_ca.make_user(self.strangers, self.strangers, "alice")
        for key in self.dir.glob("*/*.key"):
            self.secrets[str(key)] = key.read_text().splitlines()[1]
        self.issuer_port = harness.free_port()
        self.issuer = f"https://127.0.0.1:{self.issuer_port}"
        harness.run([harness.TOP / "server/issue_token", "init", directory / "issuer", "--issuer", self.issuer],
                    harness.clean_env())

    def token(self, path=None, **claims):
        """A file with a new token, for the server unless |aud| says otherwise."""
        words = [w for k, v in ({"aud": self.server.url} | claims).items() for w in (f"--{k}", str(v))]
        status, out, err = harness.run([harness.TOP / "server/issue_token", "sign", self.dir / "issuer", *words],
                                       harness.clean_env())
        assert status == 0, err
        self.files += 1
        return self.keep(out.strip(), path or self.dir / f"token{self.files}")

    def keep(self, token, path):
        # Whole, and its signature alone: with that and what can be guessed there is a token.
        self.secrets[f"token of {path}"] = token.rpartition(".")[2]
        new = path.with_suffix(".new")
        new.write_text(token)
        new.chmod(0o600)
        new.rename(path)
        return str(path)


def reads(site, result, name):
    assert result.get("digest") == site.digests[name], result


def refused(result, *text):
    assert "text" in result, "it was read"
    assert "PermissionError" in result["kinds"], result
    for pattern in text:
        assert re.search(pattern, result["text"]), f"does not tell {pattern!r}: {result['text']}"


def tokens(tap, site, reader):
    url, token = site.server.url, site.token
    private, sub = f"{url}/private/f.h5", f"{url}/private/sub/f.h5"
    with tap.claim("what is public is read without a token"):
        reads(site, reader.read(f"{url}/public/f.h5"), "public")
    for alg in ("ES256", "RS256"):
        with tap.claim(f"a token signed with {alg} reads what its scope covers"):
            reads(site, reader.read(private, BEARER_TOKEN_FILE=token(alg=alg, scope="storage.read:/")), "private")
    for pad in (8000, 11000, 20000):
        with tap.claim(f"a token {pad} bytes longer reads"):
            reads(site, reader.read(private, BEARER_TOKEN_FILE=token(scope="storage.read:/", pad=pad)), "private")
    with tap.claim("a token in the environment reads"):
        text = pathlib.Path(token(scope="storage.read:/sub")).read_text()
        reads(site, reader.read(sub, BEARER_TOKEN=text), "sub")
    with tap.claim("no token: PermissionError that says how to give one"):
        refused(reader.read(private), re.escape(private), "40[13]", "no token was found", "Set BEARER_TOKEN_FILE")
    nginx = site.kind == "nginx"
    for what, claims, tells, says in (
            ("has expired", {"seconds": -3600}, r"it expired at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "it has expired"),
            ("is for another path", {"scope": "storage.read:/sub"}, r'scope "storage.read:/sub"', None),
            ("is for another audience", {"aud": "https://elsewhere.example"},
             r'audience is "https://elsewhere.example"',
             "it is for another audience"),
            ("is not for storage", {"scope": "compute.read"}, r'scope "compute.read"', None),
            *((("names no path", {"scope": "storage.read"}, r'scope "storage.read"', None),
               ("leads out of its tree", {"scope": "storage.read:/../.."}, r'scope "storage.read:/../.."', None))
              if nginx else ())):
        with tap.claim(f"a token that {what}: PermissionError that names its file and says so"):
            file = token(**{"scope": "storage.read:/", **claims})
            refused(reader.read(private, BEARER_TOKEN_FILE=file), re.escape(private), "40[13]", re.escape(file), tells,
                    *([says] if nginx and says else []))
    with tap.claim("a forged token: PermissionError that names its file"):
        good = pathlib.Path(token(scope="storage.read:/")).read_text()
        forged = site.keep(good[:-20] + "A" * 20, site.dir / "forged")
        refused(reader.read(private, BEARER_TOKEN_FILE=forged), "40[13]", re.escape(forged))
    with tap.claim("a token of another issuer's key: PermissionError"):
        harness.run([harness.TOP / "server/issue_token", "init", site.dir / "false", "--issuer", site.issuer],
                    harness.clean_env())
        out = harness.run([harness.TOP / "server/issue_token", "sign", site.dir / "false", "--aud", url, "--scope",
                           "storage.read:/"], harness.clean_env())[1]
        refused(reader.read(private, BEARER_TOKEN_FILE=site.keep(out.strip(), site.dir / "other")), "40[13]")


def too_long(tap, site, reader):
    """A stock nginx takes 8 KiB for a header line, an XRootD 32 KiB in all."""
    where, pad = (f"{site.issuer}/jwks.json", 9000) if site.kind == "nginx" else (f"{site.server.url}/private/f.h5",
                                                                                  45000)
    with tap.claim("a token that is longer than the server takes: PermissionError that says so"):
        file = site.token(scope="storage.read:/", pad=pad)
        n = os.path.getsize(file)
        refused(reader.read(where, BEARER_TOKEN_FILE=file), re.escape(file), f"{n} bytes long", "fewer claims")


def renewal(tap, site, reader):
    """A token that another program renews in its file, as oidc-agent and htgettoken do."""
    file, url = site.dir / "renewed", f"{site.server.url}/private/f.h5"
    with tap.claim("a token renewed in its file is taken before the old one has expired: the server refuses nothing"):
        site.token(file, scope="storage.read:/", seconds=10)    # a loaded machine takes some of them to open the file
        ends = time.time() + 10
        env = {name: None for name in CREDENTIALS} | {"BEARER_TOKEN_FILE": str(file)}
        first = reader.ask(env=env, open=url, digest=["a"], close=False)
        assert first.get("digest") == site.digests["private"][:1], first
        site.token(file, scope="storage.read:/", seconds=600)
        while time.time() < ends:    # the expiry is what is waited for
            time.sleep(0.05)
        refused_before, (asked_before, _) = site.refusals(), site.server.requests()
        then = reader.ask(digest=["large"])
        assert then.get("digest") == [site.large], then
        assert site.server.requests()[0] > asked_before, "nothing was asked for"
        assert site.refusals() == refused_before, "the server had to refuse the old one"


def certificates(tap, site, reader):
    url, d = site.server.url, site.ca
    alice = f"{url}/private/users/alice/f.h5"
    with tap.claim("a certificate reads what its owner may"):
        reads(site, reader.read(alice, X509_USER_CERT=str(d / "alice.pem"), X509_USER_KEY=str(d / "alice.key")),
              "alice")
    with tap.claim("another user's certificate: PermissionError that names it"):
        refused(reader.read(alice, X509_USER_CERT=str(d / "mallory.pem"), X509_USER_KEY=str(d / "mallory.key")),
                "40[13]",
                re.escape(str(d / "mallory.pem")))
    with tap.claim("a key that others may read is not used, and the error says so"):
        key = site.dir / "open.key"
        key.write_bytes((d / "alice.key").read_bytes())
        key.chmod(0o644)
        refused(reader.read(alice, X509_USER_CERT=str(d / "alice.pem"), X509_USER_KEY=str(key)), re.escape(str(key)),
                "chmod 600")
    with tap.claim("a key with a passphrase is not used, and nobody is asked for one"):
        key = site.dir / "locked.key"
        throwaway_ca.openssl("pkcs8", "-topk8", "-in", str(d / "alice.key"), "-out", str(key), "-passout", "pass:xyz",
                             cwd=d)
        key.chmod(0o600)
        refused(reader.read(alice, X509_USER_CERT=str(d / "alice.pem"), X509_USER_KEY=str(key)), "passphrase")
    proxy = str(d / "alice.proxy")
    if site.kind == "xrootd":
        with tap.claim("a proxy reads what its owner may"):
            reads(site, reader.read(alice, X509_USER_PROXY=proxy), "alice")
    else:
        with tap.claim("nginx knows no proxies: what is private is refused, and the error names the proxy"):
            refused(reader.read(alice, X509_USER_PROXY=proxy), "401", re.escape(proxy), "would not talk to its owner")
    stranger = {"X509_USER_CERT": str(site.strangers / "alice.pem"), "X509_USER_KEY": str(site.strangers / "alice.key")}
    with tap.claim("a certificate that the server does not know does not keep from what is public"):
        reads(site, reader.read(f"{url}/public/f.h5", **stranger), "public")
        reads(site, reader.read(f"{url}/public/f.h5", X509_USER_PROXY=proxy), "public")
    with tap.claim("of a CA that the server does not know, the same name: PermissionError"):
        refused(reader.read(alice, **stranger), "40[13]", re.escape(stranger["X509_USER_CERT"]))


def authdb(tap, site, reader):
    url, token = site.server.url, site.token
    collab, alice = f"{url}/groups/collab/f.h5", f"{url}/private/users/alice/f.h5"
    with tap.claim("authdb: a member of the group reads its directory"):
        reads(site, reader.read(collab, BEARER_TOKEN_FILE=token(sub="bob", group="/collab")), "collab")
    with tap.claim("authdb: a member of another group does not"):
        refused(reader.read(collab, BEARER_TOKEN_FILE=token(sub="bob", group="/other")), "403")
    with tap.claim("authdb: the subject of a token reads his directory"):
        reads(site, reader.read(alice, BEARER_TOKEN_FILE=token(sub="alice")), "alice")
    with tap.claim("authdb: another subject does not"):
        refused(reader.read(alice, BEARER_TOKEN_FILE=token(sub="bob")), "403")


def sent_on(tap, site, reader):
    """A redirector in front: other port, so another server. The balancer may ask it with the token; we may not."""
    servers = site.server.url.removeprefix("https://")
    with harness.Server("balancer", None, words=["--servers", servers, "--ca", str(site.ca)]) as balancer:
        url = f"{balancer.url}/private/f.h5"
        file = site.token(scope="storage.read:/")
        with tap.claim("a redirect to another server: it gets no token, and the error says how it may"):
            refused(reader.read(url, BEARER_TOKEN_FILE=file), "sent on to", "XHDF5_CREDENTIAL_HOSTS")
        for hosts in ("127.0.0.1", f"example.org {servers}", ".0.0.1"):
            with tap.claim(f"credential_hosts={hosts}: it gets the token"):
                reads(site, reader.read(url, BEARER_TOKEN_FILE=file, XHDF5_CREDENTIAL_HOSTS=hosts), "private")
        with tap.claim("credential_hosts of other hosts: it does not"):
            refused(reader.read(url, BEARER_TOKEN_FILE=file, XHDF5_CREDENTIAL_HOSTS="0.0.1 27.0.0.1 127.0.0.1:1"),
                    "401")


def clustered(tap, site, reader):
    """Behind a redirector, which puts the token into the URL that it redirects to."""
    roots = [site.dir / "data", site.dir / "none"]
    roots[1].mkdir()
    with harness.Server("cluster", roots, words=["--ca", str(site.ca), "--issuer", site.issuer]) as cluster:
        private, alice = f"{cluster.url}/private/f.h5", f"{cluster.url}/private/users/alice/f.h5"
        aud = "https://wlcg.cern.ch/jwt/v1/any"
        with tap.claim("a cluster: the redirector hands the token on, and it is read"):
            reads(site, reader.read(private, BEARER_TOKEN_FILE=site.token(aud=aud, scope="storage.read:/")), "private")
            log = pathlib.Path(cluster.run, "manager", "xrootd.log").read_text(errors="replace")
            assert "authz=" in log, "this redirector puts no token into URLs"
        with tap.claim("a cluster: a token for another path is refused by the data server"):
            file = site.token(aud=aud, scope="storage.read:/sub")
            refused(reader.read(private, BEARER_TOKEN_FILE=file), "403", "sent on to")
        certificate = {"X509_USER_CERT": str(site.ca / "alice.pem"), "X509_USER_KEY": str(site.ca / "alice.key")}
        with tap.claim("a cluster: a certificate is shown to the redirector alone"):
            refused(reader.read(alice, **certificate), "403", "XHDF5_CREDENTIAL_HOSTS")
        with tap.claim("a cluster: a certificate is shown to data servers that the user lists"):
            reads(site, reader.read(alice, **certificate, XHDF5_CREDENTIAL_HOSTS="127.0.0.1"), "alice")
        with tap.claim("a cluster: a token that is too long for the redirector's URL: an error that says so"):
            result = reader.read(private, BEARER_TOKEN_FILE=site.token(aud=aud, scope="storage.read:/", pad=3000))
            assert re.search(r"500.*bytes long.*redirector", result.get("text", "")), result


WRITER = """
import sys, h5py, numpy as np, xhdf5
f = xhdf5.open(sys.argv[1], sys.argv[2])
f["x"] = np.arange(9000) + int(sys.argv[3])
try:
    xhdf5.commit(f)
    print("there")
except PermissionError as e:
    print(type(e).__name__, e)
try:
    f.close()
except RuntimeError as e:
    print("at closing:", e)
"""


def writing(tap, site, shadow):
    """Files that are created and changed with a token's right to, and without."""
    out = site.dir / "data/private/out"
    out.mkdir()
    out.chmod(0o777)
    with harness.Server("xrootd", site.dir / "data",
                        words=["--ca", str(site.ca), "--issuer", site.issuer, "--writable"]) as server:
        kept = site.dir / "kept"
        env = harness.driver_env(server, shadow, writable="on", overlay_dir=kept, log="all") | \
            {"PYTHONPATH": str(harness.BUILD / "python"), "XDG_RUNTIME_DIR": str(site.dir)}

        def run(scope, *words):
            with_token = env | {"BEARER_TOKEN_FILE": site.token(aud=server.url, scope=scope)}
            status, said, err = harness.run(words, with_token)
            site.said += said + err
            return status, said

        def write(name, scope, number):
            return run(scope, H5PY, "-c", WRITER, f"{server.url}/private/out/{name}.h5", "w", number)[1]

        def has(name):
            code = "import sys, h5py; print(h5py.File(sys.argv[1])['x'][0])"
            return harness.run([H5PY, "-c", code, out / f"{name}.h5"], harness.clean_env())[1].strip()

        both = "storage.read:/ storage.modify:/out"
        with tap.claim("writing: a token with storage.modify creates and replaces; nothing else stays"):
            for number in (1, 2):
                assert write("f", both, number) == "there\n" and has("f") == str(number) and os.listdir(out) == ["f.h5"], os.listdir(out)
        for number, name, scope in ((3, "g", "storage.read:/"), (4, "g", "storage.read:/ storage.modify:/sub"),
                                    (5, "f", "storage.read:/")):
            with tap.claim(f"writing: {name} with a token for {scope}: PermissionError that says so; what was written is kept, and sent with another"):
                before = (out / "f.h5").read_bytes()
                said = write(name, scope, number)
                assert re.match(r"PermissionError .*403.*storage\.modify.*recover retry",
                                said) and "at closing:" in said, said
                assert (out / "f.h5").read_bytes() == before and os.listdir(out) == ["f.h5"], os.listdir(out)
                tool = harness.BUILD / "vfd/tool/xhdf5"
                [one] = json.loads(run(scope, tool, "recover", "list", "--json")[1])
                assert one["state"] == "to be sent" and "403" in one["why"], one
                assert run(scope, tool, "recover", "retry", one["id"])[0] == 3
                assert run(both, tool, "recover", "retry", one["id"])[0] == 0
                assert has(name) == str(number) and os.listdir(kept) == []
                (out / "g.h5").unlink(missing_ok=True)


def nothing_shown(tap, site, reader, shadow):
    """Everything that the reader put out, and all that the driver keeps."""
    pid = reader.process.pid
    places = {"its command line": pathlib.Path(f"/proc/{pid}/cmdline").read_bytes(),
              "its name": pathlib.Path(f"/proc/{pid}/comm").read_bytes()}
    places |= {str(p): str(p).encode() + p.read_bytes() for p in shadow.rglob("*") if p.is_file()}
    shadows = len(places) - 2
    places["what it printed"] = reader.end().encode()
    places["what writers printed"] = site.said.encode()
    with tap.claim("there is something to search: traces, errors and shadows"):
        assert b" origin send " in places["what it printed"] and b"PermissionError" in places["what it printed"]
        assert shadows > 2, places.keys()
        assert len(site.secrets) > 20, site.secrets.keys()
    with tap.claim("no token and no key is in what it printed, in a trace, an error, a title or a shadow"):
        for name, secret in site.secrets.items():
            for place, content in places.items():
                assert secret.encode() not in content, f"the {name} is in {place}"


@contextlib.contextmanager
def started(kind, directory):
    site = Site(kind, directory)
    data = directory / "data"
    names = {"public": "public", "private": "private", "sub": "private/sub", "alice": "private/users/alice",
             "collab": "groups/collab"}
    for name in names.values():
        (data / name).mkdir(parents=True, exist_ok=True)
    files = {name: data / path / "f.h5" for name, path in names.items()}
    status, out, err = harness.run([H5PY, "-c", SAMPLE, *files.values()], harness.clean_env())
    assert status == 0, err
    local = obedient.Reader(harness.clean_env())
    site.digests = {name: local.ask(open=str(f), digest=["a", "b"])["digest"] for name, f in files.items()}
    [site.large] = local.ask(open=str(files["private"]), digest=["large"])["digest"]
    local.end()
    ca = ["--ca", str(site.ca)]
    with harness.Server("nginx", directory / "issuer/www", words=[*ca, "--port", str(site.issuer_port)]), \
            harness.Server(kind, data, words=[*ca, "--issuer", site.issuer]) as site.server:
        def refusals():
            log = pathlib.Path(site.server.facts["log"]).read_text(errors="replace")
            return len(re.findall(r" status=40[13] |Sending resp: 40[13] ", log))
        site.refusals = refusals
        yield site


def main():
    kind = sys.argv[1]
    tap = harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-access-") as d, harness.shadow_dir() as shadow:
        directory = pathlib.Path(d)
        directory.chmod(0o755)
        with started(kind, directory) as site:
            reader = Reader(directory, shadow, site.ca / "ca.pem")
            tokens(tap, site, reader)
            too_long(tap, site, reader)
            certificates(tap, site, reader)
            if kind == "xrootd":
                authdb(tap, site, reader)
                clustered(tap, site, reader)
                writing(tap, site, shadow)
            else:
                sent_on(tap, site, reader)
            renewal(tap, site, reader)
            nothing_shown(tap, site, reader, shadow)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
