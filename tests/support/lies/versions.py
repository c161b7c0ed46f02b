"""Servers that tell a file's version in another way, and files that change."""
import email.utils
import functools
import time

from .reply import MTIME, Reply, Shared, another_version, fault, honest_reply, multipart, part, tag_of


@fault("ok")
def ok(r):
    """No fault."""
    honest_reply(r)


def changes_from(r):
    """Makes the file another version from the request on that the argument names, if it names one."""
    if r.arg and r.n >= int(r.arg):
        r.change()


@fault("no-etag", whole=True)
def no_etag(r):
    """Last-Modified is all that tells the version; another version from request ARGUMENT on."""
    changes_from(r)
    r.send(r.honest(etag=False))


@fault("no-validator")
def no_validator(r):
    """Neither ETag nor Last-Modified, no PROPFIND."""
    r.send(r.honest(etag=False, date=False))


@fault("weak-etag")
def weak_etag(r):
    """W/"…", which must not match If-Match."""
    r.etag = 'W/"1234"'
    r.send(r.honest() if r.headers["If-Match"] is None else Reply(412))


@functools.lru_cache
def torn_version(data, at):
    return data[:at] + another_version(data)[at:]


@fault("torn")
def torn(r):
    """Bytes from the argument on are another version's, in replies that tell the old one: as if rewritten meanwhile."""
    r.etag, r.data = tag_of(r.data), torn_version(r.data, int(r.arg))
    r.send(r.honest())


def gets(r):
    return sum(q["method"] == "GET" for q in Shared.requests[r.path])


@fault("xrootd", "xrootd-late", whole=True)
def xrootd(r):
    """As XRootD: no validators, PROPFIND with the date, bare LFs; another version from GET ARGUMENT on, which
    PROPFIND tells as soon as the GET before has come, and for the first of which it waits; -late: which PROPFIND
    tells from that GET on."""
    if r.command == "PROPFIND":
        if r.arg and "-late" in r.path:
            r.n = gets(r)
        elif r.arg:
            with Shared.lock:
                Shared.lock.wait_for(lambda: gets(r), timeout=5)
                r.n = 1 + gets(r)
        changes_from(r)
        r.send(r.dated())
        return
    changes_from(r)
    reply = r.honest()
    if len(r.ranges or []) > 1:
        multipart(reply, [part(r.data, a, b, eol="\n") for a, b in r.ranges], eol="\n")
    r.send(reply)


@fault("etag-gone", "etag-gone-date")
def etag_gone(r):
    """Another version's bytes in a reply that tells no version, to whatever If-Match; -date: with a Last-Modified, which is
    another one."""
    r.change()
    del r.headers["If-Match"], r.headers["If-None-Match"]
    r.send(r.honest(etag=False, date="date" in r.path.partition("@")[0]))


@fault("date-gone", whole=True)
def date_gone(r):
    """Last-Modified alone tells the version; requests from the argument's to the second argument's (A,B) bring another
    version's bytes without it."""
    first, _, last = (r.arg or "1000").partition(",")
    other = int(first) <= r.n <= int(last or first)
    if other:
        r.change()
    r.send(r.honest(etag=False, date=not other))


@fault("weak-tag", "weak-tag-date", whole=True)
def weak_tag(r):
    """W/"1" alone, or -date: beside a Last-Modified that never changes; from request ARGUMENT on W/"2" and other bytes."""
    changed = bool(r.arg) and r.n >= int(r.arg)
    if changed:
        r.change()
        r.changes = False
    r.etag = 'W/"2"' if changed else 'W/"1"'
    r.send(r.honest(date="-date" in r.path) if r.headers["If-Match"] is None else Reply(412))


@fault("weak-to-strong", whole=True)
def weak_to_strong(r):
    """As Apache for a file of this second: the same tag, weak at first, strong from the second request on."""
    tag = tag_of(r.data)
    r.etag = f"W/{tag}" if r.n < 2 else tag
    r.send(r.honest())


@fault("long-tag", "bare-tag", "odd-tag", whole=True)
def unusual_tag(r):
    """An ETag of 400 bytes, without quotes, or of bytes that are no ASCII; no Last-Modified. From request ARGUMENT on another
    version, whose ETag differs in its last bytes."""
    name = r.path.split("/")[1].partition(":")[0]
    if r.arg and r.n >= int(r.arg):
        r.change()
    tag = tag_of(r.data).strip('"')
    r.etag = {"long-tag": f'"{"a" * 384}{tag}"', "bare-tag": tag, "odd-tag": f'"\xe9{tag}"'}[name]
    r.send(r.honest(date=False))


@fault("two-tags")
def two_tags(r):
    """Two ETags in one reply."""
    reply = r.honest()
    reply.headers["Etag"] = '"another"'
    r.send(reply)


@fault("gzip-tag", "gzip-tag-strict", whole=True)
def gzip_tag(r):
    """As Apache behind what unpacks its replies: the ETag ends in -gzip, and If-Match with it is refused; -strict: any
    If-Match is. Without the suffix it is the right one. From request ARGUMENT on another version."""
    if r.arg and r.n >= int(r.arg):
        r.change()
    tag = tag_of(r.data)
    asked = r.headers["If-Match"]
    if asked is not None and (asked != tag or "strict" in r.path):
        return r.send(Reply(412))
    del r.headers["If-Match"], r.headers["If-None-Match"]
    reply = r.honest()
    if "ETag" in reply.headers:
        reply.headers["ETag"] = tag[:-1] + '-gzip"'
    r.send(reply)


@fault("young", whole=True)
def young(r):
    """Last-Modified alone, of ARGUMENT seconds ago by the server's own clock."""
    Shared.began = getattr(Shared, "began", None) or time.time()
    reply = r.honest(etag=False)
    reply.headers["Last-Modified"] = email.utils.formatdate(Shared.began - int(r.arg or 0), usegmt=True)
    r.send(reply)


@fault("remade", "aged", whole=True)
def remade(r):
    """As nginx, whose ETag is the time in seconds and the size, of a file of ARGUMENT seconds ago. Once its path is
    released (/_release) a minute has passed; and another file, if it is remade, has been made under that name in the
    same second. Its metadata, what the size has beyond whole mebibytes, is the same."""
    with Shared.lock:
        since = r.path in Shared.released
    r.etag = f'"{MTIME:x}-{len(r.data):x}"'
    now = MTIME + int(r.arg or 0) + 60 * since
    r.date_time_string = lambda timestamp=None: email.utils.formatdate(now, usegmt=True)
    if since and r.path.startswith("/remade"):
        r.data = torn_version(r.data, len(r.data) % (1 << 20))
    r.send(r.honest())
