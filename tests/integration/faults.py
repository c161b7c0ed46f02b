#!/usr/bin/env python3
"""Servers that fail or lie: right bytes, or a clear error of the right kind, and never a hang.

Usage: faults.py FAULT_READS [--all] [--print] [WORD …]
           with words: only the rows and claims that hold one of them
           --all: also those cells that the simulator has in virtual time
           --print: the rows of docs/faults.md as they are now, nothing else

tests/support/liar.py has the faults; its help tells how a path chooses one and which requests it
strikes. Each row of docs/faults.md meets each kind of read (fault_table.py). What concerns all requests
of a server, or what h5py makes of an error, is met by h5py and by a C program, with a shadow, a path
and a process of its own.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import fault_table  # noqa: E402
import harness  # noqa: E402

H5PY = harness.H5PY["3.14.0"]
READ_IMAGES = harness.BUILD / "perf" / "read_images"
AT_ONCE = 3       # runs side by side: most of them only wait
CELLS_AT_ONCE = 12
BOUND_S = 120     # what takes longer hangs: each should take 1 to 5 s
PATIENT = {"stall_timeout_ms": 30000, "connect_timeout_ms": 30000, "retries": 2}
HASTY = {**PATIENT, "stall_timeout_ms": 500, "connect_timeout_ms": 2000}
TOKEN = "eyJ-a-bearer-token-that-nobody-may-see"
SECRET = "a-query-that-nobody-may-see"

# What is read: compressed images; the same columns of many rows, far enough apart for a multi-range
# request; attributes and strings. Larger than a head, so that there are requests after opening; the
# objects' headers lie in the head, so that only reading data needs those, but for `last`.
SAMPLE = """
import sys, h5py, numpy as np
rng = np.random.default_rng(7)
with h5py.File(sys.argv[1], "w") as f:
    images = f.create_dataset("images", (6, 256, 256), np.uint16, chunks=(1, 256, 256), compression="gzip",
                              compression_opts=1, shuffle=True)
    images.attrs["units"] = "counts"
    rows = f.create_dataset("rows", (24, 65536), np.int32)
    text = f.create_dataset("text", (500,), h5py.string_dtype())
    images[...] = rng.integers(0, 2048, images.shape, np.uint16)
    rows[...] = rng.integers(0, 9999, rows.shape, np.int32)
    text[...] = ["word %d" % i for i in range(500)]
    f["last"] = 1
"""
READ = """
import hashlib, json, os, sys, h5py
renewed = os.environ.get("RENEWED_TOKEN")
at, digest = "open", hashlib.sha256()
try:
    with h5py.File(sys.argv[1], "r") as f:
        at = "read"
        if renewed:
            with open(os.environ["BEARER_TOKEN_FILE"], "w") as token:
                token.write(renewed)
        digest.update(f["images"].attrs["units"].encode())
        digest.update(f["rows"][:, 8000:8100].tobytes())
        digest.update(f["images"][...].tobytes())
        digest.update(f["rows"][::7].tobytes())
        digest.update(b"".join(f["text"][...]))
        digest.update(f["last"][()].tobytes())
    print(json.dumps({"digest": digest.hexdigest()}))
except Exception as e:
    print(json.dumps({"at": at, "kinds": [k.__name__ for k in type(e).__mro__], "text": str(e)}))
"""
READ_LAST = """
import json, sys, h5py
try:
    with h5py.File(sys.argv[1], "r") as f:
        print(json.dumps({"digest": int(f["last"][()])}))
except Exception as e:
    print(json.dumps({"kinds": [k.__name__ for k in type(e).__mro__], "text": str(e)}))
"""
# Rows one after another, none of them read twice.
READ_ON = """
import json, sys, h5py
try:
    with h5py.File(sys.argv[1], "r") as f:
        rows = [int(f["rows"][i, 0]) for i in range(f["rows"].shape[0])]
    print(json.dumps({"digest": rows}))
