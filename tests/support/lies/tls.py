"""TLS that fails."""
import contextlib
import re
import socket
import struct

from .reply import Shared, fault


@fault("cert-expired", "cert-self", "cert-host")
def certificate(r):
    """Ends all connections, and later ones get another certificate: expired, signed by itself, of another host. Use
    with /_port."""
    r.server.context = Shared.contexts[re.match(r"/cert-(\w+)", r.path)[1]]
    r.hang_up()
    r.server.end_connections()


@fault("tls-cut", "tls-forged")
def tls_record(r):
    """Half of the body, then half a record and the end; -forged: then a record that the key has not made."""
    reply = r.honest()
    r.send(reply, body=False)
    r.write(reply.body[:len(reply.body) // 2])
    size, sent = (16401, 1000) if r.path.startswith("/tls-cut") else (1000, 1000)
    with contextlib.suppress(OSError):
        socket.socket.sendall(r.connection, b"\x17\x03\x03" + struct.pack(">H", size) + bytes(sent))
    r.hang_up() if r.path.startswith("/tls-cut") else r.hang()
