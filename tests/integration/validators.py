#!/usr/bin/env python3
"""What a server's ETag and Last-Modified prove, and what comes in place of the file: one version, or an error that tells.

Usage: validators.py [WORD …]        with words: only the claims that hold all of them

tests/support/liar.py is the server. Two h5py processes share a shadow: what one of them was told, the other must not
find there.
"""
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402
import obedient  # noqa: E402
from faults import Liar  # noqa: E402

ROWS, COLUMNS = 24, 65536
SAMPLE = f"""
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], "w") as f:
    f["rows"] = np.arange({ROWS * COLUMNS}, dtype="i4").reshape({ROWS}, -1)
with h5py.File(sys.argv[2], "w") as f:
    f["rows"] = np.arange(12, dtype="i4").reshape(3, -1)
"""


class Reader(obedient.Reader):
    """An h5py process. All it fetches is what it is asked for."""

    def __init__(self, directory, shadow, cacert):
        env = harness.driver_env(None, shadow, readahead="off", retries=2, stats="on")
        super().__init__(env | {"XHDF5_CA_BUNDLE": cacert, "BEARER_TOKEN_FILE": os.devnull,
                                "XDG_RUNTIME_DIR": str(directory)})

    def read(self, url, rows=range(ROWS), env=None, close=True):
        return self.ask(open=url, rows=list(rows), close=close,
                        env={"BEARER_TOKEN": None, "BEARER_TOKEN_FILE": os.devnull, **(env or {})})


def whole(result, rows=range(ROWS), columns=COLUMNS):
    assert "text" not in result, result["text"]
    assert result["rows"] == [row * columns + 1 for row in rows], f"WRONG BYTES: {result['rows']}"


def changed(result, *text):
    """An error that tells of the change, and no byte of another version before it."""
    assert result["rows"] == [row * COLUMNS + 1 for row in range(len(result["rows"]))], f"WRONG BYTES: {result['rows']}"
    assert "text" in result, "it was read without an error"
    for pattern in ("was changed on the server", *text):
        assert re.search(pattern, result["text"]), f"does not tell {pattern!r}: {result['text']}"


def refused(result, kind, *text, rows=0):
    assert "text" in result and len(result["rows"]) == rows, f"it was read: {result}"
    assert kind in result["kinds"], f"{result['kinds'][0]}: {result['text']}"
    for pattern in text:
        assert re.search(pattern, result["text"]), f"does not tell {pattern!r}: {result['text']}"


class Bench:
    def __init__(self, liar, http, small, readers, env):
        self.liar, self.http, self.small, self.readers, self.env, self.n = liar, http, small, readers, env, 0

    def path(self, fault):
        self.n += 1
        return f"/{fault}/{self.n}.h5"

    def requests(self, path, liar=None):
        return [r for r in (liar or self.http).requests().get(path, []) if r["method"] == "GET"]


# --- versions

def gone(bench, fault):
    """One reply brings another version's bytes and tells no version; then the old version is back."""
    path = bench.path(fault)
    changed(bench.readers[0].read(bench.http.base + path), "a reply came without one")
    whole(bench.readers[1].read(bench.http.base + path))


def tag_changes(bench, fault):
    path = bench.path(fault)
    changed(bench.readers[0].read(bench.http.base + path))


def is_shared(bench, fault, shared, rows=range(ROWS)):
    """Whether a second process asks again for what a first one has fetched."""
    path = bench.path(fault)
    whole(bench.readers[0].read(bench.http.base + path))
    first = len(bench.requests(path))
    whole(bench.readers[1].read(bench.http.base + path))
    more = len(bench.requests(path)) - first
    assert (more <= 2) == shared, f"{first} requests, then {more}"


def made_anew(bench, age_s, believed):
    """Another file of the same size takes the name within the second of the first one's date: what was read of the
    first is |believed| later, or not."""
    path = bench.path(f"remade:{age_s}")
    whole(bench.readers[0].read(bench.http.base + path))
    bench.http.release(path)
    for reader in (1, 0):
        result = bench.readers[reader].read(bench.http.base + path)
        assert "text" not in result, result["text"]
        old = [row * COLUMNS + 1 for row in range(ROWS)]
        assert (result["rows"] == old) == believed, result["rows"]
        assert believed or not set(result["rows"]) & set(old), result["rows"]