except Exception as e:
    print(json.dumps({"kinds": [k.__name__ for k in type(e).__mro__], "text": str(e)}))
"""
OPEN_FOR_WRITING = """
import json, sys, h5py
try:
    h5py.File(sys.argv[1], sys.argv[2]).close()
    print(json.dumps({"digest": None}))
except Exception as e:
    print(json.dumps({"kinds": [k.__name__ for k in type(e).__mro__], "text": str(e)}))
"""

# fault -> options: the bytes are right in spite of it, at each request
SURVIVED = {
    "ok": {}, "no-etag": {}, "no-validator": {}, "weak-etag": {}, "xrootd": {}, "partial": {}, "no-length": {},
    "chunked": {}, "extra-bytes": {}, "close-after": {}, "http10": {}, "continue": {}, "slow:1": {}, "redirect": {},
    "redirect-307": {}, "redirect-ticket": {}, "no-range@3-3": {}, "503@2-2": {}, "multipart-lf": {}, "too-many:10": {},
    "several-hang-up": {},
}
# fault -> (h5py's exception, what its text must tell, options)
FAILED = {
    "404": ("FileNotFoundError", r"404.*no such file", {}),
    "403": ("PermissionError", r"403", {}),
    "token": ("PermissionError", r"401", {}),
    "500": ("OSError", r"500.*retries", {}),
    "404@2-": ("OSError", r"404", {}),
    "etag-change@2-": ("OSError", r"changed", {}),
    "no-etag:2": ("OSError", r"changed", {}),
    "stall-head": ("OSError", r"no byte for 500 ms", HASTY),
    "reset-head": ("OSError", r"(retries|reset|closed).*errno = 5,", {}),
}


class Liar:
    """tests/support/liar.py on |file|, with TLS or without, at |host|. Ends with its stdin."""

    def __init__(self, file, tls=None, host="127.0.0.1", port=0):
        self.argv = [sys.executable, harness.TOP / "tests/support/liar.py", file, "--host", host, "--port", port,
                     *(["--tls", tls] if tls else [])]
        self.host = host
        self.scheme = "https" if tls else "http"

    def __enter__(self):
        self.process = subprocess.Popen([str(a) for a in self.argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        facts = dict(re.findall(r"(\w+)=(\S+)", self.process.stdout.readline()))
        self.base = f"{self.scheme}://{self.host}:{facts['port']}"
        self.other = f"{self.scheme}://{self.host}:{facts['other']}"
        self.http = f"http://{self.host}:{facts['http']}"
        self.cacert = facts.get("cacert", "")
        return self

    def __exit__(self, *exc):
        self.process.stdin.close()
        self.process.stdout.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def requests(self):
        """{path: [request, …]} so far, through the plain port."""
        with urllib.request.urlopen(f"{self.http}/_stats", timeout=20) as reply:
            return json.load(reply)

    def release(self, path):
        urllib.request.urlopen(f"{self.http}/_release{path}", timeout=20).close()

    def reset(self):
        urllib.request.urlopen(f"{self.http}/_reset", timeout=20).close()


class Bench:
    """Runs readers with a shadow of their own each, and keeps everything that they print."""

    def __init__(self, directory, shadows, sample):
        self.directory, self.shadows = directory, shadows
        self.lock = threading.Lock()
        self.runs, self.printed = 0, []
        self.digest = json.loads(self._run([H5PY, "-c", READ, sample], harness.clean_env())[1])["digest"]
        self.sum = self.sum_in(self._run([READ_IMAGES, sample, "images"], harness.clean_env())[1])

    @staticmethod
    def sum_in(out):
        found = re.search(r"sum=(\w+)", out)
        return found[1] if found else None

    def _run(self, argv, env, **how):
        done = subprocess.run([str(a) for a in argv], env=env, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=BOUND_S, **how)
        out, err = (s.decode(errors="backslashreplace") for s in (done.stdout, done.stderr))
        with self.lock:
            self.printed.append(out + err)
        return done.returncode, out, err

    def name(self):
        """A file name that no other run uses: the liar counts requests by path."""
        with self.lock:
            self.runs += 1
            return f"run{self.runs}.h5"

    def env(self, cacert="", extra=(), **options):
        shadow = self.shadows / self.name()
        shadow.mkdir(mode=0o700)
        env = harness.driver_env(None, shadow, **{**PATIENT, **options})
        if cacert:
            env["XHDF5_CA_BUNDLE"] = cacert
        # No token of the user who runs this
        env |= {"BEARER_TOKEN_FILE": os.devnull, "XDG_RUNTIME_DIR": str(self.directory), **dict(extra)}
        return env

    def h5py(self, url, env, code=READ, **how):
        """{"digest"} or {"at", "kinds", "text"}, and standard error as "log"."""
        status, out, err = self._run([H5PY, "-c", code, url, *how.pop("words", ())], env, **how)
        try:
            return {**json.loads(out), "log": err}
        except ValueError:
            raise AssertionError(f"exit status {status}\n{out[-500:]}\n{err[-3000:]}") from None

    def c(self, url, env):
        """(sum or None, everything that it printed)."""
        status, out, err = self._run([READ_IMAGES, url, "images"], env)
        assert status in (0, 1), f"exit status {status}\n{err[-3000:]}"
        return self.sum_in(out), out + err


def fails(result, kind, text, url=None):
    """Asserts that |result| is an error of that |kind| whose text matches and names |url|."""
    assert "digest" not in result, "it was read without an error"
    assert kind in result["kinds"], f"{result['kinds'][0]}: {result['text']}"
    assert re.search(text, result["text"]), f"does not tell {text!r}: {result['text']}"
    assert not url or url in result["text"], f"does not name {url}: {result['text']}"


# --- claims ---------------------------------------------------------------------------------------

def survived(bench, liar, fault, options):
    result = bench.h5py(f"{liar.base}/{fault}/{bench.name()}", bench.env(liar.cacert, **options))
    assert "digest" in result, f"at {result.get('at')}: {result.get('text')}"
    assert result["digest"] == bench.digest, "WRONG BYTES"
    total, printed = bench.c(f"{liar.base}/{fault}/{bench.name()}", bench.env(liar.cacert, **options))
    assert total == bench.sum, f"C: sum {total}, want {bench.sum}\n{printed[-3000:]}"


def failed(bench, liar, fault, kind, text, options):
    url = f"{liar.base}/{fault}/{bench.name()}"
    fails(bench.h5py(url, bench.env(liar.cacert, **options)), kind, text, url)
    total, printed = bench.c(f"{liar.base}/{fault}/{bench.name()}", bench.env(liar.cacert, **options))
    assert total is None, f"C: read without an error, {'right' if total == bench.sum else 'WRONG'} bytes"
    assert re.search(text, printed), f"C does not tell {text!r}: {printed[-3000:]}"


def object_out_of_reach(bench, liar):
    """h5py makes a KeyError of whatever keeps HDF5 from opening an object; its text must tell."""
    url = f"{liar.base}/500@2-/{bench.name()}"
    fails(bench.h5py(url, bench.env(), READ_LAST), "Exception", r"500.*retries", url)


def change_told_by_propfind(bench, liar):
    """XRootD's replies carry no validator: a change is found by asking, after revalidate_ms."""
    url = f"{liar.base}/xrootd:3/{bench.name()}"
    fails(bench.h5py(url, bench.env(revalidate_ms=1, readahead="off"), READ_ON), "OSError", r"changed", url)


