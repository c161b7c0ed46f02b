"""A gate before a real server: passes HTTP/1.1 requests on over TLS, and does to the chosen ones what a test says.

    with Gate(server) as gate:
        gate.rule = lambda n, method, path: "deaf" if method == "MOVE" else None
        … gate.url …
        gate.log    # [(method, path, status)], status 0: no answer went back
    gate.authorized    # {method: how many requests came with an Authorization header}

|n| counts the requests since `arm()`. A rule runs on the connection's thread and may wait, or kill. It returns None (pass it
on), a number (answer with that status, ask nobody), or
    "cut"    close the connection, ask nobody
    "half"   pass on half of the body, then close both ends
    ("echo", N)  answer with status N, and what was sent as Authorization as the text
    "deaf"   pass it on, wait for the answer, and close the connection without giving it
    ("instead", N)  pass it on, and give status N instead of the answer's
    ("slow", S)  pass on the body in S seconds
    ("later", N, S)  answer with status N, and "Retry-After: S"
    ("to", N, URL)  answer with status N and that Location
    ("give", HEAD)  answer with that, the head of a reply
    ("endless", N, S)  answer with status N and a text without an end: all at once, or a byte each S seconds. N None:
             pass it on, and give the server's own status
    ("headers", N, S)  the same with headers
"""
import collections
import contextlib
import pathlib
import re
import socket
import ssl
import threading
import time
import urllib.parse

PIECE = 1 << 18
WORDS = {401: "Unauthorized", 403: "Forbidden", 500: "Internal Server Error", 503: "Service Unavailable",
         507: "Insufficient Storage"}


class Closed(Exception):
    pass


class Wire:
    """A socket with a buffer."""

    def __init__(self, sock):
        self.sock, self.have = sock, b""

    def head(self):
        while b"\r\n\r\n" not in self.have:
            self._more()
        head, self.have = self.have.split(b"\r\n\r\n", 1)
        return head + b"\r\n\r\n"

    def some(self, most):
        if not self.have:
            self._more()
        data, self.have = self.have[:most], self.have[most:]
        return data

    def _more(self):
        data = self.sock.recv(PIECE)
        if not data:
            raise Closed
        self.have += data

    def send(self, data):
        self.sock.sendall(data)


def field(head, name):
    m = re.search(rb"(?im)^%s:[ \t]*([^\r\n]*)" % name, head)
    return m[1].strip() if m else None


