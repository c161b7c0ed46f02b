#!/usr/bin/env python3
"""The bench's pure parts on small canned input: figures, claims, tables, traces, offsets; and
perf/run --again, which makes a table of an old run. Nothing is measured here."""
import array
import importlib.machinery
import importlib.util
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "perf"), str(TOP / "tests" / "support")]

from bench import data, matrix, raw, report, traces, workloads  # noqa: E402
from harness import Tap  # noqa: E402

MB = 1_000_000


def sample(reader, number, seconds, workload="W1", **more):
    return {"rtt": 50.0, "rate": 0.0, "loss": 0.0, "server": "nginx", "workload": workload, "reader": reader,
            "round": number, "seconds": seconds, "bytes": 100 * MB, "cpu": 0.1, "rss_bytes": 20 * MB, "operations": 10,
            "reading": seconds, "counters": {"bytes_fetched": 100 * MB, "requests": 5}} | more


def canned():
    """Two rounds of W1: curl takes 1 s, then 2 s with one and with four connections; we take 1.25 and 2.5."""
    samples = [sample("xhdf5 C", 0, 9)]     # the check: not counted
    for number, slow in ((1, 1), (2, 2)):
        samples += [sample("curl x1 parallel", number, 1.1 * slow), sample("curl x4 parallel", number, 1.0 * slow),
                    sample("local C", number, 0.05), sample("xhdf5 C", number, 1.25 * slow),
                    sample("fsspec", number, 5 * slow, client="h5py")]
    samples.append({k: v for k, v in sample("rclone", 1, 0).items()
                    if k in ("rtt", "rate", "loss", "server", "workload",
                                                                            "reader", "round")} | {"error": "a\nlast"})
    return {"schema": 1, "when": "now", "took_s": 1, "command": [], "quick": True, "rounds": 2, "samples": samples,
            "versions": {"commit": "c", "kernel": "k", "cpus": 2, "load": [0, 0, 0], "nginx": "n", "xrootd": "x",
                         "curl": "curl 1 (y)", "h5py": "h", "hdf5": "d", "congestion": "bbr"},
            "links": [{"rtt": 50.0, "rate": 0.0, "loss": 0.0, "tcp": "tuned", "connect_ms": 50.1, "status": ["s"]}],
            "traces": [], "notes": ["a note"],
            "workloads": {"W1": {"what": "images", "span": "work", "bulk": True, "file": "f", "file_bytes": 100 * MB},
                          "W9": {"what": "the same", "span": "work", "bulk": True, "file": "f",
                                 "file_bytes": 100 * MB}}}


TRACE = """1000000000 1 1 origin request id=0xa from=new to=queued ask=1 speculative=0 slice=0-1
1010000000 1 2 origin send id=0xa url=u method=GET ranges=1 from=0 to=100
1020000000 1 2 origin reply id=0xa status=206
1030000000 1 2 origin request id=0xa from=running to=over ask=1 speculative=0 slice=0-1
1040000000 1 1 stats counters requests=1 url=u
"""


def canned_cells(ratios):
    """Cells in which curl has 100 MB/s with four connections and 50 with one, and we so much of that."""
    samples = []
    for ratio, cell in zip(ratios, (matrix.HARD[0], matrix.HARD[2], matrix.HARD[3])):
        more = {"cell": cell._asdict(), "server": cell.server, "rtt": cell.rtt, "rate": cell.rate, "loss": cell.loss}
        for number, slow in ((1, 1), (2, 2)):
            samples += [sample("curl x4 parallel", number, slow, **more), sample("curl x1 parallel", number, 2 * slow,
                **more),
                        sample("xhdf5 C", number, slow / ratio, **more, server_connections=4, server_requests=9) |
                        {"cpu": 0.2}]
        samples.append({"reader": "curl x16 parallel", "round": 1, "error": "not done after 9 s", **more,
                        "workload": "W1-100"})
        if ratio == 0.5:
            samples.append({"reader": "xhdf5 h5py", "round": 1, "error": "a\ngone", **more, "workload": "W1-100"})
        else:
            samples.append(sample("xhdf5 h5py", 1, 1 / 0.9, **more))
    return {"samples": samples}