def replaced_while_opened(bench, liar, fault, options):
    """The head is of the older version, all that comes later of the newer one, which is no HDF5 file. The
    opening sees the older one alone; what the next process finds must be of one version."""
    url = f"{liar.base}/{fault}/{bench.name()}"
    env = bench.env(**options)
    result = bench.h5py(url, env)
    fails(result, "OSError", r"changed.*being opened", url)
    assert result["at"] == "read", result
    fails(bench.h5py(url, env), "OSError", r"signature")


def several_ranges(bench, liar):
    """The faults of multi-range replies say something only if there are such requests."""
    path = f"/ok/{bench.name()}"
    bench.h5py(liar.base + path, bench.env())
    gets = [r for r in liar.requests()[path] if r["method"] == "GET"]
    assert any("," in r["range"] for r in gets), gets
    assert all(r["if_match"] for r in gets[1:]), "no If-Match after opening"


def plain_http_gets_no_token(bench, liar):
    path = f"/ok/{bench.name()}"
    env = bench.env(extra={"BEARER_TOKEN": TOKEN})
    assert bench.h5py(liar.base + path, env)["digest"] == bench.digest
    assert not any(r["authorization"] for r in liar.requests()[path])


def plain_http_refusal_says_https(bench, liar):
    url = f"{liar.base}/token/{bench.name()}"
    fails(bench.h5py(url, bench.env(extra={"BEARER_TOKEN": "A"})), "PermissionError", r"401.*https", url)


