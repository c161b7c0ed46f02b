"""From samples to figures: medians within one run, ratios within one round, and what was to be shown.

Pure: knows only the result of a run as run.json holds it.
"""
import collections
import statistics

from . import before, matrix

RSS_BOUND = 300e6
NO = float("nan")


def median(values):
    values = [v for v in values if v is not None]
    return statistics.median(values) if values else NO


BESIDE = "local C beside curl"
ONE_BY_ONE = "one curl, read by read"


def is_raw(reader):
    return reader.startswith("curl ")


def is_ours(reader):
    return reader.startswith("xhdf5")


def is_rival(reader):
    return not (is_raw(reader) or is_ours(reader) or reader.startswith("local") or reader == ONE_BY_ONE)


class Place:
    """All samples of one workload over one link from one server."""

    def __init__(self, key, samples):
        self.rtt, self.rate, self.loss, self.server, self.workload = key
        self.readers = collections.defaultdict(dict)        # reader -> round -> sample
        self.errors = {}
        for s in samples:
            if "error" in s:
                self.errors[s["reader"]] = s["error"]
            elif s["round"] > 0:
                self.readers[s["reader"]][s["round"]] = s
        self.raw_rates = {}                                 # round -> the best curl's bytes per second
        for reader, rounds in self.readers.items():
            if is_raw(reader):
                for n, s in rounds.items():
                    self.raw_rates[n] = max(self.raw_rates.get(n, 0), s["bytes"] / s["seconds"])

    def seconds(self, reader):
        return median(s["seconds"] for s in self.readers.get(reader, {}).values())

    def rate_of(self, reader):
        return median(s["bytes"] / s["seconds"] for s in self.readers.get(reader, {}).values())

    def raw_rate(self):
        return median(self.raw_rates.values())

    def best_curl(self):
        """The curl whose median is best."""
        raws = [r for r in self.readers if is_raw(r)]
        return max(raws, key=self.rate_of) if raws else None

    def of_raw(self, reader, size):
        """Median over rounds of: this reader's rate, in bytes of the file, by the round's best curl."""
        return median(size / s["seconds"] / self.raw_rates[n] for n, s in self.readers.get(reader, {}).items()
                      if n in self.raw_rates)

    def of_best_curl(self, reader, size):
        """The same against the curl whose median is best: without the luck of the best of many."""
        best = self.readers.get(self.best_curl(), {})
        return median(size / s["seconds"] / (best[n]["bytes"] / best[n]["seconds"])
                      for n, s in self.readers.get(reader, {}).items() if n in best)

    def by_round(self, reader, other):
        """Median over rounds of reader's seconds by other's."""
        a, b = self.readers.get(reader, {}), self.readers.get(other, {})
        return median(a[n]["seconds"] / b[n]["seconds"] for n in a if n in b)

    def facts(self, reader):
        of = list(self.readers[reader].values())
        got = [s.get("counters", {}).get("bytes_fetched") or s.get("server_bytes") for s in of]
        moved = median([g for g in got if g] or [s["bytes"] for s in of])
        return {"seconds": self.seconds(reader), "least": min(s["seconds"] for s in of),
                "most": max(s["seconds"] for s in of), "rate": self.rate_of(reader), "moved": moved,
                "requests": median([s["server_requests"] for s in of if "server_requests" in s]),
                "connections": median([s.get("server_connections", s.get("connections")) for s in of]),
                "cpu": median(s["cpu"] for s in of), "rss": median(s["rss_bytes"] for s in of), "n": len(of)}


def places_of(result):
    """All of a run, in its order."""
    groups = collections.defaultdict(list)
    for s in result["samples"]:
        if "cell" in s:         # of the matrix: its own tables
            continue
        groups[s["rtt"], s["rate"], s["loss"], s["server"], s["workload"]].append(s)
    order = {name: i for i, name in enumerate(result["workloads"])}
    groups = sorted(groups.items(), key=lambda kv: (kv[0][1], kv[0][2], order.get(base(kv[0][4]), 99), kv[0][4],
                                                    kv[0][3], kv[0][0]))
    places = [Place(key, samples) for key, samples in groups]
    lend_raw(result, places)
    return places


