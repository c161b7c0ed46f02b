"""Ranges that are not what was asked."""
import contextlib
import time

from .reply import fault, honest_reply


@fault("no-range")
def no_range(r):
    """200 and the whole file."""
    r.ranges = None
    honest_reply(r)


@fault("no-range-slow")
def no_range_slow(r):
    """200 and the whole file, by 256 KiB each 120 ms (the argument)."""
    r.ranges = None
    reply = r.honest()
    r.send(reply, body=False)
    with contextlib.suppress(OSError):
        for at in range(0, len(reply.body), 1 << 18):
            r.wfile.write(reply.body[at:at + (1 << 18)])
            time.sleep(int(r.arg or 120) / 1000)


@fault("wrong-range")
def wrong_range(r):
    """206 with the right length, of bytes one further on, and says so."""
    reply = r.honest()
    if r.ranges:
        a, b = r.ranges[0]
        reply.set_body((r.data[a + 1:b + 1] + b"\0")[:b - a])
        reply.headers["Content-Range"] = f"bytes {a + 1}-{b}/{len(r.data)}"
    r.send(reply)


@fault("partial")
def partial(r):
    """206 with the first half of what was asked, or at most the argument's bytes, and says so: allowed."""
    if r.ranges:
        a, b = r.ranges[0]
        r.ranges = [(a, min(b, a + int(r.arg)) if r.arg else a + max(1, (b - a) // 2))]
    honest_reply(r)


@fault("no-content-range")
def no_content_range(r):
    """206 that does not say of what."""
    reply = r.honest()
    reply.headers.pop("Content-Range", None)
    r.send(reply)


@fault("short-total")
def short_total(r):
    """The file has lost its last 1,000 bytes; the validator stays."""
    reply = r.honest()
    tag, r.data = reply.headers.get("ETag"), r.data[:-1000]
    r.etag, r.ranges = tag, r.asked(len(r.data))
    honest_reply(r)


def send_with_total(r, total):
    """The honest reply but for the file's size in Content-Range."""
    reply = r.honest()
    if "Content-Range" in reply.headers:
        reply.headers["Content-Range"] = reply.headers["Content-Range"].rpartition("/")[0] + f"/{total}"
    r.send(reply)


@fault("wrong-total")
def wrong_total(r):
    """Content-Range tells a file that is a byte longer."""
    send_with_total(r, len(r.data) + 1)


@fault("huge-total")
def huge_total(r):
    """Content-Range tells a file of two to the argument (62) bytes."""
    send_with_total(r, 1 << int(r.arg or 62))


@fault("wrong-length")
def wrong_length(r):
    """Content-Length is one more than Content-Range tells, and so much comes."""
    reply = r.honest()
    reply.set_body(reply.body + b"x")
    r.send(reply)


@fault("unknown-total")
def unknown_total(r):
    """Content-Range: bytes a-b/*."""
    reply = r.honest()
    if "Content-Range" in reply.headers:
        reply.headers["Content-Range"] = reply.headers["Content-Range"].rpartition("/")[0] + "/*"
    r.send(reply)


@fault("no-range-changes", whole=True)
def no_range_changes(r):
    """200 and the whole file; another version behind so many requests (1)."""
    if r.n > int(r.arg or 1):
        r.change()
    no_range(r)


@fault("chunked-200")
def chunked_200(r):
    """200 and the whole file, in chunks and without a length."""
    r.ranges = None
    reply = r.honest()
    reply.headers |= {"Content-Length": None, "Transfer-Encoding": "chunked"}
    body = b"".join(b"%x\r\n" % len(p) + p + b"\r\n"
                    for p in (reply.body[i:i + 50000] for i in range(0, len(reply.body), 50000)))
    reply.body = body + b"0\r\n\r\n"
    r.send(reply)


@fault("cut-200")
def cut_200(r):
    """200 and the length of the whole file, half of which comes."""
    r.ranges = None
    reply = r.honest()
    r.send(reply, body=False)
    r.write(reply.body[:len(reply.body) // 2])
    r.hang_up()
