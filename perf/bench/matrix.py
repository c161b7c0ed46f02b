"""The matrix of links: which of its cells are measured, how much is read in each, and what comes of it.

Pure: knows only cells, and a result as run.json holds it.
"""
import collections
import itertools
import math
import statistics

FACTORS = {"rtt": (1, 10, 50, 160), "rate": (0, 1000, 100), "windows": ("stock", "tuned"),
           "congestion": ("bbr", "reno", "cubic"),
           "loss": (0, 0.01, 0.1), "cap": (0, 25), "server": ("nginx", "xrootd")}
Cell = collections.namedtuple("Cell", FACTORS)
CELLS = 30
CONNECTIONS = (16, 4, 1)            # of curl, whose best is the raw limit
IMAGE_BYTES = 2048 * 2048 * 2
IMAGES = (100, 40, 12, 4)           # sizes of the file that is read
STOCK_BYTES = 2.75e6                # under way on a connection with stock windows: docs/simulator.md
READ_S = 6                          # one reader's time in a cell, about
CELL_S = 50                         # no further round after that
ROUNDS = 3
PATIENCE = 3                        # a curl that takes so many times the best one's time is not the best

# What was seen to be hard: README's table has these beside its own links.
HARD = (Cell(50, 0, "stock", "bbr", 0, 0, "nginx"), Cell(10, 0, "stock", "bbr", 0, 25, "nginx"),
        Cell(50, 1000, "stock", "reno", 0.01, 0, "xrootd"), Cell(160, 100, "stock", "reno", 0.1, 0, "nginx"))


def possible(cell):
    """Not a limit of each connection that is above the link's rate."""
    return not (cell.cap and cell.rate and cell.rate <= 8 * cell.cap)


def groups_of(cell, size):
    return {tuple(sorted(g)) for g in itertools.combinations(cell._asdict().items(), size)}


def cells(count=CELLS):
    """So many cells, always the same, in an order in which each brings the most that is new: pairs of values first,
    then triples. The first dozen or so have all pairs."""
    left = [c for c in itertools.starmap(Cell, itertools.product(*FACTORS.values())) if possible(c)]
    pairs = {c: groups_of(c, 2) for c in left}
    triples = {c: groups_of(c, 3) for c in left}
    had, found = set(), []
    while left and len(found) < count:
        best = max(left, key=lambda c: (len(pairs[c] - had), len(triples[c] - had)))    # of equals the first
        found.append(best)
        left.remove(best)
        had |= pairs[best] | triples[best]
    return found


def expected_rate(cell):
    """Bytes a second that the best curl may get there, roughly: it decides how much is read."""
    link = cell.rate * 125e3 or (1e8 if cell.rtt <= 1
                                 else 5e8)     # at 1 ms packets are small, and processors the bound
    one, rtt = math.inf, cell.rtt / 1e3
    if cell.windows == "stock":
        one = STOCK_BYTES / rtt
    if cell.congestion != "bbr" and cell.loss:
        one = min(one, 1448 * 1.22 / rtt / math.sqrt(cell.loss / 100))
    if cell.cap:
        one = min(one, cell.cap * 1e6)
    return min(link, max(CONNECTIONS) * one)


def images_of(cell):
    wanted = expected_rate(cell) * READ_S / IMAGE_BYTES
    return next((n for n in IMAGES if n <= wanted * 1.5), IMAGES[-1])


def described(cell):
    return (f"{cell.rtt:g} ms, " + (f"{cell.rate:g} Mbit/s" if cell.rate else "unlimited") +
            f", {cell.windows}, {cell.congestion}" +
            (f", loss {cell.loss:g} %" if cell.loss else "") + (f", {cell.cap:g} MB/s a connection" if cell.cap
                                                                else "") +
            f", {cell.server}")


# --- figures ----------------------------------------------------------------------------------------