def lend_raw(result, places):
    """Curl's rates hold for every workload that reads the same file in the same round."""
    def file_of(p):
        return p.rtt, p.rate, p.loss, p.server, result["workloads"][base(p.workload)]["file"]
    measured = {file_of(p): p.raw_rates for p in places if p.raw_rates}
    for p in places:
        p.raw_rates = p.raw_rates or measured.get(file_of(p), {})


def base(workload):
    return workload.removesuffix("-warm")


def size_of(result, place, reader):
    """The bytes by which a reader's rate is set beside the raw limit: those of the file, as curl's."""
    return result["workloads"][base(place.workload)]["file_bytes"]


# --- what was to be shown ---------------------------------------------------------------------------

def claims(result):
    """[(claim, place, figure, bound, holds)]: each of what the project set out to show, where the run
    has what it needs."""
    found, places, largest = [], places_of(result), (0, "", "")
    at = {(p.rtt, p.rate, p.loss, p.server, p.workload): p for p in places}

    def say(text, p, figure, bound, most=True):
        if figure == figure:
            found.append((text, f"{p.workload}, {p.server}, {p.rtt:g} ms" + (f", {p.rate:g} Mbit/s" if p.rate else "") +
                          (f", loss {p.loss:g} %" if p.loss else ""), figure,
                          ("<= " if most else ">= ") + f"{bound:.3g}",
                          figure <= bound if most else figure >= bound))

    for p in places:
        w, rtt = p.workload, p.rtt / 1e3
        beside = lambda name: at.get((p.rtt, p.rate, p.loss, p.server, name))  # noqa: E731
        size = size_of(result, p, None)
        ours = "xhdf5 C"
        for reader in p.readers:
            one, n = p.readers.get("xhdf5 C x1"), reader.removeprefix("xhdf5 C x")
            if not one or not n.isdigit() or n == "1":
                continue
            of = p.readers[reader].values()
            moved = median(s["counters"].get("bytes_fetched", 0) for s in of)
            say(f"bytes moved by those that one process moves, {n} processes", p,
                moved / median(s["counters"].get("bytes_fetched", 0) for s in one.values()), 1.05)
            if w == "P2-all":   # of a slab each process has to ask for its own part
                say(f"requests by those of one process, {n} processes", p, median(s["server_requests"] for s in of) /
                    median(s["server_requests"] for s in one.values()), 1)
            if w != "P1-late":  # its second process begins later
                say(f"time by that of one process, {n} processes", p, p.by_round(reader, "xhdf5 C x1"), 1.3)
            say(f"the slowest by the median, {n} processes", p, median(max(s["each"]) / median(s["each"]) for s in of),
                2)
        for reader in p.readers:
            new, _, commit = reader.partition(" of ")
            if commit and new in p.readers:
                say(f"time by that of {commit}, {new.removeprefix('xhdf5 ')}", p, p.by_round(new, reader), before.BOUND)
        for reader in p.readers if w == "P3" else ():
            how, _, n = reader.removeprefix("xhdf5 ").partition(" x")
            if is_ours(reader) and n.isdigit() and p.raw_rates:
                for local in (f"local collective x{n}", f"local collective x{n} beside curl"):
                    need = max(p.seconds(local), size / p.raw_rate())
                    say(f"of the larger of raw transfer and {local}, {how}", p, need / p.seconds(reader), 0.85,
                        most=False)
                say(f"of the raw limit, {n} ranks, {how}", p, p.of_raw(reader, size), 0.85, most=False)
        if ours not in p.readers:
            continue
        cold, counters = p.seconds(ours), [s["counters"] for s in p.readers[ours].values()]
        fetched = median(c.get("bytes_fetched", 0) for c in counters)
        requests = median(c.get("requests", 0) for c in counters)
        if w.split("-")[0] == "W1":
            bound = 0.95 if p.rtt <= 50 else 0.9
            say("of the raw limit", p, p.of_raw(ours, size), bound, most=False)
            say("of the raw limit, h5py", p, p.of_raw("xhdf5 h5py", size), 0.9, most=False)
            near = at.get((1, p.rate, p.loss, p.server, w))
            if p.rtt == 50 and near and p.raw_rate() >= 0.95 * near.raw_rate():
                say("of the rate at 1 ms, where the raw limit is flat", p, p.rate_of(ours) / near.rate_of(ours), 0.9,
                    most=False)
        if w.startswith("W2-") and "-none-" in w:
            say("of the raw limit, unfiltered", p, p.of_raw(ours, size), 0.9, most=False)
        if w.startswith("W2-") and "-gzip-" in w:
            if p.raw_rates:
                need = max(p.seconds("local C"), size / p.raw_rate())
                say("less ten round trips, by the larger of local read and raw transfer", p, (cold - 10 * rtt) / need,
                    1.15)
                if BESIDE in p.readers:
                    need = max(p.seconds(BESIDE), size / p.raw_rate())
                    say("the same, the local read beside a transfer of the file", p, (cold - 10 * rtt) / need, 1.15)
        if w == "W3-one":
            n = median(s["operations"] for s in p.readers[ours].values())
            asked = median(s["bytes"] for s in p.readers[ours].values())
            reading = median(s["reading"] for s in p.readers[ours].values())
            say("round trips a read", p, reading / n / rtt, 1.1)
            if ONE_BY_ONE in p.readers:
                alone = median(s["reading"] for s in p.readers[ONE_BY_ONE].values())
                say("time a read by that of curl on one connection", p, reading / alone, 1.1)
            say("bytes fetched by bytes asked", p, fetched / asked, 1.5)
        if w in ("W3-select", "W3-multi", "W3-hint") and "xrdcl" in p.readers:
            say("time by XRootD's own vector read", p, p.by_round(ours, "xrdcl"), 1)
        if w.startswith("W3-scalla-reads-") and not w.endswith("-one") and beside("W3-scalla-reads-one"):
            one, n = beside("W3-scalla-reads-one"), median(s["bytes"] for s in p.readers[ours].values()) / 10240
            alone = median(s["reading"] / s["operations"] for s in one.readers.get(ours, {}).values())
            say("times faster than one after another", p, alone * n / cold, 150 if p.rtt >= 160 else 1, most=False)
        if w in ("W4", "W4-warm"):
            for client in ("C", "h5py"):
                us, local = "xhdf5 " + client, (beside("W4") or p).seconds("local " + client)
                if us not in p.readers:
                    continue
                if w == "W4":
                    moved = median(s["counters"].get("bytes_fetched", 0) for s in p.readers[us].values())
                    left = p.seconds(us) - 1.3 * local - (moved / p.raw_rate() if p.raw_rates else 0)
                    say(f"round trips beyond 1.3 local time and transfer, {client}", p, left / rtt, 12)
                else:
                    say(f"round trips beyond 1.3 local time, {client}", p, (p.seconds(us) - 1.3 * local) / rtt, 4)
            if w == "W4-warm":
                say("requests", p, requests, 2)
        if w == "W4b":
            say("of the file's bytes fetched", p, fetched / size, 0.5)
            if beside("W4") and ours in beside("W4").readers:
                say("time by W4's", p, cold / beside("W4").seconds(ours), 3)
        if w == "P2" and "xhdf5 C off" in p.readers:
            say("times faster than without shadow and prediction", p, p.by_round("xhdf5 C off", ours), 10, most=False)
        if w == "P2-warm" and beside("P2") and "xhdf5 C off" in beside("P2").readers:
            say("times faster than without shadow and prediction", p, beside("P2").seconds("xhdf5 C off") / cold, 50,
                most=False)
        if w in ("W4i", "W4bi"):
            left = cold - 1.3 * p.seconds("local C") - (fetched / p.raw_rate() if p.raw_rates else 0)
            say("round trips beyond 1.3 local time and transfer, with an image", p, left / rtt, 6)
        if w == "P2i" and "xhdf5 C off" in p.readers:
            say("times faster than without shadow and prediction, with an image", p, p.by_round("xhdf5 C off", ours),
                20, most=False)
        if w == "C1":
            ratio = size / result["workloads"][w]["body_bytes"]
            if p.rate:
                say(f"of the raw limit times the body's ratio ({ratio:.2f})", p, p.of_raw(ours, size) / ratio, 0.95,
                    most=False)
            elif "xhdf5 C plain" in p.readers:
                say("time by that without looking for a body", p, p.by_round(ours, "xhdf5 C plain"), 1.03)
        if w == "L1i":
            say("round trips beyond the local read, with an image", p, (cold - p.seconds("local C")) / rtt, 8)
        if w == "S1":
            asked = median(s["bytes"] for s in p.readers[ours].values())
            say("MB fetched beyond what was asked", p, (fetched - asked) / 1e6, 4)
        if w.startswith("R1-") and w.endswith("-hint") and beside(w.replace("hint", "one")):
            say("time by that without a hint", p, cold / beside(w.replace("hint", "one")).seconds(ours), 1)
        if (w == "S1" or w.startswith("R1-")) and ONE_BY_ONE in p.readers:
            say("time by that of one curl that asks for each read", p, p.by_round(ours, ONE_BY_ONE), 1.1)
        if w == "M1" and "xhdf5 C off" in p.readers:
            say("time by that without reading ahead", p, p.by_round(ours, "xhdf5 C off"), 1)
        if w in ("O1", "O1-known"):
            most = (4, 3) if w == "O1" else (2, 2)
            for what, bound in zip(("requests", "connections"), most):
                say(f"{what} of an opening and a small read", p, median(s[f"server_{what}"]
                                                                        for s in p.readers[ours].values()), bound)
        if w in ("W5", "W5-warm"):
            local = (beside("W5") or p).seconds("local C")
            say("round trips beyond the local start", p, (cold - local) / rtt, 5 if w == "W5" else 4)
        best = p.best_curl()
        if best and w.startswith("W1"):
            cpu = lambda r: median(s["cpu"] / s["bytes"] for s in p.readers[r].values())  # noqa: E731
            say("CPU a byte by curl's", p, cpu(ours) / cpu(best), 1.25)
        for reader in filter(is_ours, p.readers):
            largest = max((max(s["rss_bytes"] for s in p.readers[reader].values()), p.workload, reader), largest)
        rivals = [r for r in p.readers if is_rival(r) and not r.startswith("download")] + \
                 [r for r in p.readers if r.startswith("download")]
        if rivals:
            first = min(rivals, key=p.seconds)
            us = "xhdf5 h5py" if p.readers[first][min(p.readers[first])].get("client") == "h5py" and \
                "xhdf5 h5py" in p.readers else ours
            say(f"time by the best rival's ({first})", p, p.by_round(us, first), 1)
    for t in result["traces"]:
        if "-gzip-" in t["workload"] and t["in_order"] is not None:
            found.append(("of any two prefetches, sent in the order of asking",
                          f"{t['workload']}, {t['server']}, {t['rtt']:g} ms",
                          t["in_order"], ">= 0.95", t["in_order"] >= 0.95))
    if largest[0]:
        found.append(("resident memory, MB, the most of all", f"{largest[1]}, {largest[2]}", largest[0] / 1e6,
                      f"<= {RSS_BOUND / 1e6:g}", largest[0] <= RSS_BOUND))
    return found


