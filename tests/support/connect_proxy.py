"""Proxies for tests: CONNECT for https, absolute URLs for http, Basic logins; and SOCKS 5. They keep what they were asked."""
import base64
import contextlib
import re
import socket
import threading


class Proxy:
    """|login|: "name:password" that it wants, or None; |refuses|: the status that each request gets, 0: none; |to|: the
    ports of this machine that stand for hosts elsewhere, then the only ones that it connects to; |all_at|: a port of
    loopback that every host is taken for; |interim|: what it says before it answers a good CONNECT."""

    def __init__(self, login=None, refuses=0, to=None, all_at=None, interim=b""):
        self.login, self.refuses, self.to, self.all_at, self.interim = login, refuses, to, all_at, interim
        self.lock = threading.Lock()
        self.asked = []     # (first line, login or None, status)
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.socket.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                s, _ = self.socket.accept()
                threading.Thread(target=self.serve, args=(s,), daemon=True).start()

    def serve(self, s):
        with s, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                more = s.recv(65536)
                if not more:
                    return
                head += more
            line, _, rest = head.partition(b"\r\n")
            shown = re.search(rb"(?im)^proxy-authorization: basic (\S+)", rest)
            shown = base64.b64decode(shown[1]).decode() if shown else None
            status = self.refuses or (407 if self.login and shown != self.login else 200)
            with self.lock:
                self.asked.append((line.decode(), shown, status))
            if status != 200:
                wants = 'Proxy-Authenticate: Basic realm="test"\r\n' if status == 407 else ""
                s.sendall(f"HTTP/1.1 {status} No\r\n{wants}Content-Length: 0\r\nConnection: close\r\n\r\n".encode())
                return
            method, target, _ = line.decode().split(" ")
            host, port, path = re.match(r"(?:http://)?([^/:]+):(\d+)(.*)", target).groups()
            if self.to is not None:
                host, port = "127.0.0.1", self.to.get(f"{host}:{port}", 0)
            to = ("127.0.0.1", self.all_at) if self.all_at else (host, int(port))
            with socket.create_connection(to, timeout=20) as server:
                if method == "CONNECT":
                    s.sendall(self.interim + b"HTTP/1.1 200 Connection established\r\n\r\n")
                else:       # one request a connection
                    rest = re.sub(rb"(?im)^proxy-[^\r]*\r\n", b"", rest)
                    server.sendall(f"{method} {path} HTTP/1.1\r\nConnection: close\r\n".encode() + rest)
                back = threading.Thread(target=self.pass_on, args=(server, s), daemon=True)
                back.start()
                self.pass_on(s, server)
                back.join()

    @staticmethod
    def pass_on(source, to):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                to.sendall(data)
        with contextlib.suppress(OSError):
            to.shutdown(socket.SHUT_WR)

    def connections(self):
        with self.lock:
            return list(self.asked)


class Socks(Proxy):
    """SOCKS 5 that wants |login|: RFC 1928, RFC 1929. |asked|: (None, login, 407 or 200)."""

    @staticmethod
    def take(s, n):
        data = b""
        while len(data) < n:
            more = s.recv(n - len(data))
            if not more:
                raise OSError
            data += more
        return data

    def serve(self, s):
        with s, contextlib.suppress(OSError):
            self.take(s, self.take(s, 2)[1])
            s.sendall(b"\5\2")     # a name and a password, please
            name = self.take(s, self.take(s, 2)[1])
            shown = b":".join((name, self.take(s, self.take(s, 1)[0]))).decode()
            with self.lock:
                self.asked.append((None, shown, 200 if shown == self.login else 407))
            s.sendall(b"\1\0" if shown == self.login else b"\1\1")
            if shown != self.login:
                return
            kind = self.take(s, 4)[3]
            host = socket.inet_ntoa(self.take(s, 4)) if kind == 1 else self.take(s, self.take(s, 1)[0]).decode()
            with socket.create_connection((host, int.from_bytes(self.take(s, 2))), timeout=20) as server:
                s.sendall(b"\5\0\0\1\0\0\0\0\0\0")
                back = threading.Thread(target=self.pass_on, args=(server, s), daemon=True)
                back.start()
                self.pass_on(s, server)
                back.join()
