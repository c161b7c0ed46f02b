"""The table of docs/faults.md: each fault of tests/support/liar.py, met by each kind of read.

A cell is one process (fault_reads.c): it reads a file whose server has the fault, then one without. It must end as
the table says, within the time and the memory that the options state, and the liar must have met the fault with a
request of that kind. A row may name any fault in the liar's own form; a dash is a cell that would say nothing.
"""
import http.client
import json
import re
import resource
import subprocess

import harness

DOC = harness.TOP / "docs" / "faults.md"
MIB = 1 << 20
SLACK_S = 20        # a loaded machine
# The program, its libraries' code and the reader's buffers: 18 MiB measured, 26 of the kind stream.
PROGRAM_MIB = 32
# What a driver without bounds may take from the machine before malloc fails.
GUARD_BYTES = 1 << 30

# How a read may end: the words of the table, and what HDF5's error stack must tell then.
ENDS = {
    "right": None,
    "silent": r"no byte for \d+ ms, after \d+ retries",
    "crawls": r"only \d+ bytes in \d+ ms, after \d+ retries",
    "broke": r"the connection broke off, also after \d+ retries",
    "refused": r"no connection to the server after \d+ retries",
    "busy": r"status (429|5\d\d), \d+ retries did not help",
    "status": r"501 Not Implemented|answered with status 400",
    "missing": r"404 Not Found: there is no such file",
    "denied": r"403 Forbidden",
    "unsatisfied": r"416 Range Not Satisfiable",
    "changed": r"the file was changed on the server|the file is being changed on the server",
    "no ranges": r"the server does not do range requests",
    "nonsense": r"the server's reply makes no sense",
    "no HTTP": r"the server does not speak HTTP/1.1",
    "truncated": r"truncated file",
    "too large": r"cannot name the cache of a file of \d+ bytes: too large",
    "short": r"the reply is shorter than it promised",
    "loop": r"redirected more than \d+ times",
    "nowhere": r"without a usable Location",
    "barred": r"redirected to (a URL that cannot be used|\S+, which is not encrypted: refused)",
    "untrusted": r"the server's certificate was not accepted",
    "no TLS": r"no TLS session with the server",
}
# What a request must be for to be struck, and what the struck ones must look like. The last two read as "ahead" does
# and as "head": the fault is at another endpoint, and in what PROPFIND tells.
KINDS = {
    "head": ("~0-8", lambda r: r["range"].startswith("bytes=0-")),
    "single": (f"~{8 * MIB}-{12 * MIB}", lambda r: "," not in r["range"]),
    "several": (f"~{8 * MIB}-{12 * MIB}", lambda r: "," in r["range"]),
    "ahead": (f"~{5 * MIB // 2}-{8 * MIB}", lambda r: "," not in r["range"]),
    "stream": (f"~{22 * MIB}-{23 * MIB}", lambda r: length(r) == 8 * MIB),
    "hint": (f"~{8 * MIB}-{12 * MIB}", lambda r: "," in r["range"]),
    "endpoint": ("", lambda r: True),
    "date": ("~date", lambda r: r["method"] == "PROPFIND"),
}
# What sleeps and tries again in real time is met by each kind of read in the simulator, with virtual time
# (sim_faults). Here such faults are met daily by these, over real sockets; by all in the suite long.
SIMULATED = ("stall", "trickle", "429", "500", "503", "520", "refuse", "reset", "empty-reply", "truncate",
             "chunked-cut", "tls-cut",
             "tls-forged")
DAILY = ("head", "several", "endpoint", "date")
READS = {"endpoint": "ahead", "date": "head"}
# libcurl 7.76 does not mind this trailer; 8.14 refuses it where it follows the reply to a question.
OLDER = {"trailer-status": {"date": "right"}}
GUESSING = ("ahead", "stream", "endpoint")
IN_ADVANCE = GUESSING + ("hint",)     # the fault was met before the reader came

SAMPLE = """
import os, sys, h5py
with h5py.File(sys.argv[1], "w") as f:
    data = f.create_dataset("data", (512, 65536), "u1")
    for i in range(0, 512, 64):
        data[i:i + 64] = memoryview(os.urandom(64 * 65536)).cast("B", (64, 65536))
"""


def length(request):
    return sum(int(b) - int(a) + 1 for a, b in re.findall(r"(\d+)-(\d+)", request["range"]))


def options_of(fault):
    """Patience for what ends by itself, none for what does not."""
    stall_ms = 1000 if fault.startswith(("stall", "trickle")) else 30000
    retries = 5 if fault.startswith("refuse:") else 2
    return {"stall_timeout_ms": stall_ms, "connect_timeout_ms": 30000, "retries": retries, "whole_file_bytes": 4 * MIB}


def stated_s(options):
    """How long a read may take at a server that brings nothing: docs/faults.md."""
    attempts = options["retries"] + 1
    attempt_ms = options["connect_timeout_ms"] + 2 * options["stall_timeout_ms"]
    return (attempts * attempt_ms + sum(min(100 << i, 10000) for i in range(options["retries"]))) / 1000


def stated_mib(options):
    """The most memory that a cell may take: what was fetched ahead, and a file that comes whole, twice when its buffer
    grows. The sample is larger than that file."""
    ahead_bytes = options.get("readahead_bytes", 0)
    return PROGRAM_MIB + (ahead_bytes + 2 * options["whole_file_bytes"]) / MIB


def needs_tls(fault):
    return fault.startswith(("cert-", "tls-", "redirect-http"))