# --- tables -----------------------------------------------------------------------------------------

HEAD = ["rtt ms", "server", "reader", "s", "spread", "MB/s", "of raw", "of best curl", "requests", "connections",
        "MB moved",
        "CPU s", "RSS MB"]


def number(v, digits=3):
    return "" if v != v else f"{v:.{digits}g}" if abs(v) < 100 else f"{v:.0f}"


def tables(result):
    """[(title, rows)], a table a workload, rate and loss."""
    groups = collections.OrderedDict()
    for p in places_of(result):
        w = result["workloads"][base(p.workload)]
        title = f"{p.workload}: {w['what']}{', warm' if p.workload != base(p.workload) else ''}"
        title += f"; {p.rate:g} Mbit/s" if p.rate else "; rate unlimited"
        title += f"; loss {p.loss:g} %" if p.loss else ""
        groups.setdefault(title, []).append(p)
    return [(title, [row for p in places for row in rows_of(result, p)]) for title, places in groups.items()]


def rows_of(result, p):
    w, rows, best = result["workloads"][base(p.workload)], [], p.best_curl()
    for reader in sorted(p.readers, key=lambda r: (not is_ours(r), is_rival(r), is_raw(r), r)):
        if is_raw(reader) and reader != best:
            continue
        f, size = p.facts(reader), size_of(result, p, reader)
        rows.append([f"{p.rtt:g}", p.server, ("raw: " if reader == best else "") + reader, number(f["seconds"]),
                     f"{number(f['least'])}-{number(f['most'])}",
                     number(f["rate"] / 1e6) if w["bulk"] or is_raw(reader) else "",
                     number(p.of_raw(reader, size)) if w["bulk"] else "",
                     number(p.of_best_curl(reader, size)) if w["bulk"] else "",
                     number(f["requests"]), number(f["connections"]), number(f["moved"] / 1e6), number(f["cpu"]),
                     number(f["rss"] / 1e6)])
    for reader, why in p.errors.items():
        rows.append([f"{p.rtt:g}", p.server, reader, "-", (why.strip().splitlines() or ['?'])[-1][:60],
                     *[""] * (len(HEAD) - 5)])
    return rows


