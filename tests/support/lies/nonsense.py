"""What is no HTTP, or far too much of it."""
import gzip

from .reply import fault, honest_reply


@fault("huge-header")
def huge_header(r):
    """A header line of a MiB."""
    reply = r.honest()
    reply.headers["X-Long"] = "x" * (1 << 20)
    r.send(reply)


@fault("endless-header")
def endless_header(r):
    """Header lines without an end."""
    r.write(b"HTTP/1.1 206 Partial Content\r\n")
    r.endless(b"X-Flood: 0123456789012345678901234567890123456789\r\n" * 100)


@fault("trailer-status")
def trailer_status(r):
    """In chunks, and a status line with headers for a trailer."""
    reply = r.honest()
    reply.headers |= {"Content-Length": None, "Transfer-Encoding": "chunked"}
    r.send(reply, body=False)
    body = f"{len(reply.body):x}\r\n".encode() + reply.body + b"\r\n" if reply.body else b""
    r.write(body + b"0\r\nHTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-0/1\r\n\r\n")


@fault("endless-trailer")
def endless_trailer(r):
    """A quarter of the body in chunks, then trailer lines without an end."""
    reply = r.honest()
    reply.headers |= {"Content-Length": None, "Transfer-Encoding": "chunked"}
    r.send(reply, body=False)
    some = reply.body[:max(1, len(reply.body) // 4)]
    r.write(f"{len(some):x}\r\n".encode() + some + b"\r\n0\r\n")
    r.endless(b"X-Flood: 0123456789012345678901234567890123456789\r\n" * 100)


@fault("continue")
def interim(r):
    """100 Continue and 103 Early Hints, then honest."""
    r.write(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n")
    honest_reply(r)


@fault("endless-continue")
def endless_continue(r):
    """100 Continue without an end."""
    r.endless(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)


@fault("garbage")
def garbage(r):
    """Bytes that are not HTTP."""
    r.write(bytes(range(256)) * 16)
    r.hang_up()


@fault("gzip-encoding")
def gzip_encoding(r):
    """Content-Encoding: gzip though identity was asked."""
    reply = r.honest()
    reply.headers["Content-Encoding"] = "gzip"
    reply.set_body(gzip.compress(reply.body, 0))    # at once: a reader who waits for it is told of a silence
    r.send(reply)