def token_is_sent(bench, liar):
    path = f"/token/{bench.name()}"
    assert bench.h5py(liar.base + path, bench.env(liar.cacert, {"BEARER_TOKEN": "A"})).get("digest") == bench.digest
    assert all(r["authorization"] for r in liar.requests()[path])


def redirected_without_token(bench, liar):
    """To another host and port; the first server still gets it."""
    path = f"/redirect/{bench.name()}"
    liar.reset()
    result = bench.h5py(liar.base + path, bench.env(liar.cacert, {"BEARER_TOKEN": TOKEN}))
    assert result.get("digest") == bench.digest, result
    seen = liar.requests()
    assert seen[path] and all(r["authorization"] for r in seen[path])
    assert seen["/ok/redirected"] and not any(r["authorization"] for r in seen["/ok/redirected"])


def other_port_without_token(bench, liar):
    """The same host name, another port: another server."""
    liar.reset()
    url = f"{liar.base}/redirect-ticket/{bench.name()}"
    result = bench.h5py(url, bench.env(liar.cacert, {"BEARER_TOKEN": TOKEN}))
    assert result.get("digest") == bench.digest, result
    tickets = [r for path, rs in liar.requests().items() if path.startswith("/ticket") for r in rs]
    assert tickets and not any(r["authorization"] for r in tickets)


def downgrade_refused(bench, liar):
    liar.reset()
    url = f"{liar.base}/redirect-http/{bench.name()}"
    fails(bench.h5py(url, bench.env(liar.cacert, {"BEARER_TOKEN": TOKEN})), "OSError", r"https? .*http|http.*https")
    assert "/ok/downgraded" not in liar.requests(), "the plain server was asked"


def renewed_token(bench, liar, renewed, fault="token"):
    file = bench.directory / f"token-{bench.name()}"
    file.write_text("A")
    file.chmod(0o600)
    env = bench.env(liar.cacert, {"BEARER_TOKEN_FILE": str(file), **({"RENEWED_TOKEN": "B"} if renewed else {})})
    result = bench.h5py(f"{liar.base}/{fault}:2/{bench.name()}", env)
    if renewed:
        assert result.get("digest") == bench.digest, result
    else:
        fails(result, "OSError", r"401.*refused")