def rows():
    """[(fault, {kind: word})] of the table."""
    found = []
    for line in DOC.read_text().splitlines():
        cells = [c.strip() for c in line.strip("|").split("|")]
        if re.fullmatch(r"`[\w:@.-]+`", cells[0]) and len(cells) == 2 + len(KINDS):
            fault = cells[0].strip("`")
            older = OLDER.get(fault, {}) if harness.libcurl() < (8, 14) else {}
            found.append((fault, dict(zip(KINDS, cells[2:])) | older))
    return found


class Asker:
    """What the liar says of itself, at its plain port."""

    def __init__(self, liar):
        self.liar = liar

    def get(self, path, base=None):
        host = (base or self.liar.http).partition("//")[2]
        connection = http.client.HTTPConnection(host, timeout=60)
        try:
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def struck(self, path):
        return self.get("/_struck" + path)


def urls(liar, fault, kind, name):
    """(URL, endpoints, path of what is struck)."""
    base = liar.base
    if fault.startswith(("refuse", "cert-")):
        port = Asker(liar).get("/_port:tls" if needs_tls(fault) else "/_port")
        base = f"{liar.base.rpartition(':')[0]}:{port}"
    elif kind == "endpoint":
        base = liar.other
    path = f"/{fault}{KINDS[kind][0]}/{name}"
    if kind == "endpoint":
        return f"{liar.base}/ok/{name}", f"{liar.base}/ok {base}/{fault}", path
    return base + path, "", path


class Cell:
    """How one ended: |word| of the table, or why it is none of them."""

    def __init__(self, program, sample, bench, liar, fault, kind):
        name, options = bench.name(), options_of(fault)
        url, endpoints, path = urls(liar, fault, kind, name)
        more = {"XHDF5_ENDPOINTS": endpoints} if endpoints else {}
        options |= {"stream": {"stream_bytes": MIB, "multirange": "off", "readahead_bytes": 32 * MIB},
                    "ahead": {"readahead_bytes": 4 * MIB}}.get(READS.get(kind, kind), {})
        self.bound_s, self.bound_mib = stated_s(options) + SLACK_S, stated_mib(options)
        env = bench.env(liar.cacert, more, readahead="on" if kind in GUESSING else "off", **options)
        del env["HDF5_DRIVER"]    # it is linked
        env.pop("MALLOC_PERTURB_", None)    # meson sets it, and then memory is touched that nobody uses
        self.word, self.ms, self.peak_mib, self.why = "hang", 0, 0, ""
        process = subprocess.Popen([str(program), READS.get(kind, kind), url, f"{liar.base}/ok/after-{name}",
                                    str(sample)],
                                   env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   bufsize=0)    # so that a line may be read before communicate()
        resource.prlimit(process.pid, resource.RLIMIT_DATA, (GUARD_BYTES, GUARD_BYTES))
        try:
            first = process.stdout.readline() if kind in IN_ADVANCE else b""
            if first == b"now\n":    # else it has failed before: the fault concerned what lies before, too
                first = b""
                Asker(liar).struck(path)
                process.stdin.write(b"\n")
            out, err = (s.decode(errors="replace") for s in process.communicate(timeout=self.bound_s))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self.why = f"still running after {self.bound_s:.0f} s"
            return
        self.judge(kind, first.decode() + out, err, Asker(liar).struck(path))

    def judge(self, kind, out, err, struck):
        found = re.match(r"(\w+) ms=(\d+) after=(\w+) peak_kib=(\d+)\n", out)
        if not found:
            self.word, self.why = "died", (out + err)[-2000:]
            return
        self.ms, self.peak_mib = int(found[2]), int(found[4]) / 1024
        text = out[found.end():]
        self.word = found[1] if found[1] != "error" else next(
            (word for word, tells in ENDS.items() if tells and re.search(tells, text)), "unclear")
        if found[3] != "right":
            self.word, self.why = self.word + ", then " + found[3], text
        elif not struck or not KINDS[kind][1](struck[0]):
            self.word, self.why = "not met", f"{struck}\n{err[-1000:]}"
        else:
            self.why = text or err[-500:]


def measured(program, sample, bench, plain, tls, pool, chosen, everything):
    """(fault, what it should be, {kind: Cell}) of each of the |chosen| rows."""
    going = {}
    for fault, ends in chosen:
        for kind, word in ends.items():
            if word != "–" and (everything or kind in DAILY or not fault.startswith(SIMULATED)):
                liar = tls if needs_tls(fault) else plain
                going[fault, kind] = pool.submit(Cell, program, sample, bench, liar, fault, kind)
    for fault, ends in chosen:
        yield fault, ends, {kind: going[fault, kind].result() for kind in ends if (fault, kind) in going}


def wrong(cells, ends):
    """What of a row is not as the table says, one line a cell."""
    lines = []
    for kind, cell in cells.items():
        if cell.word not in ends[kind].split(" or "):
            lines.append(f"{kind}: {cell.word}, not {ends[kind]}; {cell.why}")
        elif cell.peak_mib > cell.bound_mib:
            lines.append(f"{kind}: took {cell.peak_mib:.0f} MiB of memory, the options allow {cell.bound_mib:.0f}")
    return lines


def summary(all_cells):
    """|all_cells|: [(fault, {kind: Cell})]"""
    cells = {(fault, kind): cell for fault, row in all_cells for kind, cell in row.items()}
    words = [c.word for c in cells.values()]
    right, clear = words.count("right"), sum(w in ENDS and w != "right" for w in words)
    slowest = max(cells, key=lambda key: cells[key].ms)
    return (f"tried {len(words)}, right bytes {right}, clear errors {clear}, hangs {words.count('hang')}, "
            f"others {len(words) - right - clear - words.count('hang')}; slowest {cells[slowest].ms / 1000:.1f} s ({', '.join(slowest)}), "
            f"most memory {max(c.peak_mib for c in cells.values()):.0f} MiB")
