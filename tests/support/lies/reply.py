"""What the server's faults are made of: what all connections know, a reply, and the table of faults."""
import functools
import hashlib
import itertools
import threading

BOUNDARY = "00000000000000000042"
MTIME = 1_700_000_000
FAULTS = {}


class Shared:
    """What all connections know: the file, the ports, and the requests so far (under the lock)."""
    lock = threading.Condition()
    requests = {}
    released = {}    # path: how many of its requests are held no longer
    connections = itertools.count(1)
    ports = {}
    contexts = {}    # TLS: name of a certificate: context


class Reply:
    """A reply that a fault may change before it is sent: status, headers, body."""

    def __init__(self, status, body=b"", **headers):
        self.status, self.body = status, body
        self.headers = {k.replace("_", "-"): v for k, v in headers.items()}
        self.headers.setdefault("Content-Length", len(body))

    def set_body(self, body):
        self.body = body
        self.headers["Content-Length"] = len(body)


@functools.lru_cache
def tag_of(data):
    return '"' + hashlib.sha256(data).hexdigest()[:16] + '"'


@functools.lru_cache
def another_version(data):
    return data.translate(bytes(range(255, -1, -1)))


def part(body, a, b, total=None, eol="\r\n", boundary=BOUNDARY, shift=0, label=True):
    """One part of a multipart body: bytes [a, b) of |body|, its Content-Range moved by |shift|."""
    head = f"{eol}--{boundary}{eol}Content-Type: application/octet-stream{eol}"
    if label:
        head += f"Content-Range: bytes {a + shift}-{b + shift - 1}/{len(body) if total is None else total}{eol}"
    return (head + eol).encode() + body[a:b]


def multipart(reply, parts, eol="\r\n", closing=True, boundary=BOUNDARY):
    """Makes |reply| a multipart one of the |parts|."""
    reply.headers.pop("Content-Range", None)
    reply.headers["Content-Type"] = f"multipart/byteranges; boundary={BOUNDARY}"
    reply.set_body(b"".join(parts) + (f"{eol}--{boundary}--{eol}".encode() if closing else b""))


def honest_reply(r):
    r.send(r.honest())


def fault(*names, whole=False):
    """Enters a function under |names|. |whole|: it does its own counting and gets all requests."""
    def enter(f):
        f.whole = whole
        FAULTS.update(dict.fromkeys(names, f))
        return f
    return enter


def on_several(*names):
    """A fault of replies to several ranges: gets the request and an honest reply, and changes it."""
    def enter(change):
        def answer(r):
            reply = r.honest()
            if r.ranges and len(r.ranges) > 1 and reply.status == 206:
                reply = change(r, reply) or reply
            r.send(reply)
        answer.__doc__ = change.__doc__
        fault(*names)(answer)
        return change
    return enter
