#!/usr/bin/env python3
"""Runs origin_read against a server that lies, one lie after another, and checks how it ends. TAP.

Usage: origin_liar.py ORIGIN_READ [LIE ...]

The server speaks plain HTTP on a free port of the loopback. The path's first segment is
the lie. "ok" means that every byte was read and right in spite of it; else the error's
name must come, and a word that the user needs.
"""
import concurrent.futures
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

AT_ONCE = 3     # lies side by side: many of them wait
SIZE = 3_000_000
DATA = random.Random(1).randbytes(SIZE)
SMALL = DATA[:30_000]
WHOLE = DATA[:600_000]    # of lies by which each request brings all of a file up to the limit

# lie: (expected end, a word of the text, options)
LIES = {
    "honest": ("ok", "", {}),
    "chunked": ("ok", "", {}),
    "closes": ("ok", "", {}),
    "weak-etag": ("ok", "", {}),
    "date-only": ("ok", "", {}),
    "nothing": ("ok", "size:", {}),
    "short-206": ("ok", "", {}),
    "breaks-off": ("ok", "", {"retries": 20}),
    "busy": ("ok", "", {"retries": 20}),
    "stalls": ("ok", "", {"stall_timeout_ms": 200, "retries": 20}),
    "multi-200": ("ok", "max_ranges=1 ", {}),
    "multi-400-over-10": ("ok", "", {}),
    "multi-500": ("ok", "max_ranges=1 ", {}),
    "multi-416": ("ok", "max_ranges=1 ", {}),
    "multi-plain": ("ok", "max_ranges=1 ", {}),
    "multi-parts-missing": ("ok", "", {}),
    "multi-parts-shuffled": ("ok", "", {}),
    "multi-parts-twice": ("ok", "", {}),
    "multi-part-elsewhere": ("ok", "max_ranges=1 ", {}),
    "multi-part-longer": ("ok", "max_ranges=1 ", {}),
    "multi-no-ranges": ("ok", "max_ranges=1 ", {}),
    "multi-coalesced": ("ok", "", {}),
    "multi-bare-lf": ("ok", "", {}),
    "multi-endless": ("ok", "max_ranges=1 ", {}),
    "target-expires": ("ok", "", {"multirange": 0}),
    "multi-total": ("XH_E_CHANGED", "bytes", {}),
    "total-changes": ("XH_E_CHANGED", "changed", {}),
    "etag-changes": ("XH_E_CHANGED", "ETag", {}),
    "date-changes": ("XH_E_CHANGED", "Last-Modified", {}),
    "412": ("XH_E_CHANGED", "changed", {}),
    "416-shrunk": ("XH_E_CHANGED", "bytes", {}),
    "200-later": ("XH_E_PROTO", "xhdf5 get", {"whole_file_bytes": SIZE - 1}),
    "200-always": ("XH_E_PROTO", "xhdf5 get", {"whole_file_bytes": SIZE - 1}),
    "200-endless": ("XH_E_PROTO", "range requests", {}),
    "200-first": ("ok", "", {"whole_file_bytes": SIZE - 1}),
    "200-first, no retries": ("XH_E_PROTO", "whole_file_bytes", {"whole_file_bytes": SIZE - 1, "retries": 0}),
    "200-always, a file up to the limit": ("ok", "", {"whole_file_bytes": len(WHOLE)}),
    "200-later, a file up to the limit": ("ok", "", {}),
    "200-always, chunked": ("ok", "", {}),
    "small-200, a limit of 0": ("XH_E_PROTO", "only files up to 0 bytes", {"whole_file_bytes": 0}),
    "wrong-range": ("XH_E_PROTO", "asked for", {}),
    "too-long": ("XH_E_PROTO", "longer", {}),
    "length-lies": ("XH_E_PROTO", "Content-Length", {}),
    "no-content-range": ("XH_E_PROTO", "Content-Range", {}),
    "star-total": ("XH_E_PROTO", "large", {}),
    "gzip": ("XH_E_PROTO", "compressed", {}),
    "gzip-twice": ("XH_E_PROTO", "Content-Encoding: gzip", {}),
    "aws-chunked": ("ok", "", {}),
    "not-http": ("XH_E_PROTO", "HTTP", {"retries": 1}),
    "header-flood": ("XH_E_PROTO", "", {"retries": 1}),
    "loop": ("XH_E_PROTO", "loop", {}),
    "no-location": ("XH_E_PROTO", "Location", {}),
    "always-503": ("XH_E_STATUS", "503", {"retries": 2}),
    "always-503-text": ("XH_E_STATUS", "503", {"retries": 2}),    # its text is no sign that others are served
    "teapot": ("XH_E_STATUS", "418", {}),
    "gone": ("XH_E_NOENT", "410", {}),
    "forbidden": ("XH_E_ACCES", "403", {}),
    "vanishes": ("XH_E_NOENT", "404", {}),
    "always-stalls": ("XH_E_TIMEOUT", "no byte", {"stall_timeout_ms": 150, "retries": 1}),
    "always-breaks": ("XH_E_NET", "broke off", {"retries": 2}),
    "silent-close": ("XH_E_NET", "", {"retries": 2}),
    "small-200": ("ok", "", {}),
    "trailer-status": ("ok", "", {}),
    "trailer-refusal": ("ok", "", {}),
    "trailer-later": ("ok", "", {}),
    "trailer-later-colon": ("ok", "", {}),
    "never-ends": ("ok", "", {"retries": 0}),
    "multi-never-ends": ("ok", "", {"retries": 0}),
    "multi-500-once": ("ok", "max_ranges=200 ", {}),
    "multi-bad-once": ("ok", "max_ranges=200 ", {}),
    "multi-503-often": ("ok", "max_ranges=200 ", {"retries": 20}),
    "multi-501": ("ok", "max_ranges=1 ", {}),
    "multi-206-whole": ("ok", "max_ranges=1 ", {}),
    "multi-joined-whole": ("ok", "max_ranges=1 ", {}),
    "cdn": ("ok", "max_ranges=200 ", {"retries": 20}),
    "target-400": ("ok", "", {}),
    "target-once": ("ok", "max_ranges=200 ", {}),
    "target-dead": ("XH_E_STATUS", "in a row", {}),
    "retry-after": ("ok", "", {"connections": 1}),
    "retry-after-date": ("ok", "", {"connections": 1}),
    "501": ("XH_E_STATUS", "range requests", {}),
}

