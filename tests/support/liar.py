#!/usr/bin/env python3
"""An HTTP/1.1 server for the faults that real servers cannot be made to have. Serves one file.

  liar.py FILE [--host ADDRESS] [--port P] [--tls DIR]
      prints port=N other=N http=N, with --tls also cacert=DIR/ca.pem (a throw-away CA made there);
      `other` is a second port of the same kind, `http` a plain one. Runs until its stdin closes or
      it is killed.

The first part of a URL's path chooses the fault, whatever follows is a name: /truncate/x.h5.
Which requests of a URL (same path) are struck is chosen with @, the others are served honestly:
  /stall/x.h5       every request        /stall@2/x.h5     the first two
  /stall@3-/x.h5    from the third on    /stall@2-4/x.h5   the second to the fourth
A tilde narrows that to one kind of request, and then such alone are counted:
  /stall~0-99/x.h5  those that ask for a byte of [0, 99)
  /stall~date/x.h5  PROPFIND, at a server that is else like XRootD
Else PROPFIND is not counted; only /xrootd and /xrootd-late answer it, the others refuse it as nginx does.
A fault's argument follows a colon: /slow:50/x.h5, /503:2@1~0-99/x.h5.

  /_stats        JSON: {path: [{"method", "range", "if_match", "if_none_match", "authorization", "host",
                 "connection", "status", "struck"}]} in the order of arrival; authorization is true or
                 false, connection a number, struck whether the fault met it
  /_struck/PATH  waits until a request for PATH was struck, 20 s at most; JSON: all that were
  /_reset        forgets all of it, and so starts the counting for @ anew
  /_port         JSON: a new port, for a fault that changes a whole server; /_port:tls one with TLS

Each function under "faults" is one of them: its names, then what it does. An honest reply is like
nginx's, and is what a fault starts from.
"""
import argparse
import base64
import contextlib
import email.utils
import functools
import gzip
import hashlib
import http.server
import inspect
import itertools
import json
import os
import pathlib
import re
import select
import socket
import ssl
import struct
import sys
import threading
import time
import weakref

BOUNDARY = "00000000000000000042"
MTIME = 1_700_000_000
FAULTS = {}


class Shared:
    """What all connections know: the file, the ports, and the requests so far (under the lock)."""
    lock = threading.Condition()
    requests = {}
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
        match = re.match(r"/([^/?@:~]+)(?::([^/@~]*))?(?:@(\d*)(-?)(\d*))?(?:~(?:(\d+)-(\d+)|(date)))?(?:[/?]|$)", self.path)
        name, self.note = match[1] if match else "", {}
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        if name == "_struck":
            return self.send(Reply(200, json.dumps(self.struck(self.path[len("/_struck"):])).encode()))
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
                     "status": None, "struck": False}
        if name not in FAULTS:
            return self.send(Reply(404, b"no such fault; there are: " + " ".join(FAULTS).encode()))
        self.arg, self.data, self.etag, self.changes = match[2], self.server.data, None, False
        self.dates_apart = match[8] or name.startswith("xrootd")
        self.ranges = self.asked(len(self.data))
        meant = self.command == "PROPFIND" if match[8] else self.command != "PROPFIND"
        if match[6]:
            meant = meant and any(a < int(match[7]) and int(match[6]) < b for a, b in self.ranges or [(0, len(self.data))])
        first, dash, last = int(match[3] or 1), match[4], match[5]
        if match[3] and not dash:
            first, last = 1, first
        with Shared.lock:
            seen = Shared.requests.setdefault(self.path, [])
            self.note["meant"] = meant
            seen.append(self.note)
            self.n = sum(r["meant"] for r in seen)
            struck = self.note["struck"] = meant and first <= self.n <= (int(last) if last else self.n)
            Shared.lock.notify_all()
        if self.command == "PROPFIND" and not self.dates_apart:
            return self.send(Reply(405))
        return (FAULTS[name] if struck or FAULTS[name].whole else honest_reply)(self)

    do_HEAD = do_PROPFIND = do_OPTIONS = do_GET

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


def honest_reply(r):
    r.send(r.honest())


# --- faults ---------------------------------------------------------------------------------------

def fault(*names, whole=False):
    """Enters a function under |names|. |whole|: it does its own counting and gets all requests."""
    def enter(f):
        f.whole = whole
        FAULTS.update(dict.fromkeys(names, f))
        return f
    return enter


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


# Statuses