OPENINGS_HEAD = ["server", "rtt ms", "at a server that", "reader", "requests", "connections", "handshakes", "s",
                 "asked for"]


def openings(result):
    """[(title, head, rows)] of the workloads whose server's log was kept: what an opening and a small read cost it."""
    rows = []
    for p in places_of(result):
        for reader, rounds in p.readers.items():
            logged = [s for s in rounds.values() if "asked" in s]
            if logged:
                rows.append([p.server, f"{p.rtt:g}", "is known" if p.workload.endswith("known") else "is not known",
                             reader,
                             number(median(s["server_requests"] for s in logged)),
                             number(median(s["server_connections"] for s in logged)),
                             number(median(s["handshakes"] for s in logged)), number(p.seconds(reader)),
                             "; ".join(logged[0]["asked"][:20])])
    return [("Opening and reading 12 KB: requests and TLS handshakes by the server's log, connections by its kernel",
             OPENINGS_HEAD, rows)] if rows else []


def preamble(result):
    v, link = result["versions"], result["links"]
    lines = [f"xhdf5 {v['commit']}, {result['when']}, {result['rounds']} rounds, {result['took_s']} s",
             f"{v['cpus']} cores, load {v['load'][0]:.1f} at the end, Linux {v['kernel']}, TCP {v['congestion']}; "
             f"{v['nginx']}; XRootD {v['xrootd']}; {v['curl'].split(' (')[0]}"]
    if "windows" in result:     # results from before 23 November 2026 name the windows with each link alone
        control = result["congestion"] or v["congestion"]
        lines.append(f"TCP windows {result['windows']}, congestion control of the server {control}" +
                     (f", at most {result['cap']:g} MB/s a connection" if result["cap"] else "") +
                     "; of the matrix's cells as each says" * any(s.get("cell") for s in result["samples"]))
    for one in link:
        lines.append(f"link {one['rtt']:g} ms, {one['rate']:g} Mbit/s, loss {one['loss']:g} %: TCP windows {one['tcp']}, a "
                     f"connect took {one['connect_ms']:.2f} ms; {' | '.join(one['status'])}")
    return lines


