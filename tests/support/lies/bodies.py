"""How the body comes, and how it ends."""
import contextlib
import threading
import time

from .reply import Reply, Shared, fault, honest_reply


@fault("refuse")
def refuse(r):
    """Ends all connections and nobody listens any more; after the argument's milliseconds somebody does again. Use
    with /_port."""
    with Shared.lock:
        if r.server.refuses:
            return r.hang_up(reset=True)
        r.server.refuses = True
    r.server.stop()
    r.hang_up(reset=True)
    if r.arg:
        time.sleep(int(r.arg) / 1000)
        again = type(r.server)(r.server.server_port, r.data, r.server.context)
        threading.Thread(target=again.serve_forever, daemon=True).start()


def send_half(r):
    """The honest reply's head, and half of the body that it promises."""
    reply = r.honest()
    r.send(reply, body=False)
    r.write(reply.body[:len(reply.body) // 2])


@fault("truncate")
def truncate(r):
    """Closes after half of the promised body."""
    send_half(r)
    r.hang_up()


@fault("reset")
def reset(r):
    """TCP reset after half of the body."""
    send_half(r)
    r.hang_up(reset=True)


@fault("reset-head")
def reset_head(r):
    """TCP reset instead of a reply."""
    r.hang_up(reset=True)


@fault("empty-reply")
def empty_reply(r):
    """Closes instead of replying."""
    r.hang_up()


@fault("stall")
def stall(r):
    """Half of the body, then silence."""
    send_half(r)
    r.hang()


@fault("stall-head")
def stall_head(r):
    """Silence."""
    r.hang()


@fault("slow")
def slow(r):
    """A KiB, then a pause of the argument's milliseconds (20), and so on."""
    reply = r.honest()
    r.send(reply, body=False)
    for at in range(0, len(reply.body), 1024):
        try:
            r.wfile.write(reply.body[at:at + 1024])
        except OSError:
            return
        time.sleep(int(r.arg or 20) / 1000)


@fault("trickle")
def trickle(r):
    """The body by a byte each 50 ms."""
    reply = r.honest()
    r.send(reply, body=False)
    with contextlib.suppress(OSError):
        for at in range(len(reply.body)):
            r.wfile.write(reply.body[at:at + 1])
            time.sleep(0.05)


@fault("trickle-head")
def trickle_head(r):
    """Headers, a short one each 50 ms, without an end."""
    r.write(b"HTTP/1.1 206 Partial Content\r\n")
    r.endless(b"X: y\r\n", pause_s=0.05)


@fault("late")
def late(r):
    """Silence for the argument's milliseconds (300), then honest."""
    time.sleep(int(r.arg or 300) / 1000)
    r.send(r.honest())


@fault("held", "held-404")
def held(r):
    """Silence until /_release/PATH has let it go (/_release:N/PATH: the first N), then honest; -404: then 404."""
    with Shared.lock:
        Shared.lock.wait_for(lambda: Shared.released.get(r.path, 0) >= r.n, timeout=100)
    r.send(Reply(404, b"so it is") if r.path.startswith("/held-404") else r.honest())


@fault("paced")
def paced(r):
    """Late by the argument's milliseconds, then honest, by half a MiB each 10 ms, as over a link that is not this machine's own."""
    time.sleep(int(r.arg or 20) / 1000)
    reply = r.honest()
    r.send(reply, body=False)
    with contextlib.suppress(OSError):
        for at in range(0, len(reply.body), 1 << 19):
            r.wfile.write(reply.body[at:at + (1 << 19)])
            time.sleep(0.01)


@fault("no-length")
def no_length(r):
    """No Content-Length: the body ends with the connection."""
    reply = r.honest()
    reply.headers |= {"Content-Length": None, "Connection": "close"}
    r.send(reply)


@fault("chunked", "chunked-cut")
def chunked(r):
    """Transfer-Encoding: chunked; cut: closes before the last chunk."""
    reply = r.honest()
    reply.headers |= {"Content-Length": None, "Transfer-Encoding": "chunked"}
    r.send(reply, body=False)
    for at in range(0, len(reply.body), 10000):
        piece = reply.body[at:at + 10000]
        r.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
    if r.path.startswith("/chunked-cut"):
        r.hang_up()
    else:
        r.write(b"0\r\n\r\n")


@fault("extra-bytes")
def extra_bytes(r):
    """More body than Content-Length says, which would poison the next reply. In one piece with the body: what comes
    when the next request has been sent is the reply to it, for any client."""
    reply = r.honest()
    r.send(reply, body=False)
    r.write(reply.body + b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npoisoned!")


@fault("twice")
def twice(r):
    """The body comes twice, and Content-Length counts both."""
    reply = r.honest()
    reply.set_body(reply.body * 2)
    r.send(reply)


@fault("endless-body")
def endless_body(r):
    """What was asked for, and then more without an end."""
    reply = r.honest()
    reply.headers |= {"Content-Length": None, "Transfer-Encoding": "chunked"}
    r.send(reply, body=False)
    r.endless(reply.body or b"x", chunked=True)


@fault("endless-200")
def endless_200(r):
    """200, no length, and zeros without an end; of the right version, as it says."""
    r.ranges = None
    del r.headers["If-None-Match"]
    reply = r.honest() if r.command == "GET" else Reply(200)
    reply.headers |= {"Content-Length": None, "Transfer-Encoding": "chunked"}
    r.send(reply, body=False)
    r.endless(bytes(65536), chunked=True)


@fault("http10")
def http10(r):
    """HTTP/1.0: no length, the connection ends with the body."""
    r.protocol_version, r.close_connection = "HTTP/1.0", True
    reply = r.honest()
    reply.headers["Content-Length"] = None
    r.send(reply)


@fault("close-after")
def close_after(r):
    """Whole reply, says keep-alive, closes."""
    honest_reply(r)
    r.close_connection = True
