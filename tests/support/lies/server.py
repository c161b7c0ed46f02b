"""Ports, with TLS or without, and the certificates of a throw-away CA."""
import contextlib
import http.server
import pathlib
import socket
import ssl
import sys
import threading
import weakref

from .connection import Handler
from .reply import Shared


class Server(http.server.ThreadingHTTPServer):
    """One port. |context|: of TLS, or None; it rules connections that are opened from now on."""
    daemon_threads = True
    request_queue_size = 128
    host = "127.0.0.1"

    def __init__(self, port, data, context=None):
        super().__init__((self.host, port), Handler)
        self.data, self.context, self.refuses = data, context, False
        self.connections = weakref.WeakSet()

    def another(self, tls):
        """Opens a port with TLS or without; returns its number."""
        server = Server(0, self.data, Shared.contexts["right"] if tls else None)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server.server_port

    def get_request(self):
        connection, address = super().get_request()
        if self.context:    # the handshake is done by the connection's own thread
            connection = self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        with Shared.lock:
            self.connections.add(connection)
        return connection, address

    def end_connections(self):
        with Shared.lock:
            connections = list(self.connections)
        for connection in connections:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def stop(self):
        """Nobody listens any more, and nobody is connected."""
        self.socket.shutdown(socket.SHUT_RDWR)      # wakes who waits there
        self.shutdown()
        self.socket.close()
        self.end_connections()

    def handle_error(self, request, client_address):
        if not isinstance(sys.exception(), OSError):    # a client that has gone is no news
            super().handle_error(request, client_address)


def tls_contexts(directory):
    """A CA that vouches for one certificate, and for those that no client may take."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "server"))
    import throwaway_ca
    directory = pathlib.Path(directory)
    other = directory / "other"
    other.mkdir(parents=True, exist_ok=True)
    throwaway_ca.make_ca(other)
    throwaway_ca.make_ca(directory)
    # Amazon's hosts and a thief's, for who comes through a proxy that takes them for this one.
    amazon = ["evil.org", *(f"{any_}s3{region}.amazonaws.com" for any_ in ("", "*.")
                            for region in ("", ".us-east-1", ".eu-west-1", ".eu-west-2", ".eu-west-3"))]
    throwaway_ca.make_server(directory, directory, Server.host, amazon)
    throwaway_ca.sign(directory, directory, "host", "/CN=liar", 8, "subjectAltName=DNS:elsewhere.invalid")
    throwaway_ca.sign(directory, directory, "expired", "/CN=liar", 8, "subjectAltName=IP:127.0.0.1",
                      dates=("20200101000000Z", "20200201000000Z"))
    contexts = {"right": directory / "server", "host": directory / "host", "expired": directory / "expired",
                "self": other / "ca"}
    for name, files in contexts.items():
        contexts[name] = context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{files}.pem", f"{files}.key")
    return contexts