def claim_rows(result):
    return [[text, where, number(figure), bound, "yes" if holds else "NO"]
            for text, where, figure, bound, holds in claims(result)]


CLAIM_HEAD = ["claim", "where", "figure", "bound", "holds"]


def aligned(head, rows):
    widths = [max(len(str(r[i])) for r in [head, *rows]) for i in range(len(head))]
    return "\n".join("  ".join(str(c).ljust(n) for c, n in zip(r, widths)).rstrip() for r in [head, *rows])


def piped(head, rows):
    return "\n".join("| " + " | ".join(str(c).replace("|", "/") for c in r) + " |"
                     for r in [head, ["---"] * len(head), *rows])


def text(result):
    parts = ["\n".join(preamble(result))]
    parts += [f"{title}\n{aligned(HEAD, rows)}" for title, rows in tables(result)]
    parts += [f"{title}\n{aligned(head, rows)}" for title, head, rows in [*openings(result), *matrix.sections(result)]]
    if rows := claim_rows(result):
        parts.append("What was to be shown\n" + aligned(CLAIM_HEAD, rows))
    if result["notes"]:
        parts.append("Notes\n" + "\n".join(f"  {n}" for n in result["notes"]))
    return "\n\n".join(parts) + "\n"


def markdown(result):
    parts = ["\n".join(f"- {line}" for line in preamble(result))]
    parts += [f"### {title}\n\n{piped(HEAD, rows)}" for title, rows in tables(result)]
    parts += [f"### {title}\n\n{piped(head, rows)}" for title, head, rows in [*openings(result),
                                                                              *matrix.sections(result)]]
    if rows := claim_rows(result):
        parts.append("### What was to be shown\n\n" + piped(CLAIM_HEAD, rows))
    if result["notes"]:
        parts.append("### Notes\n\n" + "\n".join(f"- {n}" for n in result["notes"]))
    return "\n\n".join(parts) + "\n"