def read_to_write(reader, url):
    result = reader.ask(env={"XHDF5_WRITABLE": "on", "BEARER_TOKEN": None}, open=url, mode="r+", rows=list(range(ROWS)))
    reader.ask(env={"XHDF5_WRITABLE": None})
    assert "text" not in result, result["text"]
    return result


def aged_to_write(bench):
    """What a reader fetched within the minute is not for writers, what a writer fetched after it is for all."""
    path = bench.path("aged:30")
    url, fetched = bench.liar.base + path, []
    whole(bench.readers[0].read(url))
    bench.liar.release(path)
    for use in (read_to_write, read_to_write, Reader.read):
        before = len(bench.requests(path, bench.liar))
        whole(use(bench.readers[len(fetched) % 2], url))
        fetched.append(len(bench.requests(path, bench.liar)) - before)
    assert fetched[0] > ROWS / 2 and max(fetched[1:]) <= 2, fetched


def aged_and_verified(bench):
    path = bench.path("aged:30")
    whole(bench.readers[0].read(bench.http.base + path))
    tool = [harness.BUILD / "vfd" / "tool" / "xhdf5", "cache", "verify", bench.http.base + path]
    for _ in range(2):
        status, out, err = harness.run(tool, bench.env)
        assert status == 0 and re.search(r"[1-9]\d* pages .* checked, 0 differ", out), out + err
        bench.http.release(path)


def made_anew_to_write(bench):
    path = bench.path("remade:30")
    url = bench.liar.base + path
    whole(bench.readers[0].read(url))
    bench.liar.release(path)
    result = read_to_write(bench.readers[1], url)
    assert not set(result["rows"]) & {row * COLUMNS + 1 for row in range(ROWS)}, result["rows"]


def gzip_tag(bench):
    path = bench.path("gzip-tag")
    whole(bench.readers[0].read(bench.http.base + path))
    seen = bench.requests(path)
    assert all(r["status"] == 206 for r in seen) and seen[-1]["if_match"], seen


def gzip_strict(bench):
    path = bench.path("gzip-tag-strict")
    whole(bench.readers[0].read(bench.http.base + path))
    assert sum(r["status"] == 412 for r in bench.requests(path)) == 1, bench.requests(path)
    changed(bench.readers[0].read(bench.http.base + bench.path("gzip-tag-strict:6")), "ETag")


def versions(tap, bench):
    def claim(text, show, *words):
        tap.wanted(text, show, bench, *words)
    claim("ETag: a reply without it is another version, whose bytes no process gets", gone, "etag-gone@2-2")
    claim("ETag: a reply without it and with another Last-Modified is another version", gone, "etag-gone-date@2-2")
    claim("Last-Modified: a reply without it is another version, whose bytes no process gets", gone, "date-gone:3,3")
    for fault in ("long-tag", "odd-tag", "bare-tag"):
        claim(f"{fault}: a change is told of", tag_changes, f"{fault}:4")
    for fault, shared in (("long-tag", True), ("odd-tag", True), ("bare-tag", False), ("weak-tag", False),
                          ("weak-tag-date", True)):
        claim(f"{fault}: processes share {'what they fetch' if shared else 'nothing'}", is_shared, fault, shared)
    for fault in ("weak-tag", "weak-tag-date"):
        claim(f"{fault}: a change of the weak ETag is told of", tag_changes, f"{fault}:4")
    claim("an ETag that is weak at first and strong a second later is no change",
          lambda b: whole(b.readers[0].read(b.http.base + b.path("weak-to-strong"))))
    claim("Last-Modified of five minutes ago: processes share what they fetch", is_shared, "young:300", True)
    claim("Last-Modified of just now: they share nothing, as the file may change again in that second", is_shared,
          "young:0", False)
    claim("an ETag of this second or the last: what was read is given to no later opening: the file may be made anew",
          made_anew, 1, False)
    claim("an ETag of two seconds ago: processes share what they fetch", made_anew, 2, True)
    claim("an ETag of half a minute ago: a program that opens the file to write reads its own bytes", made_anew_to_write)
    claim("an ETag of half a minute ago, seen again a minute later: programs that open the file to write share what "
          "they fetch", aged_to_write)
    claim("an ETag of half a minute ago: `cache verify` compares what was fetched, also a minute later",
          aged_and_verified)
    claim("an ETag of the server's future: as one of just now", made_anew, -5, False)
    claim("an ETag that ends in -gzip is asked for without it", gzip_tag)
    claim("a server that refuses every If-Match: one refusal, then each reply's ETag proves; a change is told of",
          gzip_strict)
    claim("two ETags in one reply are no answer",
          lambda b: refused(b.readers[0].read(b.http.base + b.path("two-tags")), "OSError", "makes no sense.*ETag"))