# lie: (ranges of a request and their length, most body bytes by times of what was asked for)
MOST = 1 << 20      # or a quarter of what a request asks for: what may come besides
BOUNDED = {
    "multi-206-whole": (10, 20_000),
    "multi-joined-whole": (10, 20_000),
    "multi-endless": (10, 20_000),
    "multi-preamble": (10, 20_000),
    "multi-epilogue": (10, 20_000),
    "too-long": (10, 20_000),
}


def file_of(way):
    """What the server has for a URL's first segment: a lie, with its words behind a comma."""
    return SMALL if way.startswith("small-200") else WHOLE if way.endswith(("up-to-the-limit", ",-chunked")) else DATA


class Reply:
    """What is to be sent, before the lie is laid over it."""

    def __init__(self):
        self.status = "206 Partial Content"
        self.headers = {"ETag": '"one"', "Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT"}
        self.body = b""


class Server:
    def __init__(self):
        self.count, self.quiet = {}, {}
        self.lock = threading.Lock()
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            s, _ = self.socket.accept()
            threading.Thread(target=self.serve, args=(s,), daemon=True).start()

    def serve(self, s):
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buf = b""
        try:
            while True:
                while b"\r\n\r\n" not in buf:
                    more = s.recv(65536)
                    if not more:
                        return
                    buf += more
                head, buf = buf.split(b"\r\n\r\n", 1)
                if not self.answer(s, head.decode("latin-1")):
                    return
        except OSError:
            pass
        finally:
            s.close()

    def answer(self, s, head):
        """Answers one request. False: the connection is to be closed."""
        line, *rest = head.split("\r\n")
        method, path, _ = line.split(" ")
        headers = {k.strip().lower(): v.strip() for k, v in (h.split(":", 1) for h in rest)}
        way = path.split("/")[1]
        lie = way.partition(",")[0]
        data = file_of(way)
        if method != "GET":
            return self.send(s, "405 Method Not Allowed", {}, b"")
        with self.lock:
            n = self.count[way] = self.count.get(way, 0) + 1
        ranges = [(int(a), min(int(b), len(data) - 1)) for a, b in re.findall(r"(\d+)-(\d+)", headers.get("range", ""))]
        multi = len(ranges) > 1
        return self.lie(s, lie, n, headers, data, ranges, multi, path)

    def first(self, lie):
        """1 for the first caller."""
        with self.lock:
            self.count[lie, "struck"] = self.count.get((lie, "struck"), 0) + 1
            return self.count[lie, "struck"] == 1

    def alone(self, lie, begins):
        """1 for one second from the call with |begins| on, but for that: the reply to it takes its time, too."""
        with self.lock:
            until = self.quiet.get(lie, 0)
            if begins:
                self.quiet[lie] = time.monotonic() + 0.999
            return time.monotonic() < until

    def send(self, s, status, headers, body, chunked=False):
        """|chunked|: in chunks, also True or a trailer's lines; None: without the last chunk."""
        ends, chunked = chunked is not None, chunked is None or chunked
        text = f"HTTP/1.1 {status}\r\n"
        if not chunked and "Content-Length" not in headers:
            headers = dict(headers, **{"Content-Length": str(len(body))})
        if chunked:
            headers = {k: v for k, v in headers.items() if k != "Content-Length"}
            headers["Transfer-Encoding"] = "chunked"
        text += "".join(f"{k}: {v}\r\n" for k, v in headers.items() if v is not None) + "\r\n"
        if chunked:
            pieces = (body[at:at + 5003] for at in range(0, len(body), 5003))
            body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
            body += b"0\r\n" + (chunked if isinstance(chunked, bytes) else b"") + b"\r\n" if ends else b""
        s.sendall(text.encode() + body)
        return headers.get("Connection") != "close"

    def parts(self, data, ranges, total=None, nl="\r\n"):
        out = []
        for first, last in ranges:
            out.append((f"{nl}--123456{nl}Content-type: text/plain{nl}"
                        f"Content-range: bytes {first}-{last}/{total or len(data)}{nl}{nl}").encode())
            out.append(data[first:last + 1])
        return b"".join(out) + f"{nl}--123456--{nl}".encode()

    def lie(self, s, lie, n, asked, data, ranges, multi, path):
        r = Reply()
        if asked.get("if-none-match") == r.headers["ETag"] and not lie.startswith(("weak", "date", "nothing")):
            return self.send(s, "304 Not Modified", r.headers, b"")
        first, last = ranges[0]
        r.headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
        r.body = data[first:last + 1]
        if multi:
            r.headers["Content-Type"] = "multipart/byteranges; boundary=123456"
            r.headers["Content-Range"] = None
            r.body = self.parts(data, ranges)
        opening = n == 1  # most lies begin after an honest opening
        h = r.headers
        whole = ("200 OK", {k: v for k, v in h.items() if k not in ("Content-Range", "Content-Type")}, data)
        if lie == "chunked":
            return self.send(s, r.status, h, r.body, chunked=True)
        if lie == "closes":
            h["Connection"] = "close"
        elif lie == "weak-etag":
            h["ETag"], h["Last-Modified"] = 'W/"one"', None
        elif lie == "date-only":
            h["ETag"] = None
        elif lie == "nothing":
            h["ETag"] = h["Last-Modified"] = None
        elif lie == "short-206" and not multi and not opening and len(r.body) > 1000:
            last = first + len(r.body) // 2
            h["Content-Range"], r.body = f"bytes {first}-{last}/{len(data)}", data[first:last + 1]
        elif lie == "breaks-off" and n % 3 == 0:
            self.send(s, r.status, dict(h, **{"Content-Length": str(len(r.body))}), r.body[:len(r.body) // 2])
            return False
        elif lie == "busy" and n % 3 == 0:
            return self.send(s, random.choice(["503 Busy", "429 Slow", "502 Bad", "408 Late"]), {"Retry-After": "0"},
                             b"busy")
        elif lie == "stalls" and n % 7 == 0:
            self.send(s, r.status, dict(h, **{"Content-Length": str(len(r.body))}), r.body[:len(r.body) // 2])
            time.sleep(1)
            return False
        elif lie == "multi-200" and multi:
            return self.send(s, *whole)
        elif lie == "multi-400-over-10" and len(ranges) > 10:
            return self.send(s, "400 Bad Request", {"Connection": "close"}, b"too many")
        elif lie == "multi-500" and multi:
            return self.send(s, "500 Read vector is too long", {}, b"no")
        elif lie == "multi-416" and multi:
            return self.send(s, "416 No", {}, b"no")
        elif lie == "multi-plain" and multi:
            first, last = ranges[0]
            h["Content-Type"], h["Content-Range"] = "text/plain", f"bytes {first}-{last}/{len(data)}"
            r.body = data[first:last + 1]
        elif lie == "multi-parts-missing" and multi:
            r.body = self.parts(data, ranges[::2])
        elif lie == "multi-parts-shuffled" and multi:
            r.body = self.parts(data, random.sample(ranges, len(ranges)))
        elif lie == "multi-parts-twice" and multi:
            r.body = self.parts(data, ranges[:2] + ranges)
        elif lie == "multi-part-elsewhere" and multi:
            end = ranges[-1][1]
            r.body = self.parts(data, [(end + 1, end + 9)] if end + 10 < len(data) else [(0, 0)])
        elif lie == "multi-part-longer" and multi:
            r.body = self.parts(data, ranges).replace(b"\r\n--123456", b"x\r\n--123456")
        elif lie == "multi-no-ranges" and multi:
            r.body = b"--123456\r\n\r\nrubbish\r\n--123456--\r\n"
        elif lie == "multi-coalesced" and multi:
            joined = []
            for a, b in ranges:
                if joined and a - joined[-1][1] < 50000:
                    joined[-1] = (joined[-1][0], b)
                else:
                    joined.append((a, b))
            r.body = self.parts(data, joined)
        elif lie == "multi-bare-lf" and multi:
            r.body = self.parts(data, ranges, nl="\n")
        elif lie == "multi-endless" and multi:
            self.send(s, r.status, dict(h, **{"Transfer-Encoding": "chunked", "Content-Length": None}), b"")
            piece = self.parts(data, ranges[:1])
            while True:
                s.sendall(b"%x\r\n" % len(piece) + piece + b"\r\n")
        elif lie == "target-expires":
            if "token=" not in path:
                return self.send(s, "302 Found", {"Location": f"{path}?token={n}"}, b"")
            if n - int(path.split("token=")[1]) > 600:
                return self.send(s, "403 Expired", {}, b"")
        elif lie.startswith("trailer-") and not (opening and "later" in lie):
            again = "500 No" if lie == "trailer-refusal" else r.status + ": yes" * lie.endswith("colon")
            trailer = f"HTTP/1.1 {again}\r\nETag: \"other\"\r\nContent-Range: bytes 0-0/1\r\n".encode()
            return self.send(s, r.status, h, r.body, chunked=trailer)
        elif lie == "never-ends" or (lie == "multi-never-ends" and multi):
            self.send(s, r.status, h, r.body, chunked=None)
            s.recv(1)     # until the client has gone
            return False
        elif lie == "multi-500-once" and multi and self.first(lie):
            return self.send(s, "500 Sorry", {}, b"no")
        elif lie == "multi-503-often" and multi and n % 2:
            return self.send(s, "503 Busy", {}, b"no")
        elif lie == "multi-bad-once" and multi and self.first(lie):
            r.body = b"--123456\r\n\r\nrubbish\r\n--123456--\r\n"
        elif lie == "multi-501" and multi:
            return self.send(s, "501 Not Implemented", {}, b"no")
        elif lie == "501":
            return self.send(s, "501 Not Implemented", {}, b"no")
        elif lie == "multi-206-whole" and multi:
            h["Content-Type"], h["Content-Range"] = "text/plain", f"bytes 0-{len(data) - 1}/{len(data)}"
            r.body = data
        elif lie == "multi-joined-whole" and multi:
            r.body = self.parts(data, [(0, len(data) - 1)])
        elif lie == "multi-preamble" and multi:
            r.body = b"\n".join([b"preamble"] * 300_000) + r.body
        elif lie == "multi-epilogue" and multi:
            r.body += bytes(4_000_000)
        elif lie == "cdn" and n % 3 == 0:
            return self.send(s, f"{random.randrange(520, 528)} Origin", {}, b"error code: 52x")
        elif lie == "target-400":
            if "token=" not in path:
                return self.send(s, "302 Found", {"Location": f"{path}?token={n}"}, b"")
            if n - int(path.split("token=")[1]) > 50:
                return self.send(s, "400 Bad Request", {}, b"<Error><Code>ExpiredToken</Code></Error>")
        elif lie in ("target-once", "target-dead"):
            # A target is good for one request, and not for what is asked for the first time; or, later, for none.
            token = path.partition("token=")[2]
            if not token:
                return self.send(s, "302 Found", {"Location": f"{path}?token={n}"}, b"")
            used = not self.first((lie, token))
            if used or (n > 20 if lie == "target-dead" else self.first((lie, asked["range"]))):
                return self.send(s, "400 Bad Request", {}, b"<Error><Code>ExpiredToken</Code></Error>")
        elif lie.startswith("retry-after") and self.alone(lie, n == 5):
            return self.send(s, "418 Teapot", {}, b"too soon")
        elif lie == "retry-after" and n == 5:
            return self.send(s, "503 Busy", {"Retry-After": "1"}, b"later")
        elif lie == "retry-after-date" and n == 5:    # its clock is not ours
            return self.send(s, "429 Slow", {"Date": "Sun, 06 Nov 1994 08:49:37 GMT",
                                             "Retry-After": "Sun, 06 Nov 1994 08:49:38 GMT"}, b"")
        elif lie == "multi-total" and multi:
            r.body = self.parts(data, ranges, total=len(data) + 1)
        elif lie == "total-changes" and n > 3:
            h["Content-Range"] = f"bytes {first}-{last}/{len(data) + 1}"
            h["Content-Type"], r.body = "text/plain", data[first:last + 1]
        elif lie == "etag-changes" and n > 3:
            h["ETag"] = '"two"'
        elif lie == "date-changes":
            h["ETag"] = None
            if n > 3:
                h["Last-Modified"] = "Sun, 06 Nov 1994 08:49:38 GMT"
        elif lie == "412" and n > 3:
            return self.send(s, "412 Precondition Failed", {}, b"")
        elif lie == "416-shrunk" and n > 3:
            return self.send(s, "416 No", {"Content-Range": "bytes */100"}, b"")
        elif lie == "200-always" or (lie == "200-later" and n > 1) or lie == "small-200" or (lie == "200-first"
                                                                                             and n == 1):
            return self.send(s, *whole, chunked="chunked" in path and opening)
        elif lie == "200-endless":
            self.send(s, "200 OK", dict(whole[1], **{"Transfer-Encoding": "chunked", "Content-Length": None}), b"")
            while True:
                s.sendall(b"1000\r\n" + bytes(4096) + b"\r\n")
        elif lie == "wrong-range" and not multi and not opening:
            h["Content-Range"], r.body = f"bytes 5-{4 + len(r.body)}/{len(data)}", data[5:5 + len(r.body)]
        elif lie == "too-long" and not opening:
            h["Content-Type"], h["Content-Range"] = "text/plain", f"bytes {first}-{last}/{len(data)}"
            return self.send(s, r.status, h, data[first:last + 1] + b"more", chunked=True)
        elif lie == "length-lies":
            return self.send(s, r.status, dict(h, **{"Content-Length": str(len(r.body) + 1)}), r.body + b"x")
        elif lie == "no-content-range":
            h["Content-Range"] = None
        elif lie == "star-total":
            h["Content-Range"] = f"bytes {first}-{last}/*"
        elif lie == "gzip":
            h["Content-Encoding"] = "gzip"
        elif lie == "aws-chunked":   # how it was uploaded, which the store has undone: Ceph, NooBaa, versitygw
            h["Content-Encoding"] = "aws-chunked"
        elif lie == "gzip-twice":    # a list in two lines: RFC 9110, 5.3
            h["Content-Encoding"], h["content-encoding"] = "gzip", "identity"
        elif lie == "not-http":
            s.sendall(b"SSH-2.0-OpenSSH_9.2\r\n" + bytes(1000))
            return False
        elif lie == "header-flood":
            s.sendall(b"HTTP/1.1 206 Partial Content\r\n")
            while True:
                s.sendall(b"X-Flood: 0123456789012345678901234567890123456789\r\n" * 100)
        elif lie == "loop":
            return self.send(s, "307 Round", {"Location": path}, b"")
        elif lie == "no-location":
            return self.send(s, "302 Found", {}, b"")
        elif lie == "always-503":
            return self.send(s, "503 Busy", {}, b"")
        elif lie == "always-503-text":
            return self.send(s, "503 Busy" if n < 12 else "404 Not Found", {}, b"busy")
        elif lie == "teapot":
            return self.send(s, "418 Teapot", {}, b"")
        elif lie == "gone":
            return self.send(s, "410 Gone", {}, b"")
        elif lie == "forbidden":
            return self.send(s, "403 Forbidden", {}, b"x" * 500_000)
        elif lie == "vanishes" and n > 3:
            return self.send(s, "404 Not Found", {}, b"")
        elif lie == "always-stalls" and not opening:
            time.sleep(5)
            return False
        elif lie == "always-breaks" and not opening:
            self.send(s, r.status, dict(h, **{"Content-Length": str(len(r.body))}), r.body[:1])
            return False
        elif lie == "silent-close":
            return False
        return self.send(s, r.status, h, r.body)


def run(program, server, lie, directory):
    expected, word, options = LIES[lie]
    way = lie.replace(" ", "-")
    local = os.path.join(directory, str(len(file_of(way))))
    env = dict(harness.clean_env(), no_proxy="*", TSAN_OPTIONS="die_after_fork=0",
               **{f"XHDF5_{k.upper()}": str(v) for k, v in options.items()})
    # A round is up to 16 transfers of up to 600 ranges. Of some lies each request brings all of the file, or a reply
    # that is cut, or each range needs a request of its own.
    rounds = "3" if lie in ("stalls", "busy", "breaks-off") else "1" if "," in lie else "2" if "max_ranges=1 " in word else "6"
    begun = time.monotonic()
    try:
        p = subprocess.run([program, f"http://127.0.0.1:{server.port}/{way}/x", local, "5", rounds],
                           env=env, timeout=250,
                           capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        return False, "still running after 100 s"
    said = (p.stdout + p.stderr).strip()
    good = p.returncode == 0 and "ok:" in said if expected == "ok" else p.returncode == 1 and f"{expected}:" in said
    if not good or word not in said + " " or "Sanitizer" in said:
        return False, f"expected {expected} with '{word}', got status {p.returncode}: {said}"
    return True, f"{time.monotonic() - begun:.1f} s: {said.splitlines()[0]}"


def bounded(program, server, lie, directory):
    """What comes of a request that nobody asked for is bounded, whatever its form."""
    nranges, length = BOUNDED[lie]
    p = subprocess.run([program, "--parts", f"http://127.0.0.1:{server.port}/{lie.replace(' ', '-')}/x",
                        os.path.join(directory, str(SIZE)), str(nranges), str(length)],
                       env=dict(harness.clean_env(), no_proxy="*"), timeout=250, capture_output=True, text=True)
    facts = {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", p.stdout)}
    if not facts:
        return "makes no sense" in p.stderr, p.stdout + p.stderr    # nor does it read on
    asked = facts["transfers"] * nranges * length
    most = asked + facts["multirange"] * (MOST + 100_000) + facts["requests"] * 70_000
    if lie == "multi-206-whole":    # refused at its headers: nothing of it comes
        most = asked + asked // 2
    return facts["bytes"] <= most, f"{p.stdout.strip()}: of {asked} bytes at most {most}"


def main():
    program, lies = sys.argv[1], sys.argv[2:] or list(LIES)
    server, tap = Server(), harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-liar-") as directory:
        for data in DATA, WHOLE, SMALL:
            pathlib.Path(directory, str(len(data))).write_bytes(data)
        lies = [lie for lie in lies if lie in LIES]
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            for lie, (good, said) in zip(lies, pool.map(lambda lie: run(program, server, lie, directory), lies)):
                tap.ok(good, f"{lie} ends with {LIES[lie][0]}", said)
                if good:
                    print("#", said[:150], flush=True)
        for lie in [b for b in BOUNDED if b in lies or not sys.argv[2:]]:
            good, said = bounded(program, server, lie, directory)
            tap.ok(good, f"{lie}: what nobody asked for is bounded", said)
            print("#", said[:150], flush=True)
    sys.exit(tap.done())


if __name__ == "__main__":
    main()