# --- README's table ---------------------------------------------------------------------------------

README_ROWS = (("W1", "{images} images, contiguous ({file} MB)"), ("W2-btree1-gzip-images",
                                                                   "{images} images, gzip ({file} MB)"),
               ("W4", "walk of 5,000 datasets, cold"), ("W5", "process start to the first 10 KB"))
README_READERS = (("fsspec", "fsspec, as xarray has it"), ("remfile", "remfile"), ("ros3", "HDF5's ROS3"),
                  ("rclone", "rclone mount"),
                  ("netcdf", "netCDF-C"), ("download", "download, then open"))


def readme(result):
    """The lines that README shows: its table, made of a run with --readme, and the hard links beside it."""
    places = {(p.workload, p.rtt): p for p in places_of(result)}
    rtt = next(iter(dict.fromkeys(s["rtt"] for s in result["samples"] if s["workload"] == "W4")), 50)
    rows = []
    for name, what in README_ROWS:
        p = places.get((name, rtt))
        if not p:
            continue
        w = result["workloads"][name]
        cell = lambda r: number(p.seconds(r), 2) if r in p.readers else "failed" if r in p.errors else ""  # noqa: E731
        curl = p.best_curl()
        rows.append([what.format(images=w["what"].split()[0], file=number(w["file_bytes"] / 1e6)),
                     f"{cell('xhdf5 C')} / {cell('xhdf5 h5py')}",
                     number(p.seconds(curl), 2) if curl else "", *(cell(r) for r, _ in README_READERS)])
    head = [f"{rtt:g} ms, nginx, stock windows: seconds", "xhdf5 C / h5py", "the file by the best curl",
            *(title for _, title in README_READERS)]
    command = " ".join(result["command"])
    parts = [f"{result['when'][:10]}, commit {result['versions']['commit']}: `containers/box bench {command}`",
             piped(head, rows)]
    if hard := matrix.measured(result):
        parts.append(piped(["hard links, W1: throughput by the best curl's", "C", "h5py"],
                           [[matrix.described(m.cell), matrix.shown(m.ratio("xhdf5 C")),
                             matrix.shown(m.ratio("xhdf5 h5py"))] for m in hard]))
    return "\n\n".join(parts) + "\n"