def netrc(bench, liar, what):
    """A netrc file is read when the option asks for it, and for its own hosts."""
    file, path = bench.directory / f"netrc-{bench.name()}", f"/basic/{bench.name()}"
    password = {"a wrong password": "pass-wrong"}.get(what, '"pass word"')
    host = {"another host's": "127.0.0.2"}.get(what, "127.0.0.1")
    file.write_text(f"# machine {host} login no password no\nmachine elsewhere login x password y\n"
                    f"machine {host}\n  login reader password {password}\nmachine last login x password y\n")
    file.chmod(0o644 if what == "open to others" else 0o600)
    options = {} if what == "not asked for" else {"netrc": "on"}
    result = bench.h5py(liar.base + path, bench.env(liar.cacert, {"NETRC": str(file)}, **options))
    if what == "right":
        assert result.get("digest") == bench.digest, result
    elif what == "a wrong password":
        fails(result, "PermissionError", r"401.*netrc.*refused")
    elif what == "open to others":
        fails(result, "PermissionError", re.escape(str(file)) + ".*chmod 600")
        assert path not in liar.requests(), "a request was sent"
    else:
        fails(result, "PermissionError", "401.*no token.*" + ("XHDF5_NETRC=on" if what == "not asked for" else
                                                              "netrc file has no user name with a password"))
        assert not any(r["authorization"] for r in liar.requests()[path]), "something was sent"


def no_secret_is_printed(bench, liar):
    """All logs on, good ends and bad; the bench keeps what was printed, the shadows what was stored."""
    mark = len(bench.printed)
    faults = ("ok", "404", "403", "500", "token", "token-echo", "redirect", "redirect-ticket", "redirect-loop",
              "redirect-http",
              "etag-change@2-", "garbage", "truncate", "no-range", "gzip-encoding")
    for fault in faults:
        for run in (bench.h5py, bench.c):
            env = bench.env(liar.cacert, {"BEARER_TOKEN": TOKEN}, log="all", stats="on",
                            trace=bench.directory / "lines-%p.json")
            run(f"{liar.base}/{fault}/{bench.name()}?sig={SECRET}", env)
    file = bench.directory / "netrc-secret"
    file.write_text(f"machine 127.0.0.1 login name password {SECRET}")
    file.chmod(0o600)
    bench.h5py(f"{liar.base}/500/{bench.name()}", bench.env(liar.cacert, {"NETRC": str(file)}, log="all", netrc="on"))
    user = liar.base.replace("https://", f"https://name:{SECRET}@")
    bench.h5py(f"{user}/500/{bench.name()}", bench.env(liar.cacert, log="all"))
    drawn = [p.read_text() for p in bench.directory.glob("lines-*.json")]
    assert len(drawn) >= len(faults) and any('"queued_us"' in text for text in drawn), f"{len(drawn)} time lines"
    printed = "".join(bench.printed[mark:] + drawn)
    assert re.search(r" origin send ", printed), f"the logs were not on: {printed[:500]}"
    for secret in (TOKEN, SECRET, "sign=secret"):
        lines = [line for line in printed.splitlines() if secret in line]
        assert not lines, f"{len(lines)} lines show {secret!r}, such as:\n" + "\n".join(dict.fromkeys(lines[:6]))


def no_secret_is_stored(bench, liar):
    env = bench.env(liar.cacert, {"BEARER_TOKEN": TOKEN})
    bench.h5py(f"{liar.base}/ok/{bench.name()}?sig={SECRET}", env)
    files = [p for p in pathlib.Path(env["XHDF5_SHADOW_DIR"]).rglob("*") if p.is_file()]
    assert files, "there is no shadow to look into"
    for p in files:
        for secret in (TOKEN, SECRET):
            assert secret not in str(p) and secret.encode() not in p.read_bytes(), f"{p} holds {secret!r}"


def writing_refused(bench, liar, mode):
    path = f"/ok/{bench.name()}"
    fails(bench.h5py(liar.base + path, bench.env(), OPEN_FOR_WRITING, words=[mode]), "OSError", r"read-only")
    assert path not in liar.requests(), f"requests were sent: {liar.requests()[path]}"


def untrusted(bench, liar):
    url = f"{liar.base}/ok/{bench.name()}"
    fails(bench.h5py(url, bench.env()), "OSError", r"certificate.*XHDF5_CA_BUNDLE", url)