@fault("401", "403", "404", "416", "500", "501", "502", "504")
def status(r):
    """The status of its name."""
    r.send(Reply(int(r.path[1:4]), b"so it is"))


@fault("endless-error")
def endless_error(r):
    """500, and a text that does not end."""
    r.send(Reply(500, Content_Length=None, Transfer_Encoding="chunked"), body=False)
    r.endless(b"sorry " * 1000, chunked=True)


@fault("429", "503")
def busy(r):
    """With Retry-After: 1, or the argument."""
    r.send(Reply(int(r.path[1:4]), b"later", Retry_After=r.arg or "1"))


@fault("token", "token-403", whole=True)
def token(r):
    """401 unless `Bearer A`; after as many good requests as the argument says, `Bearer B` instead; -403: with 403."""
    with Shared.lock:
        good = sum(n["status"] not in (401, 403, None) for n in Shared.requests[r.path])
    want = "A" if r.arg is None or good < int(r.arg) else "B"
    if r.headers["Authorization"] == f"Bearer {want}":
        honest_reply(r)
    else:
        status = 403 if r.path.startswith("/token-403") else 401
        r.send(Reply(status, b"who?", WWW_Authenticate='Bearer realm="liar"'))


@fault("token-echo")
def token_echo(r):
    """401, and what was sent comes back in body and header."""
    sent = r.headers["Authorization"] or ""
    r.send(Reply(401, sent.encode(), WWW_Authenticate=f'Bearer error="invalid_token", error_description="no good: {sent}"'))


@fault("basic")
def basic(r):
    """401 unless name and password are `reader` and `pass word`."""
    if r.headers["Authorization"] == "Basic " + base64.b64encode(b"reader:pass word").decode():
        honest_reply(r)
    else:
        r.send(Reply(401, b"who?", WWW_Authenticate='Basic realm="liar"'))


# Ranges that are not what was asked