def later(order):
    """A trace in which blocks of 100 are prefetched in |order| and asked for in theirs."""
    lines = []
    for when, i in enumerate(order):
        at = 2_000_000_000 + when * 1000
        lines += [f"{at} 1 2 origin request id=0x{i} from=queued to=bound ask=0 speculative=1 slice=0-1",
                  f"{at + 1} 1 2 origin send id=0x{i} url=u method=GET ranges=1 from={i * 100} to={i * 100 + 100}",
                  f"{at + 2} 1 2 origin request id=0x{i} from=running to=over ask=0 speculative=1 slice=0-1"]
    return lines + [f"{3_000_000_000 + i} 1 1 vfd read kind=raw pieces=1 first={i * 100}+100"
                    for i in range(len(order))]


def main():
    tap = Tap()
    result = canned()
    place = report.places_of(result)[0]
    with tap.claim("a ratio is taken within each round, against that round's best curl"):
        assert abs(place.of_raw("xhdf5 C", 100 * MB) - 0.8) < 1e-9
        assert place.best_curl() == "curl x4 parallel"
    with tap.claim("the raw limit of a file serves all workloads that read it"):
        more = result["samples"] + [sample("xhdf5 C", 2, 4, workload="W9")]
        assert report.places_of(result | {"samples": more})[1].of_raw("xhdf5 C", 100 * MB) == 0.5
    with tap.claim("round 0, which checks, is not counted"):
        assert place.seconds("xhdf5 C") == (1.25 + 2.5) / 2
    with tap.claim("claims hold or not by their bounds"):
        claims = {c[0]: c for c in report.claims(result)}
        assert claims["of the raw limit"][4] is False and claims["of the raw limit"][2] < 0.81
        assert claims["time by the best rival's (fsspec)"][4] is True
        for s in result["samples"]:
            if s["reader"] == "xhdf5 C" and s["round"]:
                s["seconds"] *= 0.79
        assert {c[0]: c[4] for c in report.claims(result)}["of the raw limit"] is True
    with tap.claim("a failure is shown in the table, with its last line"):
        assert any("rclone" in line and line.rstrip().endswith("last") for line in report.text(result).splitlines())
    with tap.claim("a run with no samples at all still makes a table"):
        assert report.text(result | {"samples": []})
    with tap.claim("--again makes text and markdown of an old run"), tempfile.TemporaryDirectory() as d:
        file = pathlib.Path(d) / "run.json"
        file.write_text(json.dumps(result))
        subprocess.run([sys.executable, TOP / "perf/run", "--again", file, "--no-plots"], check=True,
                       capture_output=True)
        assert "| xhdf5 C |" in (file.parent / "table.md").read_text() and "a note" in (file.parent / "table.txt").read_text()
    with tap.claim("bytes that are not the local file's, and bytes with nothing to compare with, are failures"):
        loader = importlib.machinery.SourceFileLoader("run", str(TOP / "perf" / "run"))
        run = importlib.util.module_from_spec(importlib.util.spec_from_loader("run", loader))
        loader.exec_module(run)
        campaign, workload = run.Campaign(None, None, None, None, None), type("W", (), {"name": "W1"})
        campaign.check(workload, "local C", {"sum": "a", "client": "C"}, 1)
        campaign.check(workload, "xhdf5 C", {"sum": "a", "client": "C"}, 1)
        for one in ({"sum": "b", "client": "C"}, {"sum": "a", "client": "h5py"}):
            try:
                campaign.check(workload, "xhdf5 " + one["client"], one, 1)
            except run.lab.Failed:
                continue
            raise AssertionError(f"{one} passed")
    with tap.claim("a trace gives transfers with their times"):
        (one,), reads, _ = traces.parse(TRACE)
        assert [round(v, 3) for v in one[:3]] == [0.01, 0.02, 0.03] and one[3:] == (0, 100, False) and reads == []
    with tap.claim("prefetches in the order of asking are told from others"):
        assert traces.facts("\n".join(later(range(20))))["in_order"] == 1
        assert traces.facts("\n".join(later(range(19, -1, -1))))["in_order"] == 0
        assert traces.facts(TRACE)["in_order"] is None
        node = "1 1 1 predict node off=4096000 len=3000\n1 1 1 origin request id=0x9 from=new to=queued speculative=1\n" \
               "1 1 1 origin send id=0x9 from=4096000 to=4100096\n9 1 1 origin request id=0x9 from=running to=over speculative=1\n"
        assert traces.facts(node + "\n".join(later(range(20))))["in_order"] == 1
    with tap.claim("random blocks are the same each time, do not overlap and lie inside"), tempfile.TemporaryDirectory() as d:
        lists = []
        for name in "ab":
            data.offsets(f"{d}/{name}", 500, 1000, 700_000, "random")
            lists.append(array.array("Q", pathlib.Path(d, name).read_bytes()).tolist())
        ordered = sorted(lists[0])
        assert lists[0] == lists[1] != ordered and len(ordered) == 500
        assert all(b - a >= 1000 for a, b in zip(ordered, ordered[1:])) and ordered[-1] + 1000 <= 700_000
    with tap.claim("curl's ranges cover a file once"):
        for size, n in ((100, 1), (101, 16), (1 << 32, 8)):
            ends = [tuple(map(int, r.split("-"))) for r in raw.ranges_of(size, n)]
            assert ends[0][0] == 0 and ends[-1][1] == size - 1 and all(a[1] + 1 == b[0] for a, b in zip(ends, ends[1:]))
    with tap.claim("a family's name chooses its workloads, an extra one only its own name"):
        sizes = type("Sizes", (), dict(quick=True, images=1, more_images=[5], chunked_images=1, small_reads=1, scalla=1,
                                       datasets=1, sparse_chunks=1, parallel_images=1, processes=(1, 2), ranks=(2,),
                                       sources=2, source_bytes=1 << 20, cube=(2, 2, 2), samples=64, draws=3,
                                       small_files=2))
        table = workloads.table(sizes)
        assert len({w.name for w in table}) == len(table)
        assert [w.name for w in workloads.chosen(table, ["W4"])] == ["W4"]
        assert "W2-btree2-gzip-slabs" not in {w.name for w in workloads.chosen(table, ["W2"])}
        assert [w.name for w in workloads.chosen(table, ["W2-btree2-gzip-slabs"])] == ["W2-btree2-gzip-slabs"]
        assert [w.name for w in workloads.chosen(table, ["P1"])] == ["P1-slabs", "P1-all", "P1-late"]
        assert [w.name for w in workloads.chosen(table, ["V1"])] == ["V1-one", "V1-after", "V1-beside"]
        assert [w.name for w in workloads.chosen(table, ["R1"])] == ["R1-1-one", "R1-1-hint", "R1-64-one", "R1-64-hint"]
        assert [w.name for w in workloads.chosen(table, ["W4-40M"])] == ["W4-40M"]
        assert not [w.name for w in workloads.chosen(table, []) if w.name.startswith(("P", "V", "R", "S", "K", "M",
            "O"))]
    with tap.claim("the matrix's cells are always the same, all possible, and have each possible pair of values"):
        cells = matrix.cells()
        assert cells == matrix.cells() and len(cells) == len(set(cells)) == matrix.CELLS and all(map(matrix.possible,
            cells))
        every = {g for c in itertools.starmap(matrix.Cell, itertools.product(*matrix.FACTORS.values()))
                 if matrix.possible(c)
                 for g in matrix.groups_of(c, 2)}
        assert every == {g for c in cells for g in matrix.groups_of(c, 2)}
        assert len(every) == 152 and cells[:5] == matrix.cells(5)
    with tap.claim("in no cell the best curl needs long for what is read there"):
        for c in matrix.cells() + list(matrix.HARD):
            assert matrix.images_of(c) * matrix.IMAGE_BYTES / matrix.expected_rate(c) <= 10, c
    with tap.claim("a cell's figures are medians of ratios within a round; only a reader can fail, no curl"):
        result = canned_cells([0.9, 0.5, 0.7])
        first, second, third = matrix.measured(result)
        assert abs(first.ratio("xhdf5 C") - 0.9) < 1e-9 and abs(first.cpu("xhdf5 C") - 2) < 1e-9
        assert first.row()[7:10] == ["75", "4",
                                     "67.5"] and first.row()[-1] == "" and second.row()[-1] == "xhdf5 h5py: gone"
        rows = {(r[0], r[1]): r[2:] for r in matrix.summary(result)}
        assert rows["xhdf5 C", "all"] == ["3", "0", "0.50", "0.50", "0.70"]
        assert rows["xhdf5 h5py", "all"] == ["3", "1", "0.90", "0.90", "0.90"]
        assert rows["xhdf5 C", "server xrootd"][0] == "1"
        assert [m.cell for m in matrix.worst(result, 2)] == [second.cell, third.cell]
    with tap.claim("the tenth percentile is the value that a tenth of the cells are below"):
        assert matrix.spread_of(range(30)) == (0, 3, 14.5)
        assert matrix.spread_of([float("nan"), 1])[0] == 1
    with tap.claim("cells and the other workloads of a run do not mix, and both are in its table"):
        both = canned() | {"windows": "stock", "congestion": None, "cap": 0}
        both["samples"] = both["samples"] + canned_cells([0.9, 0.5, 0.7])["samples"]
        assert [p.workload for p in report.places_of(both)] == ["W1"]
        assert "worst" in report.text(both) and "TCP windows stock" in report.text(both)
    with tap.claim("README's lines name seconds, rivals, what failed, and the hard links"):
        lines = report.readme(both | {"command": ["--readme"]})
        assert "| 5 |" not in lines        # no place at README's round trip but W1's
        for part in ("| images images, contiguous (100 MB) | 1.9 / ", "| failed |", "| 0.50 |"):
            assert part in lines, lines
    with tap.claim("openings are shown with what they asked for, and judged by requests and connections"):
        result = canned()
        result["workloads"]["O1"] = result["workloads"]["W1"]
        result["samples"].append(sample("xhdf5 C", 1, 0.2, "O1", server_requests=5, server_connections=3, handshakes=2,
                                        asked=["GET 0-65535 206"]))
        (_, _, rows), = report.openings(result)
        assert rows == [["nginx", "50", "is not known", "xhdf5 C", "5", "3", "2", "0.2", "GET 0-65535 206"]], rows
        said = {c[0]: c[4] for c in report.claims(result) if c[1].startswith("O1")}
        assert said == {"requests of an opening and a small read": False,
                        "connections of an opening and a small read": True}, said
    with tap.claim("several processes are set beside one"):
        result = canned()
        counted = {"counters": {"bytes_fetched": 110 * MB}, "server_requests": 20}
        for name in ("P1-slabs", "P2-all"):
            result["workloads"][name] = result["workloads"]["W1"]
            result["samples"] += [sample("xhdf5 C x1", 1, 1.0, name, each=[1.0], server_requests=10),
                                  sample("xhdf5 C x4", 1, 1.2, name, each=[0.5, 0.5, 0.5, 1.1], **counted)]
        said = {c[0]: (round(c[2], 2), c[4]) for c in report.claims(result) if "4 processes" in c[0] and "P1" in c[1]}
        assert said == {"bytes moved by those that one process moves, 4 processes": (1.1, False),
                        "time by that of one process, 4 processes": (1.2, True),
                        "the slowest by the median, 4 processes": (2.2, False)}, said
        said = {c[0]: (round(c[2], 2), c[4]) for c in report.claims(result) if "requests" in c[0] and "P" in c[1]}
        assert said == {"requests by those of one process, 4 processes": (2.0, False)}, said
    with tap.claim("ranks are set beside the larger of what unpacking and what moving takes"):
        result = canned()
        result["workloads"]["P3"] = result["workloads"]["W1"]
        result["samples"] += [sample("curl x1 parallel", 1, 1.0, "P3"), sample("local collective x2", 1, 0.5, "P3"),
                              sample("local collective x2 beside curl", 1, 2.0, "P3"),
                              sample("xhdf5 collective x2", 1, 2.5, "P3")]
        said = {c[0]: (round(c[2], 2), c[4]) for c in report.claims(result) if "collective" in c[0]}
        assert said == {"of the larger of raw transfer and local collective x2, collective": (0.4, False),
                        "of the larger of raw transfer and local collective x2 beside curl, collective": (0.8, False),
                        "of the raw limit, 2 ranks, collective": (0.4, False)}, said
    sys.exit(tap.done())


if __name__ == "__main__":
    main()