def unusable_ca(bench, liar, what):
    ca, how = bench.directory / f"ca-{bench.name()}", {}
    path = f"/ok/{bench.name()}"
    if what == "garbage":
        ca.write_text("no certificate\n")
    elif what == "unreadable":
        ca.write_bytes(pathlib.Path(liar.cacert).read_bytes())
        ca.chmod(0)
        if os.geteuid() == 0:
            how = {"user": 65534, "group": 65534, "extra_groups": []}
    env = bench.env(str(ca), {"XHDF5_SHADOW": "off"})
    fails(bench.h5py(liar.base + path, env, **how), "OSError", re.escape(str(ca)))
    assert path not in liar.requests(), "a request was sent"


def nobody_listens(bench):
    with Liar(os.devnull) as gone:
        url = f"{gone.base}/ok/x.h5"
    fails(bench.h5py(url, bench.env(connect_timeout_ms=2000)), "OSError", r"no connection.*errno = 5,", url)


def no_such_host(bench):
    url = "https://no-such-host.invalid/x.h5"
    fails(bench.h5py(url, bench.env()), "OSError", r"name does not resolve.*errno = 5,", url)


def like_local(bench, file, what):
    """A file that is broken in itself gives HDF5's own error, as it does locally. Of one that is no HDF5 file it says more:
    which one, and what it is."""
    local = bench.h5py(file, harness.clean_env())
    assert "digest" not in local and re.search(what, local["text"]), local
    with Liar(file) as liar:
        remote = bench.h5py(f"{liar.base}/ok/x.h5", bench.env())
    assert "digest" not in remote, "it was read without an error"
    text = re.sub(r"(?<=signature not found): https?://\S+/ok/x\.h5 is no HDF5 file: .+(?=\)$)", "", remote["text"])
    assert (remote["kinds"], text) == (local["kinds"], local["text"]), f"local:  {local}\nremote: {remote}"


def broken_files(directory, sample):
    whole = sample.read_bytes()
    files = {"truncated": (whole[:-5000], "truncated file"), "cut within the head": (whole[:3000], "truncated file"),
             "empty": (b"", "signature"), "of random bytes": (hashlib.shake_256(b"x").digest(200000), "signature")}
    for name, (content, what) in files.items():
        path = directory / f"{name.replace(' ', '-')}.h5"
        path.write_bytes(content)
        yield name, path, what


def claims(plain, tls, directory, sample):
    """(claim, function, arguments), in an order in which the liar's counts are reset by nobody else."""
    yield "h5py asks for several ranges at once, with If-Match", several_ranges, plain
    for fault, options in SURVIVED.items():
        yield f"{fault}: the bytes are right", survived, plain, fault, options
    for fault, (kind, text, options) in FAILED.items():
        yield f"{fault}: {kind} that tells", failed, plain, fault, kind, text, options
    yield "an object that cannot be fetched: the error tells why", object_out_of_reach, plain
    yield "a change at XRootD is told once it was asked for", change_told_by_propfind, plain
    for when, fault in ("before its date is told", "xrootd:2"), ("after its date is told", "xrootd-late:2"):
        for options in {}, {"readahead": "off"}, {"connections": 1}:
            yield (f"a file at XRootD that is replaced behind its head, {when}, {options}: no two versions are mixed",
                   replaced_while_opened, plain, fault, options)
    for fault in ("ok", "truncate@2-2", "reset@2-2", "close-after", "no-length", "chunked", "multipart-lf"):
        yield f"{fault} over TLS: the bytes are right", survived, tls, fault, {}
    for mode in ("w", "a", "r+", "x"):
        yield f"opening a URL with mode {mode} is refused without a request", writing_refused, plain, mode
    yield "plain http gets no token", plain_http_gets_no_token, plain
    yield "401 over plain http: the error says that tokens need https", plain_http_refusal_says_https, plain
    yield "BEARER_TOKEN is sent over https with each request", token_is_sent, tls
    yield "a token renewed in its file is read again at 401", renewed_token, tls, True
    yield "a token that is no longer good gives an error that names it", renewed_token, tls, False
    yield "403, as XRootD has it: a token renewed in its file is read again", renewed_token, tls, True, "token-403"
    for what in ("right", "not asked for", "another host's", "a wrong password", "open to others"):
        yield f"a netrc file, {what}", netrc, tls, what
    yield "a server that is not trusted: OSError that says what to do", untrusted, tls
    for what in ("missing", "garbage", "unreadable"):
        yield f"a CA file that is {what}: OSError that names it, without a request", unusable_ca, tls, what
    yield "no token or query is stored in the shadow", no_secret_is_stored, tls
    yield "a port where nobody listens: OSError", nobody_listens
    yield "a name that does not resolve: OSError", no_such_host
    for name, path, what in broken_files(directory, sample):
        yield f"a remote file that is {name}: the same error as locally", like_local, path, what