class Measured:
    """One cell's samples: medians over its rounds of ratios within a round."""

    def __init__(self, cell, samples):
        self.cell = cell
        rounds = collections.defaultdict(dict)
        self.errors = {s["reader"]: s["error"] for s in samples if "error" in s}
        for s in samples:
            if "error" not in s:
                rounds[s["round"]][s["reader"]] = s
        self.rounds = [r for r in rounds.values() if any(is_curl(k) for k in r)]

    def curl(self, samples):
        """The fastest curl of a round."""
        return max((s for k, s in samples.items() if is_curl(k)), key=rate)

    def over_rounds(self, reader, figure):
        values = [figure(r[reader], self.curl(r)) for r in self.rounds if reader in r]
        return statistics.median(values) if values else math.nan

    def ratio(self, reader):
        return self.over_rounds(reader, lambda s, c: rate(s) / rate(c))

    def cpu(self, reader):
        return self.over_rounds(reader, lambda s, c: (s["cpu"] / s["bytes"]) / (c["cpu"] / c["bytes"]))

    def row(self):
        c = self.cell
        best = self.over_rounds("xhdf5 C", lambda _, curl: rate(curl) / 1e6)
        by = collections.Counter(self.curl(r)["reader"].split()[1].lstrip("x") for r in self.rounds).most_common(1)
        figures = [best, by[0][0] if by else "", self.over_rounds("xhdf5 C", lambda s, _: rate(s) / 1e6),
                   self.ratio("xhdf5 C"),
                   self.ratio("xhdf5 h5py"), self.over_rounds("xhdf5 C", lambda s, _: s["server_connections"]),
                   self.over_rounds("xhdf5 C", lambda s, _: s["server_requests"]), self.cpu("xhdf5 C"),
                   len(self.rounds)]
        return [f"{c.rtt:g}", f"{c.rate:g}" if c.rate else "-", c.windows, c.congestion, f"{c.loss:g}", f"{c.cap:g}"
                if c.cap else "-",
                c.server, *(f if isinstance(f, str) else shown(f) for f in figures), ", ".join(
                    f"{r}: {e.strip().splitlines()[-1][:50]}" for r, e in self.errors.items() if not is_curl(r))]


def is_curl(reader):
    return reader.startswith("curl ")


def rate(sample):
    return sample["bytes"] / sample["seconds"]


def shown(v):
    return "" if v != v else f"{v:.0f}" if abs(v) >= 100 or v == int(v) else f"{v:.2f}" if abs(v) < 10 else f"{v:.1f}"


HEAD = ["ms", "Mbit/s", "windows", "control", "loss %", "cap MB/s", "server", "curl MB/s", "by", "C MB/s", "C", "h5py",
        "connections",
        "requests", "CPU", "rounds", "failed"]


def measured(result):
    found = collections.OrderedDict()
    for s in result["samples"]:
        if s.get("cell"):
            found.setdefault(Cell(*(s["cell"][k] for k in FACTORS)), []).append(s)
    return [Measured(c, samples) for c, samples in found.items()]


def spread_of(ratios):
    """(worst, tenth percentile, median) of what is no NaN."""
    ratios = sorted(r for r in ratios if r == r)
    return (ratios[0], ratios[len(ratios) // 10], statistics.median(ratios)) if ratios else (math.nan,) * 3


SUMMARY_HEAD = ["reader", "of", "cells", "failed", "worst", "tenth percentile", "median"]


def summary(result):
    """Rows: all cells for each reader, then xhdf5 C for each value of each factor."""
    all_of, rows = measured(result), []

    def row(reader, what, some):
        ratios = [m.ratio(reader) for m in some]
        failed = sum(reader in m.errors for m in some)
        rows.append([reader, what, str(len(some)), str(failed), *map(shown, spread_of(ratios))])
    for reader in ("xhdf5 C", "xhdf5 h5py"):
        row(reader, "all", all_of)
    for factor, values in FACTORS.items():
        for value in values:
            some = [m for m in all_of if getattr(m.cell, factor) == value]
            if some and len(some) < len(all_of):
                row("xhdf5 C", f"{factor} {value}", some)
    return rows


def worst(result, count=3):
    """The |count| cells with the least ratio of xhdf5 C, worst first."""
    return sorted((m for m in measured(result) if m.rounds and m.ratio("xhdf5 C") == m.ratio("xhdf5 C")),
                  key=lambda m: m.ratio("xhdf5 C"))[:count]


def sections(result):
    """[(title, head, rows)] for the tables of a run that measured cells."""
    if not (all_of := measured(result)):
        return []
    return [("Cells of the matrix: W1's throughput by that of the best curl of the same round (C, h5py), connections "
             "and requests of the C client, its processor time a byte by that curl's", HEAD, [m.row() for m in all_of]),
            ("Of all cells, and by each factor", SUMMARY_HEAD, summary(result)),
            ("The worst", ["C", "cell"], [[shown(m.ratio("xhdf5 C")), described(m.cell)] for m in worst(result)])]