class Gate:
    def __init__(self, server):
        u = urllib.parse.urlsplit(server.url)
        self.to, self.run = (u.hostname, u.port), pathlib.Path(server.run)
        self.rule = lambda n, method, path: None
        self.log, self.n, self.lock = [], 0, threading.Lock()
        self.unwelcome = 0    # so many new connections are closed before the handshake
        self.authorized = collections.Counter()
        self.there = ssl.create_default_context(cafile=server.cacert)
        self.here = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.here.load_cert_chain(self.run / "server.pem", self.run / "server.key")

    def __enter__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"https://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exc):
        self.listener.close()

    def arm(self, rule):
        with self.lock:
            self.n, self.log, self.rule = 0, [], rule

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        there = None
        with self.lock:
            unwelcome, self.unwelcome = self.unwelcome > 0, max(0, self.unwelcome - 1)
        if unwelcome:
            sock.close()
            return
        with contextlib.suppress(Closed, OSError, ssl.SSLError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            mine = Wire(self.here.wrap_socket(sock, server_side=True))
            while True:
                head = mine.head()
                if there is None:
                    raw = socket.create_connection(self.to, timeout=60)
                    there = Wire(self.there.wrap_socket(raw, server_hostname=self.to[0]))
                if not self._one(mine, there, head):
                    break
        for one in (sock, there and there.sock):
            with contextlib.suppress(OSError, AttributeError):
                one.close()
        with contextlib.suppress(UnboundLocalError, OSError):
            mine.sock.close()

    @staticmethod
    def _without_end(mine, what, status, each_s):
        status = 200 if status == 204 else status    # which has no text
        mine.send(f"HTTP/1.1 {status} Endless\r\nContent-Type: text/plain\r\n".encode())
        if what == "endless":    # with a length, as only so it is read by who asks several things in one piece
            mine.send(b"Content-Length: 1000000000000\r\n\r\n")
        while True:
            mine.send((b"x" if what == "endless" else b"x: y\r\n") * (1 if each_s else 10000))
            time.sleep(each_s)    # not a wait: a server's rate

    def _one(self, mine, there, head):
        """Returns 1 when the connection goes on."""
        method, path = head.decode("latin-1").split(" ", 2)[:2]
        with self.lock:
            n, rule = self.n, self.rule
            self.n += 1
        do = rule(n, method, path)
        entry = [method, path, 0]
        sent = field(head, b"authorization")
        with self.lock:
            self.log.append(entry)
            self.authorized[method] += sent is not None
        if do == "cut":
            return 0
        if isinstance(do, tuple) and do[0] == "echo":
            entry[2], text = do[1], b"no good: " + (sent or b"")
            mine.send(f"HTTP/1.1 {do[1]} Refused\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n".encode() +
                      (b"" if method == "HEAD" else text))
            return 0
        if isinstance(do, tuple) and do[0] == "later":
            entry[2] = do[1]
            mine.send(f"HTTP/1.1 {do[1]} Later\r\nRetry-After: {do[2]}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
            return 0
        if isinstance(do, tuple) and do[0] == "to":
            entry[2] = do[1]
            mine.send(f"HTTP/1.1 {do[1]} Found\r\nLocation: {do[2]}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
            return 0
        if isinstance(do, tuple) and do[0] == "give":
            entry[2] = int(do[1].split(b" ", 2)[1])
            mine.send(do[1])
            return 1
        if isinstance(do, tuple) and do[0] in ("endless", "headers") and do[1]:
            entry[2] = do[1]
            self._without_end(mine, *do)
        if isinstance(do, int):
            entry[2] = do
            mine.send(f"HTTP/1.1 {do} {WORDS.get(do, 'Refused')}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
            return 0
        left = total = int(field(head, b"content-length") or 0)
        if field(head, b"expect"):
            mine.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        half = left // 2
        # The head goes with the first bytes of the body, as the driver's: XRootD waits for ever where TLS is cut
        # otherwise (docs/upstream.md).
        if not left:
            there.send(head)
        while left > 0:
            slow = do[1] if isinstance(do, tuple) and do[0] == "slow" else 0
            data = mine.some(min(left, PIECE if not slow else 1 + total // 50))
            time.sleep(slow * len(data) / total if slow else 0)    # not a wait: a link's rate
            there.send(head + data)
            head = b""
            left -= len(data)
            if do == "half" and left <= half:
                return 0
        reply = there.head()
        while reply.startswith(b"HTTP/1.1 100"):
            reply = there.head()
        entry[2] = int(reply.split(b" ", 2)[1])
        if do == "deaf":
            entry[2] = 0
            return 0
        if isinstance(do, tuple) and do[0] == "instead":
            reply = re.sub(rb"^HTTP/1.1 \d+ [^\r]*", f"HTTP/1.1 {do[1]} Instead".encode(), reply)
            if entry[2] == 204:    # which has no text
                reply = reply.replace(b"\r\n\r\n", b"\r\nContent-Length: 0\r\n\r\n")
        if isinstance(do, tuple) and do[0] in ("endless", "headers"):
            self._without_end(mine, do[0], entry[2], do[2])
        mine.send(reply)
        length = field(reply, b"content-length")
        left = 0 if method == "HEAD" or entry[2] in (204, 304) else int(length) if length else None
        while left is None or left > 0:
            data = there.some(PIECE if left is None else min(left, PIECE))
            mine.send(data)
            if left is not None:
                left -= len(data)
        return 1