def claims_alone(tls):
    """These reset the counts or look at everything that is printed: one after another."""
    yield "another host gets no token by a redirect", redirected_without_token, tls
    yield "another port of the same host gets no token by a redirect", other_port_without_token, tls
    yield "a redirect from https to http is refused before a request", downgrade_refused, tls
    yield "no token, password or query is printed in any error or log", no_secret_is_printed, tls


def outcome(claim, check, bench, *args):
    """None when the claim holds, else why not."""
    start = time.monotonic()
    try:
        check(bench, *args)
        return None
    except Exception as e:  # a failed claim is reported, the next one still runs
        where = traceback.extract_tb(e.__traceback__)[-1].lineno
        return f"{type(e).__name__} in line {where} after {time.monotonic() - start:.1f} s: {e}"


def table(tap, program, bench, words, prints, everything):
    """Each cell of docs/faults.md."""
    sample = bench.directory / "table.h5"
    status, out, err = harness.run([H5PY, "-c", fault_table.SAMPLE, sample], harness.clean_env())
    if not tap.ok(status == 0, "the table's sample is made", out + err):
        return
    chosen = [row for row in fault_table.rows() if not words or any(w in row[0] for w in words)]
    with Liar(sample) as plain, Liar(sample, bench.directory / "table-tls") as tls, \
            concurrent.futures.ThreadPoolExecutor(CELLS_AT_ONCE) as pool:
        tried = []
        for fault, ends, cells in fault_table.measured(program, sample, bench, plain, tls, pool, chosen, everything):
            tried.append((fault, cells))
            why = fault_table.wrong(cells, ends)
            if prints:
                print(f"| `{fault}` |", " | ".join(cells[k].word if k in cells else "–" for k in ends), "|")
            tap.ok(not why, f"{fault}: each kind of read ends as docs/faults.md says", "\n".join(why))
        print("#", fault_table.summary(tried), flush=True)


def main():
    program, words = sys.argv[1], [w for w in sys.argv[2:] if w not in ("--all", "--print")]
    prints = "--print" in sys.argv
    tap = harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-faults-") as d, harness.shadow_dir() as shadows:
        directory = pathlib.Path(d)
        directory.chmod(0o755)
        sample = directory / "sample.h5"
        status, out, err = harness.run([H5PY, "-c", SAMPLE, sample], harness.clean_env())
        if not tap.ok(status == 0, "the sample is made", out + err):
            return tap.done()
        bench = Bench(directory, shadows, sample)
        table(tap, program, bench, words, prints, prints or "--all" in sys.argv)
        if prints:
            return tap.done()
        with Liar(sample) as plain, Liar(sample, directory / "tls") as tls, \
                concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            chosen = [c for c in claims(plain, tls, directory, sample) if not words or any(w in c[0] for w in words)]
            ends = [pool.submit(outcome, claim, check, bench, *args) for claim, check, *args in chosen]
            for (claim, *_), end in zip(chosen, ends):
                why = end.result()
                tap.ok(why is None, claim, why)
            for claim, check, *args in claims_alone(tls):
                if not words or any(w in claim for w in words):
                    why = outcome(claim, check, bench, *args)
                    tap.ok(why is None, claim, why)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
