"""One connection, and what an honest server does with it."""
import contextlib
import email.utils
import http.server
import json
import os
import re
import select
import socket
import ssl
import struct
import time

from .reply import FAULTS, MTIME, Reply, Shared, another_version, honest_reply, multipart, part, tag_of


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection. Its fields that faults use: data, ranges, arg, n (which request of its path)."""
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self):
        self.number = next(Shared.connections)
        super().setup()

    def log_message(self, *args):
        pass

    def do_GET(self):
        match = re.match(r"/([^/?@:~]+)(?::([^/@~]*))?(?:@(\d*)(-?)(\d*))?(?:~(?:(\d+)-(\d+)|(date)))?(?:[/?]|$)",
                         self.path)
        name, self.note = match[1] if match else "", {}
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        if name == "_struck":
            return self.send(Reply(200, json.dumps(self.struck(self.path[len("/_struck"):])).encode()))
        if name == "_release":
            with Shared.lock:
                Shared.released["/" + self.path.split("/", 2)[2]] = int(match[2] or 1 << 30)
                Shared.lock.notify_all()
            return self.send(Reply(200))
        if name == "_port":
            return self.send(Reply(200, str(self.server.another(match[2] == "tls")).encode()))
        if name == "_reset":
            with Shared.lock:
                Shared.requests.clear()
            return self.send(Reply(200))
        if name == "_stats":
            with Shared.lock:
                return self.send(Reply(200, json.dumps(Shared.requests).encode(), Content_Type="application/json"))
        self.note = {"method": self.command, "range": self.headers["Range"], "if_match": self.headers["If-Match"],
                     "if_none_match": self.headers["If-None-Match"], "host": self.headers["Host"],
                     "authorization": self.headers["Authorization"] is not None, "connection": self.number,
                     "status": None, "struck": False, "signed": "AWS4-" in (self.headers["Authorization"] or ""),
                     "session": self.headers["x-amz-security-token"] is not None}
        if name not in FAULTS:
            return self.send(Reply(404, b"no such fault; there are: " + " ".join(FAULTS).encode()))
        self.arg, self.data, self.etag, self.changes = match[2], self.server.data, None, False
        self.dates_apart = match[8] or name.startswith("xrootd")
        self.ranges = self.asked(len(self.data))
        meant = self.command == "PROPFIND" if match[8] else self.command != "PROPFIND"
        if match[6]:
            meant = meant and any(a < int(match[7]) and int(match[6]) < b for a,
                                  b in self.ranges or [(0, len(self.data))])
        first, dash, last = int(match[3] or 1), match[4], match[5]
        if match[3] and not dash:
            first, last = 1, first
        with Shared.lock:
            seen = Shared.requests.setdefault(self.path, [])
            self.note["meant"] = meant
            seen.append(self.note)
            self.n = max(1, sum(r["meant"] for r in seen))
            struck = self.note["struck"] = meant and first <= self.n <= (int(last) if last else self.n)
            Shared.lock.notify_all()
        if self.command == "PROPFIND" and not self.dates_apart:
            return self.send(Reply(405))
        return (FAULTS[name] if struck or FAULTS[name].whole else honest_reply)(self)

    do_HEAD = do_PROPFIND = do_OPTIONS = do_PUT = do_GET

    @staticmethod
    def struck(path):
        """The requests for |path| that were struck, once there is one; none after 20 s."""
        def found():
            return [r for r in Shared.requests.get(path, ()) if r["struck"]]
        with Shared.lock:
            Shared.lock.wait_for(found, timeout=20)
            return found()

    def asked(self, total):
        """The Range header as half-open ranges within |total|, None without one, [] when none can be satisfied."""
        match = re.fullmatch(r"bytes=([\d\s,-]+)", self.headers["Range"] or "")
        if not match:
            return None
        found = []
        for word in match[1].split(","):
            a, _, b = word.strip().partition("-")
            span = (int(a), min(int(b) + 1, total) if b else total) if a else (max(0, total - int(b)), total)
            if span[0] < span[1]:
                found.append(span)
        return found

    def honest(self, etag=True, date=True):
        """What nginx would answer; or XRootD, when only PROPFIND tells dates."""
        if self.dates_apart:
            etag = date = False
        if self.command == "PROPFIND" and self.dates_apart:
            return self.dated()
        if self.command not in ("GET", "HEAD"):
            return Reply(405)
        tag = self.etag or tag_of(self.data)
        headers = {"Accept_Ranges": "bytes", "Content_Type": "application/octet-stream"}
        if etag:
            headers["ETag"] = tag
        if date:
            headers["Last_Modified"] = email.utils.formatdate(MTIME + self.changes, usegmt=True)
        if etag and self.headers["If-Match"] not in (None, "*", tag):
            return Reply(412)
        if etag and self.headers["If-None-Match"] == tag:
            return Reply(304, **headers)
        total = len(self.data)
        if self.ranges is None:
            return Reply(200, self.data, **headers)
        if not self.ranges:
            return Reply(416, Content_Range=f"bytes */{total}")
        if len(self.ranges) == 1:
            a, b = self.ranges[0]
            return Reply(206, self.data[a:b], Content_Range=f"bytes {a}-{b - 1}/{total}", **headers)
        reply = Reply(206, **headers)
        multipart(reply, [part(self.data, a, b) for a, b in self.ranges])
        return reply

    def dated(self):
        """XRootD's answer to PROPFIND."""
        date = email.utils.formatdate(MTIME + self.changes, usegmt=True)
        return Reply(207, f'''<?xml version="1.0" encoding="utf-8"?>
<D:multistatus xmlns:D="DAV:" xmlns:ns1="http://apache.org/dav/props/" xmlns:ns0="DAV:">
<D:response xmlns:lp1="DAV:" xmlns:lp2="http://apache.org/dav/props/" xmlns:lp3="LCGDM:">
<D:href>{self.path}</D:href>
<D:propstat><D:prop><lp1:getcontentlength>{len(self.data)}</lp1:getcontentlength>
<lp1:getlastmodified>{date}</lp1:getlastmodified><lp1:resourcetype/></D:prop>
<D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response></D:multistatus>'''.encode(),
                     Content_Type='text/xml; charset="utf-8"')

    def change(self):
        """From here on the file is another one: other bytes, ETag and date, same size."""
        self.data, self.changes = another_version(self.data), True

    def send(self, reply, body=True):
        """Sends the reply, all of it or without its body."""
        self.note["status"] = reply.status
        self.send_response(reply.status)
        for k, v in reply.headers.items():
            if v is not None:
                self.send_header(k, str(v))
        self.end_headers()
        if body and self.command != "HEAD" and reply.status not in (204, 304):
            self.write(reply.body)

    def write(self, data):
        with contextlib.suppress(OSError):
            self.wfile.write(data)

    def endless(self, piece, chunked=False, pause_s=0):
        """Sends |piece| until the client has gone."""
        self.close_connection = True
        if chunked:
            piece = f"{len(piece):x}\r\n".encode() + piece + b"\r\n"
        with contextlib.suppress(OSError):
            while True:
                self.wfile.write(piece)
                time.sleep(pause_s)

    def hang(self):
        """Sends nothing more until the client has gone."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            while select.select([self.connection], [], []) and self.connection.recv(65536):
                pass

    def hang_up(self, reset=False):
        """Closes at once, with a TCP reset if |reset|, and without TLS's goodbye."""
        self.close_connection = True
        if reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            os.close(self.connection.detach())
        else:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(self.connection, socket.SHUT_RDWR)

    def finish(self):
        with contextlib.suppress(OSError, ValueError):
            super().finish()
            if isinstance(self.connection, ssl.SSLSocket):
                self.connection.settimeout(0)       # TLS's goodbye, without waiting for the client's
                self.connection.unwrap()