# --- web pages

def page(bench, fault, host, how=r"BEARER_TOKEN", title=r'"Sign in \?\?31m&middot; Example"', **env):
    result = bench.readers[0].read(bench.liar.base + bench.path(fault), env=env)
    refused(result, "PermissionError", "web page", title, re.escape(host), how)
    assert "was changed" not in result["text"] and "secret" not in result["text"], result["text"]


def text_instead(bench, host):
    result = bench.readers[0].read(bench.liar.base + bench.path("login-json"))
    refused(result, "PermissionError", "a text, application/json, from", re.escape(host), "BEARER_TOKEN")
    assert "web page" not in result["text"], result["text"]


def written(bench, fault):
    for mode in ("w", "x"):
        result = bench.readers[0].ask(env={"XHDF5_WRITABLE": "on"}, open=bench.liar.base + bench.path(fault), mode=mode)
        refused(result, "PermissionError", "web page", "login", "BEARER_TOKEN_FILE")
    bench.readers[0].ask(env={"XHDF5_WRITABLE": None})


def nothing(bench, fault):
    result = bench.readers[0].read(bench.liar.base + bench.path(fault))
    refused(result, "OSError", "status 200", "no length", "no type", "no byte",
            re.escape(re.sub(r"https?://", "", bench.liar.base)))


def session_ends(bench, fault, kind="web page", **env):
    """The page comes from the fifth request on."""
    url = bench.liar.base + bench.path(fault)
    result = bench.readers[0].read(url, env=env)
    assert 0 < len(result["rows"]) < ROWS and "text" in result, result
    for pattern in ("session", kind, "BEARER_TOKEN", *["Sign in"] * (kind == "web page")):
        assert re.search(pattern, result["text"]), f"does not tell {pattern!r}: {result['text']}"
    assert "was changed" not in result["text"], result["text"]
    assert "WRONG" not in str(result) and result["rows"] == [row * COLUMNS + 1
                                                             for row in range(len(result["rows"]))], result


def came_instead(bench, fault, *texts):
    """What came in place of the file cannot be told from another version of it; the error says what that is."""
    result = bench.readers[0].read(bench.liar.base + bench.path(fault))
    assert 0 < len(result["rows"]) < ROWS, result
    changed(result, re.escape(re.sub(r"https?://", "", bench.liar.base)), *texts)


def session_renewed(bench):
    """The token is renewed in its file while the file is open."""
    with tempfile.NamedTemporaryFile("w") as token:
        def put(value):
            token.seek(0), token.truncate(), token.write(value), token.flush()
        put("A")
        reader, url = bench.readers[0], bench.liar.base + bench.path("login-until-token:4")
        none = {"BEARER_TOKEN_FILE": os.devnull}
        first = reader.ask(env={"BEARER_TOKEN": None, "BEARER_TOKEN_FILE": token.name}, open=url, rows=[0, 1],
                           close=False)
        put("B")
        rest = reader.ask(env=none, rows=list(range(2, ROWS)))
        whole({**rest, "rows": first["rows"] + rest["rows"]})