@fault("no-range")
def no_range(r):
    """200 and the whole file."""
    r.ranges = None
    honest_reply(r)


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
    """206 with the first half of what was asked, and says so: allowed."""
    if r.ranges:
        a, b = r.ranges[0]
        r.ranges = [(a, a + max(1, (b - a) // 2))]
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


@fault("wrong-total")
def wrong_total(r):
    """Content-Range tells a file that is a byte longer."""
    reply = r.honest()
    if "Content-Range" in reply.headers:
        reply.headers["Content-Range"] = reply.headers["Content-Range"].rpartition("/")[0] + f"/{len(r.data) + 1}"
    r.send(reply)


@fault("huge-total")
def huge_total(r):
    """Content-Range tells a file of two to the argument (62) bytes."""
    reply = r.honest()
    if "Content-Range" in reply.headers:
        reply.headers["Content-Range"] = reply.headers["Content-Range"].rpartition("/")[0] + f"/{1 << int(r.arg or 62)}"
    r.send(reply)


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


# A file that changes: use with @N-

@fault("etag-change")
def etag_change(r):
    """Another version: other bytes, ETag and date, same size; 412 to the old If-Match."""
    r.change()
    honest_reply(r)


@fault("etag-change-ignored")
def etag_change_ignored(r):
    """Another version, and If-Match is not honoured: only the reply's ETag tells."""
    r.change()
    del r.headers["If-Match"], r.headers["If-None-Match"]
    honest_reply(r)


# How the body ends

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
        again = Server(r.server.server_port, r.data, r.server.context)
        threading.Thread(target=again.serve_forever, daemon=True).start()


@fault("truncate")
def truncate(r):
    """Closes after half of the promised body."""
    reply = r.honest()
    r.send(reply, body=False)
    r.write(reply.body[:len(reply.body) // 2])
    r.hang_up()


@fault("reset")
def reset(r):
    """TCP reset after half of the body."""
    reply = r.honest()
    r.send(reply, body=False)
    r.write(reply.body[:len(reply.body) // 2])
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
    reply = r.honest()
    r.send(reply, body=False)
    r.write(reply.body[:len(reply.body) // 2])
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
    """200, no length, and zeros without an end."""
    r.send(Reply(200, Content_Length=None, Transfer_Encoding="chunked"), body=False)
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


# Redirects

def here(r, port, path, host=None):
    scheme = "http" if port == Shared.ports["http"] or not Shared.contexts else "https"
    return f"{scheme}://{host or r.headers['Host'].rpartition(':')[0]}:{port}{path}"


@fault("redirect", "redirect-307")
def redirect(r):
    """To /ok/ at `other` under another host name (localhost), which must not get the Authorization."""
    code = 307 if r.path.startswith("/redirect-307") else 302
    r.send(Reply(code, Location=here(r, Shared.ports["other"], "/ok/redirected", "localhost")))


@fault("redirect-ticket")
def redirect_ticket(r):
    """To /ticket/N-NAME at `other`, which answers as many requests as the argument says (3), then 403."""
    name = r.path.partition("?")[0].rpartition("/")[2]
    r.send(Reply(302, Location=here(r, Shared.ports["other"], f"/ticket:{r.arg or 3}/{r.n}-{name}?sign=secret")))


@fault("ticket", whole=True)
def ticket(r):
    """Good for as many requests as the argument says (3), then 403: where redirect-ticket sends to."""
    if r.n <= int(r.arg or 3):
        honest_reply(r)
    else:
        r.send(Reply(403, b"expired"))


@fault("redirect-loop")
def redirect_loop(r):
    """301 to itself."""
    r.send(Reply(301, Location=r.path))


@fault("redirect-to")
def redirect_to(r):
    """To what no reader may follow: a URL of the argument's scheme."""
    r.send(Reply(302, Location={"file": "file:///etc/passwd", "data": "data:,x"}.get(r.arg, f"{r.arg}://127.0.0.1:1/x")))


@fault("redirect-far")
def redirect_far(r):
    """To a URL of 20,000 bytes."""
    r.send(Reply(302, Location="/ok/" + "x" * 20000))


@fault("redirect-http")
def redirect_http(r):
    """To the plain port: a downgrade."""
    r.send(Reply(302, Location=here(r, Shared.ports["http"], "/ok/downgraded")))


@fault("redirect-nowhere")
def redirect_nowhere(r):
    """302 without Location."""
    r.send(Reply(302))


# Nonsense

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


@fault("endless-trailer")
def endless_trailer(r):
    """Half of the body in chunks, then trailer lines without an end."""
    reply = r.honest()
    reply.headers |= {"Content-Length": None, "Transfer-Encoding": "chunked"}
    r.send(reply, body=False)
    half = reply.body[:max(1, len(reply.body) // 2)]
    r.write(f"{len(half):x}\r\n".encode() + half + b"\r\n0\r\n")
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
    reply.set_body(gzip.compress(reply.body))
    r.send(reply)


# TLS

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


# Replies to several ranges; single ranges are answered honestly

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


@on_several("multipart-bad-boundary")
def bad_boundary(r, reply):
    """The body's boundary is not the header's."""
    multipart(reply, [part(r.data, a, b, boundary="other") for a, b in r.ranges], boundary="other")


@on_several("multipart-lf")
def bare_lf(r, reply):
    """Lines end in LF alone, as XRootD's: to be understood."""
    multipart(reply, [part(r.data, a, b, eol="\n") for a, b in r.ranges], eol="\n")


@on_several("multipart-overlap")
def overlap(r, reply):
    """Each part comes twice."""
    multipart(reply, [part(r.data, a, b) for a, b in r.ranges for _ in range(2)])


@on_several("multipart-reversed")
def backwards(r, reply):
    """The last range first: allowed."""
    multipart(reply, [part(r.data, a, b) for a, b in reversed(r.ranges)])


@on_several("multipart-joined")
def joined(r, reply):
    """One part from the first range's start to the last one's end: allowed."""
    multipart(reply, [part(r.data, min(a for a, _ in r.ranges), max(b for _, b in r.ranges))])


@on_several("multipart-out-of-range")
def out_of_range(r, reply):
    """A part that says it lies beyond the file."""
    (a, b), *rest = r.ranges
    multipart(reply, [part(r.data, a, b, shift=len(r.data))] + [part(r.data, a, b) for a, b in rest])


@on_several("multipart-shifted")
def shifted(r, reply):
    """The last part is one byte further on than asked, and says so."""
    a, b = r.ranges[-1]
    multipart(reply, [part(r.data, a, b) for a, b in r.ranges[:-1]] + [part(r.data, a, b, shift=1)])


@on_several("multipart-missing-part")
def missing_part(r, reply):
    """The last part is not there."""
    multipart(reply, [part(r.data, a, b) for a, b in r.ranges[:-1]])


@on_several("multipart-unlabelled")
def unlabelled(r, reply):
    """Parts without Content-Range."""
    multipart(reply, [part(r.data, a, b, label=False) for a, b in r.ranges])


@on_several("multipart-other-total")
def other_total(r, reply):
    """The last part tells another size of the file."""
    a, b = r.ranges[-1]
    multipart(reply, [part(r.data, a, b) for a, b in r.ranges[:-1]] + [part(r.data, a, b, total=len(r.data) + 1)])


@on_several("multipart-cut")
def cut(r, reply):
    """Ends in the middle of the last part; Content-Length agrees."""
    multipart(reply, [part(r.data, a, b) for a, b in r.ranges], closing=False)
    a, b = r.ranges[-1]
    reply.set_body(reply.body[:len(reply.body) - (b - a + 1) // 2])


@fault("multipart-endless")
def endless_multipart(r):
    """The first part again and again."""
    if len(r.ranges or ()) < 2:
        return honest_reply(r)
    reply = r.honest()
    reply.headers |= {"Content-Length": None, "Transfer-Encoding": "chunked"}
    r.send(reply, body=False)
    r.endless(part(r.data, *r.ranges[0]), chunked=True)


@on_several("multipart-long-line")
def long_line(r, reply):
    """A part's header of 5,000 bytes."""
    multipart(reply, [f"\r\n--{BOUNDARY}\r\nX: {'x' * 5000}".encode() + part(r.data, a, b)[len(BOUNDARY) + 4:]
                      for a, b in r.ranges])


@on_several("multipart-many-lines")
def many_lines(r, reply):
    """A part with 1,000 headers."""
    multipart(reply, [f"\r\n--{BOUNDARY}\r\n{1000 * 'X: y\r\n'}".encode() + part(r.data, a, b)[len(BOUNDARY) + 6:]
                      for a, b in r.ranges])


@on_several("multipart-boundary")
def long_boundary(r, reply):
    """A boundary of 1,000 bytes."""
    b = "b" * 1000
    multipart(reply, [part(r.data, *span, boundary=b) for span in r.ranges], boundary=b)
    reply.headers["Content-Type"] = f"multipart/byteranges; boundary={b}"


@on_several("no-multipart")
def only_first(r, reply):
    """206 with the first range alone."""
    r.ranges = r.ranges[:1]
    return r.honest()


@on_several("no-multipart-200")
def whole_instead(r, reply):
    """200 and the whole file."""
    r.ranges = None
    return r.honest()


@on_several("too-many")
def too_many(r, reply):
    """400 to more ranges than the argument says (1)."""
    return Reply(400, b"too many ranges") if len(r.ranges) > int(r.arg or 1) else None


# --- the server -----------------------------------------------------------------------------------

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
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "server"))
    import throwaway_ca
    directory = pathlib.Path(directory)
    other = directory / "other"
    other.mkdir(parents=True, exist_ok=True)
    throwaway_ca.make_ca(other)
    throwaway_ca.make_ca(directory)
    throwaway_ca.make_server(directory, directory, Server.host)
    throwaway_ca.sign(directory, directory, "host", "/CN=liar", 8, "subjectAltName=DNS:elsewhere.invalid")
    throwaway_ca.sign(directory, directory, "expired", "/CN=liar", 8, "subjectAltName=IP:127.0.0.1",
                      dates=("20200101000000Z", "20200201000000Z"))
    contexts = {"right": directory / "server", "host": directory / "host", "expired": directory / "expired",
                "self": other / "ca"}
    for name, files in contexts.items():
        contexts[name] = context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{files}.pem", f"{files}.key")
    return contexts


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                epilog="faults:\n" + "\n".join(
                                    f"  {name:<23} {inspect.getdoc(f).splitlines()[0]}" for name, f in FAULTS.items()))
    p.add_argument("file")
    p.add_argument("--host", metavar="ADDRESS", default=Server.host)
    p.add_argument("--port", type=int, default=0)
    p.add_argument("--tls", metavar="DIR")
    args = p.parse_args()
    data = pathlib.Path(args.file).read_bytes()
    Server.host = args.host
    Shared.contexts = tls_contexts(args.tls) if args.tls else {}
    context = Shared.contexts.get("right")
    servers = {"port": Server(args.port, data, context), "other": Server(0, data, context), "http": Server(0, data)}
    for name, server in servers.items():
        Shared.ports[name] = server.server_port
        threading.Thread(target=server.serve_forever, daemon=True).start()
    cacert = f" cacert={os.path.abspath(args.tls)}/ca.pem" if args.tls else ""
    print(" ".join(f"{k}={v}" for k, v in Shared.ports.items()) + cacert, flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
