"""Servers that tell a file's version in another way, and files that change."""
from .reply import Reply, Shared, fault, honest_reply, multipart, part


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


@fault("xrootd", "xrootd-late", whole=True)
def xrootd(r):
    """As XRootD: no validators, PROPFIND with the date, bare LFs; another version from GET ARGUMENT on, which
    PROPFIND tells as soon as the GET before has come, and for the first of which it waits; -late: which PROPFIND
    tells from that GET on."""
    if r.command == "PROPFIND":
        if r.arg and "-late" in r.path:
            r.n = sum(q["method"] == "GET" for q in Shared.requests[r.path])
        elif r.arg:
            with Shared.lock:
                Shared.lock.wait_for(lambda: any(q["method"] == "GET" for q in Shared.requests[r.path]), timeout=5)
                r.n = 1 + sum(q["method"] == "GET" for q in Shared.requests[r.path])
        changes_from(r)
        r.send(r.dated())
        return
    changes_from(r)
    reply = r.honest()
    if len(r.ranges or []) > 1:
        multipart(reply, [part(r.data, a, b, eol="\n") for a, b in r.ranges], eol="\n")
    r.send(reply)