def pages(tap, bench):
    def claim(text, show, *words, **env):
        tap.wanted(text, (lambda b: show(b, *words, **env)), bench)
    here = re.sub(r"https?://", "", bench.liar.base)
    claim("a login page: PermissionError with its title, the host, and how to give a token", page, "login", here)
    claim("a login page in chunks and long: the same", page, "login-chunked", here)
    claim("a login page that honours ranges: the same", page, "login-206", here)
    claim("a redirect to a login page: the error names the host that it came from", page, "login-redirect",
          bench.liar.other.rpartition(":")[2])
    claim("a login page although a token was sent: the error says so", page, "login", here,
          "the token of BEARER_TOKEN, did not help",
          BEARER_TOKEN="of-nobody")
    claim("a login that answers with JSON: the error says what came, and how to give a token", text_instead, here)
    claim("a directory's listing: the error says that it is one", page, "listing", here, "Name a file in it",
          '"Index of /data/"')
    claim("a login page where a file is to be written: PermissionError that says so", written, "login")
    claim("a login page of no type: the same", page, "login-untyped", here)
    for fault in ("login@5-", "login-redirect@5-", "login-chunked@5-", "login-206@5-", "login-untyped@5-",
                  "login-octets@5-"):
        claim(f"{fault.partition('@')[0]} in mid-read: the session has ended, and the file was not changed",
              session_ends, fault)
    for fault, kind in (("login-json", "a text, application/json, from"),
                        ("login-packed-html", r"a web page, text/html, packed \(gzip\), from"),
                        ("login-packed-json", r"a text, application/json, packed \(gzip\), from")):
        claim(f"{fault} in mid-read: the session has ended; the error says what came", session_ends, f"{fault}@5-",
              kind)
    claim("login-packed in mid-read, which may be anything: the error says what came", came_instead, "login-packed@5-",
          r"without a type, packed \(gzip\), from")
    claim("200 without type, length or a byte: the error says so", nothing, "nothing")
    for size in (512, 32768):
        for fault in ("block-file", "block-html-file"):
            claim(f"{fault}:{size}: a file whose user block begins as a page is read",
                  lambda b: whole(b.readers[0].read(b.small.base + b.path(f"{fault}:{size}"), range(3)), range(3), 4))
    claim("a session that ends in mid-read goes on with the token that was renewed in its file", session_renewed)
    claim("a file that its server calls text/html is read",
          lambda b: whole(b.readers[0].read(b.http.base + b.path("html-file"))))
    claim("so is a small one by a server that knows no ranges",
          lambda b: whole(b.readers[0].read(b.small.base + b.path("html-small-file"), range(3)), range(3), 4))
    claim("a web page where a sidecar is looked for is not worth a word", sidecar)


def sidecar(bench):
    """The server answers each name that it does not know by a page."""
    env = {"XHDF5_SIDECAR": "auto"}
    reader = bench.readers[1]
    before = reader.printed()
    path = bench.path("page-but-data")
    whole(reader.read(bench.http.base + path, env=env, close=False))
    # Closing would take back a question that was not sent yet.
    harness.wait_for(lambda: path + ".xhmeta" in bench.http.requests(), "that it is looked for")
    reader.ask(env={"XHDF5_SIDECAR": "off"})
    more = reader.printed()[len(before):]
    assert "ignored" not in more, more


class Tap(harness.Tap):
    def __init__(self, words):
        super().__init__()
        self.words = words

    def wanted(self, text, show, *args):
        if all(w in text for w in self.words):
            with self.claim(text):
                show(*args)


def main():
    tap = Tap(sys.argv[1:])
    with contextlib.ExitStack() as stack:
        directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="xh-validators-")))
        files = directory / "data.h5", directory / "small.h5"
        status, _, err = harness.run([harness.DATA_PYTHON, "-c", SAMPLE, *files], harness.clean_env())
        assert status == 0, err
        liar = stack.enter_context(Liar(files[0], directory / "tls"))
        http, small = (stack.enter_context(Liar(f)) for f in files)
        shadow = stack.enter_context(harness.shadow_dir())
        readers = [Reader(directory, shadow, liar.cacert) for _ in range(2)]
        bench = Bench(liar, http, small, readers, harness.driver_env(None, shadow))
        versions(tap, bench)
        pages(tap, bench)
        for reader in readers:
            reader.end()
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
