#!/usr/bin/env python3
"""Draws a run: plots.py DIRECTORY reads run.json and trace-*.log there, writes *.png and *.svg.

  w1.*          throughput over round trip, as in the XHDF5 paper, with its points beside
  p1-*.*        what several processes get at once, and what that costs, over their number
  p3.*          the ranks of an MPI program, of the raw limit
  p2.*          metadata at random: gain by shadow and prediction, beside what Mig-drive's authors publish
  time-*.*      time of each workload, ours beside local, raw limit and rivals
  line-*.*      each transfer of a traced run: when, and where in the file
Of a stress test (load.json):
  load.*        what all get together, over the round trip, beside curl; processors
  load-*.*      a measurement over its time: throughput, processors, memory
"""
import json
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from bench import report, traces

# MB/s over milliseconds: XHDF5 (HEPS), 500 images of 8 MB, 10 Gbit/s. Read off their text, another
# machine and network: they show a shape, not a race.
PAPER_RTT = (1, 5, 10, 20, 30, 50)
PAPER = {"XHDF5 paper, 500 images": (340.7, 323.2, 328.4, 319.1, 265.9, 220.2),
         "XHDF5 paper, 100 images": (204.2, 240.7, 219.5, 211.7, 182.9, 144.8),
         "its NFS, 500 images": (462.4, 252.9, 172.5, 112.4, 80.3, 52.4)}
# Processes, MB/s: 16 at once, at 1 and (about) at 50 ms.
PAPER_SEVERAL = ((16, 16), (680, 600))
MIG_DRIVE = ((3.5, "Mig-drive's, 1,250 of 5,000 blocks at random, by sec2's"),
             (2.4, "Mig-drive's, TeraVAP, 16 to 256 processes"))
COLOURS = {"xhdf5 C": "#0060a8", "xhdf5 h5py": "#4fa3dc", "raw limit": "#222222", "local C": "#999999",
           "local h5py": "#bbbbbb"}


def save(figure, out, name):
    figure.tight_layout()
    for kind in ("png", "svg"):
        figure.savefig(out / f"{name}.{kind}", dpi=130)
    plt.close(figure)
    print(f"plot {out / name}.png, .svg")


def settled(places):
    """Of the rates and losses measured, each once, in order."""
    return sorted({(p.rate, p.loss) for p in places})


def described(rate, loss):
    return (f"{rate:g} Mbit/s" if rate else "rate unlimited") + (f", loss {loss:g} %" if loss else "")


def throughput(result, out, workload, name):
    places = [p for p in report.places_of(result) if p.workload == workload]
    for rate, loss in settled(places):
        servers = sorted({p.server for p in places})
        figure, axes = plt.subplots(1, len(servers), figsize=(2 + 4.5 * len(servers), 3.3), squeeze=False, sharey=True)
        for ax, server in zip(axes[0], servers):
            here = sorted((p for p in places if (p.rate, p.loss, p.server) == (rate, loss, server)),
                          key=lambda p: p.rtt)
            ax.plot([p.rtt for p in here], [p.raw_rate() / 1e6 for p in here], "k--", label="raw limit (best curl)")
            for reader in sorted({r for p in here for r in p.readers if not report.is_raw(r)
                                  and not r.startswith("local")}):
                have = [p for p in here if reader in p.readers]
                rates = [p.rate_of(reader) / 1e6 for p in have]
                spread = [[abs(s["bytes"] / s["seconds"] / 1e6 - m) for s in p.readers[reader].values()]
                          for p, m in zip(have, rates)]
                ours = report.is_ours(reader)
                ax.errorbar([p.rtt for p in have], rates, yerr=[max(s) for s in spread], label=reader, capsize=2,
                            color=COLOURS.get(reader), marker="o" if ours else "x", lw=2 if ours else 1,
                            ls="-" if ours else ":")
            if workload == "W1" and not rate:
                for (label, points), colour in zip(PAPER.items(), ("#c04000", "#e08040", "#a08060")):
                    ax.plot(PAPER_RTT, points, marker="s", ms=4, ls="none", mfc="none", color=colour, label=label)
            ax.set(title=f"{server}, {described(rate, loss)}", xlabel="round trip, ms")
            ax.grid(alpha=0.3)
        axes[0][0].set_ylim(bottom=0)   # once all is drawn: it ends the axes' own scaling
        axes[0][0].set_ylabel("MB/s")
        named = sorted(zip(*axes[0][-1].get_legend_handles_labels()), key=lambda pair: (
            pair[1] in PAPER, not report.is_ours(pair[1]) and not pair[1].startswith("raw")))
        axes[0][-1].legend(*zip(*named), fontsize=7, loc="upper left", bbox_to_anchor=(1.02, 1))
        windows = {"stock": "; windows of an untuned Linux", "tuned": "; tuned windows"}.get(result.get("windows"), "")
        figure.suptitle(f"{workload}: {result['workloads'][workload]['what']}{windows}", fontsize=10)
        save(figure, out, name + (f"-{rate:g}mbit" if rate else "") + (f"-loss{loss:g}" if loss else ""))


def several(result, out, workload):
    """A row each server and round trip: bytes a second of all processes together; by one process: time, requests,
    bytes moved and CPU."""
    places = [p for p in report.places_of(result) if p.workload == workload]
    figure, axes = plt.subplots(len(places), 2, figsize=(10.4, 3.6 * len(places)), squeeze=False)
    for (speed, cost), p in zip(axes, places):
        counts = sorted(int(r.rpartition(" x")[2]) for r in p.readers if r.startswith("xhdf5 C x"))
        speed.plot(counts, [p.rate_of(f"xhdf5 C x{n}") / 1e6 for n in counts], marker="o", color=COLOURS["xhdf5 C"],
                   label="xhdf5 C")
        if p.raw_rates:
            speed.axhline(p.raw_rate() / 1e6, color="k", ls="--", label="raw limit (best curl)")
        if workload == "P1-all":
            speed.plot(*PAPER_SEVERAL, marker="s", ls="none", mfc="none", color="#c04000",
                       label="XHDF5 paper, 16 processes")
        speed.set(title=f"{p.server}, {p.rtt:g} ms, {described(p.rate, p.loss)}", ylabel="MB/s, all together")
        speed.set_ylim(bottom=0)
        one = p.facts("xhdf5 C x1")
        for key, label in (("seconds", "time"), ("requests", "requests"), ("moved", "bytes moved"),
                           ("cpu", "CPU of the clients")):
            cost.plot(counts, [p.facts(f"xhdf5 C x{n}")[key] / one[key] for n in counts], marker="o", label=label)
        cost.axhline(1.3, color="#999999", ls=":", label="1.3")
        cost.set(ylabel="by one process's", yscale="log")
        for ax in (speed, cost):
            ax.set_xlabel("processes")
            ax.grid(alpha=0.3)
            ax.legend(fontsize=7)
    figure.suptitle(f"{workload}: {result['workloads'][workload]['what']}", fontsize=10)
    save(figure, out, workload.lower())


def ranks(result, out, workload):
    """Bars, a group each server and setting: the ranks of an MPI program, of the raw limit."""
    places, size = [p for p in report.places_of(result)
                    if p.workload == workload], result["workloads"][workload]["file_bytes"]
    readers = sorted({r for p in places for r in p.readers if report.is_ours(r)},
                     key=lambda r: (int(r.rpartition(" x")[2]), r))
    figure, ax = plt.subplots(figsize=(1.6 + 2.6 * len(places), 4))
    for i, reader in enumerate(readers):
        at = [x + (i - (len(readers) - 1) / 2) * 0.18 for x in range(len(places))]
        bars = ax.bar(at, [p.of_raw(reader, size) if reader in p.readers else 0 for p in places], 0.16,
                      label=reader.removeprefix("xhdf5 "))
        ax.bar_label(bars, fmt="%.2f", fontsize=8, label_type="center", color="white")
    ax.axhline(1, color="k", ls="--", label="raw limit (best curl)")
    ax.axhline(0.85, color="#999999", ls=":", label="0.85")
    ax.set_xticks(range(len(places)), [f"{p.server}, {p.rtt:g} ms, {described(p.rate, p.loss)}" for p in places],
                  fontsize=8)
    ax.set(ylabel="of the raw limit", ylim=(0, 1.15))
    ax.legend(fontsize=7, loc="lower center", ncol=3)
    figure.suptitle(f"{workload}: {result['workloads'][workload]['what']}", fontsize=10)
    save(figure, out, workload.lower())


def gains(result, out):
    """P2's bars: how many times faster than without shadow and prediction."""
    places, bars = report.places_of(result), {}
    off = {(p.server, p.rtt): p for p in places if p.workload == "P2" and "xhdf5 C off" in p.readers}
    for p in places:
        base = off.get((p.server, p.rtt))
        if base and p.workload in ("P2", "P2-warm"):
            bars[f"{p.server}, {p.rtt:g} ms, {'cold' if p.workload == 'P2' else 'warm'}"] = \
                base.seconds("xhdf5 C off") / p.seconds("xhdf5 C")
    figure, ax = plt.subplots(figsize=(7.5, 1.6 + 0.4 * len(bars)))
    ax.barh(list(bars), list(bars.values()), color=COLOURS["xhdf5 C"])
    for i, v in enumerate(bars.values()):
        ax.text(v, i, f" {v:.3g}", va="center", fontsize=8)
    for gain, what in MIG_DRIVE:
        ax.axvline(gain, color="#c04000", ls="--", lw=1, label=f"{gain}: {what}")
    ax.set(xscale="log", xlabel="times faster than the same without shadow and prediction",
           title=result["workloads"]["P2"]["what"])
    ax.margins(x=0.15)
    ax.legend(fontsize=7)
    save(figure, out, "p2")


def times(result, out):
    """A figure a link and server: a row of bars each workload."""
    links = {}
    for p in report.places_of(result):
        links.setdefault((p.rtt, p.rate, p.loss, p.server), []).append(p)
    for (rtt, rate, loss, server), places in links.items():
        columns = min(4, len(places))
        rows = math.ceil(len(places) / columns)
        figure, axes = plt.subplots(rows, columns, figsize=(3.9 * columns, 2.5 * rows), squeeze=False)
        for ax in axes.flat[len(places):]:
            ax.axis("off")
        for ax, p in zip(axes.flat, places):
            bars = {r: p.seconds(r) for r in p.readers if not report.is_raw(r)}
            if p.raw_rates:
                bars["raw limit"] = report.size_of(result, p, None) / p.raw_rate()
            bars = dict(sorted(bars.items(), key=lambda kv: -kv[1]))
            ax.barh(list(bars), list(bars.values()), color=[COLOURS.get(r, "#d0a060") for r in bars])
            if bars and max(bars.values()) > 20 * min(bars.values()):
                ax.set_xscale("log")
            for i, v in enumerate(bars.values()):
                ax.text(v, i, f" {v:.3g}", va="center", fontsize=6)
            ax.margins(x=0.15)
            ax.set_title(p.workload, fontsize=8)
            ax.tick_params(labelsize=6)
        figure.suptitle(f"seconds, {server}, round trip {rtt:g} ms, {described(rate, loss)}", fontsize=10)
        save(figure, out, f"time-{server}-{rtt:g}ms" + (f"-{rate:g}mbit" if rate else "") +
             (f"-loss{loss:g}" if loss else ""))


def time_line(path, out):
    done, reads, _ = traces.parse(path.read_text(errors="replace"))
    if not done:
        print(f"no transfers in {path.name}")
        return
    figure, (where, many) = plt.subplots(2, 1, figsize=(9, 6), sharex=True, height_ratios=(3, 1))
    for t in done:
        colour = "#4fa3dc" if t.speculative else "#c04000"
        where.plot([t.sent, t.reply], [t.start / 1e6] * 2, color=colour, lw=0.6, alpha=0.6)
        where.fill_between([t.reply, t.over], [t.start / 1e6] * 2, [max(t.end, t.start + 2e4) / 1e6] * 2, color=colour,
                           alpha=0.7, lw=0)
    where.plot([r.at for r in reads], [r.start / 1e6 for r in reads], "k.", ms=1.5, label="HDF5 asks")
    where.plot([], [], color="#c04000", lw=3, label="demand")
    where.plot([], [], color="#4fa3dc", lw=3, label="speculative")
    where.set(ylabel="offset in the file, MB", title=path.stem.removeprefix("trace-"))
    where.legend(fontsize=8)
    edges = sorted([(t.sent, 1) for t in done] + [(t.over, -1) for t in done])
    at, n, running = [], [], 0
    for when, step in edges:
        running += step
        at.append(when)
        n.append(running)
    many.step(at, n, where="post", color="#444444", lw=0.8)
    many.set(xlabel="seconds", ylabel="in flight")
    save(figure, out, "line-" + path.stem.removeprefix("trace-"))


def stress_over_rtt(result, out):
    ours = [r for r in result["runs"] if r["reader"] == "xhdf5" and not r["faults"]]
    settings = sorted({(r["rate_limit"], r["read"]) for r in ours})
    if not settings:
        return
    figure, axes = plt.subplots(2, len(settings), figsize=(5.2 * len(settings), 6.4), squeeze=False, sharex=True)
    for column, (rate, how) in zip(axes.T, settings):
        runs = sorted((r for r in result["runs"] if (r["rate_limit"], r["read"], r["faults"]) == (rate, how, False)),
                      key=lambda r: r["rtt"])
        for name, mine, style in (("xhdf5", True, dict(color=COLOURS["xhdf5 C"], marker="o")),
                                  ("curl, as many connections", False, dict(color="k", ls="--", marker="x"))):
            seen = [r for r in runs if (r["reader"] == "xhdf5") == mine]
            first = {r["rtt"]: r for r in reversed(seen)}       # of several curls the one that was measured first
            line = [first[rtt] for rtt in sorted(first)]
            column[0].plot([r["rtt"] for r in line], [r["rate"] / 1e6 for r in line], label=name, **style)
            column[1].plot([r["rtt"] for r in line], [100 * sum(r["client_cpu"]) for r in line],
                           label=f"clients, {name}", **style)
            column[1].plot([r["rtt"] for r in line], [100 * r["server_cpu"] for r in line], label=f"server, {name}",
                           **style | dict(alpha=0.4))
        column[0].set(title=f"{how}, {described(rate, runs[0]['loss'])}", ylabel="MB/s, all together")
        column[1].set(xlabel="round trip, ms", ylabel="processors, % of one")
        for ax in column:
            ax.set_ylim(bottom=0)
            ax.grid(alpha=0.3)
            ax.legend(fontsize=7)
    first = ours[0]
    figure.suptitle(f"{first['hosts']} hosts of {first['processes']} processes at once, {first['server']}", fontsize=10)
    save(figure, out, "load")


def stress_over_time(run, out):
    """|run|: one measurement of ours."""
    series, hosts = run["series"], range(run["hosts"])
    figure, (speed, cpu, memory) = plt.subplots(3, 1, figsize=(8, 7.5), sharex=True)
    steps = list(zip(series, series[4:]))       # a second each
    at = [b["t"] for _, b in steps]

    def per(key, pick=lambda v: v):
        return [(pick(b[key]) - pick(a[key])) / (b["t"] - a["t"]) for a, b in steps]
    speed.plot(at, [v / 1e6 for v in per("got")], color=COLOURS["xhdf5 C"], lw=1)
    speed.set(ylabel="MB/s, all together")
    for h in hosts:
        cpu.plot(at, [100 * v for v in per("cpu", lambda v, h=h: v[h])], lw=1, label=f"client host {h + 1}")
        memory.plot([s["t"] for s in series], [s["rss"][h] / 1e6 for s in series], lw=1,
                    label=f"client host {h + 1}: resident")
        slow = [s for s in series if "shadow" in s]
        memory.plot([s["t"] for s in slow], [s["shadow"][h] / 1e6 for s in slow], lw=1, ls=":",
                    label=f"client host {h + 1}: shadows")
    cpu.plot(at, [100 * v for v in per("server_cpu")], lw=1, color="k", label="server")
    cpu.plot(at, [100 * v for v in per("link_cpu")], lw=1, color="#999999", label="the emulated link")
    cpu.set(ylabel="processors, % of one")
    memory.set(ylabel="MB", xlabel="seconds")
    for ax in (speed, cpu, memory):
        ax.set_ylim(bottom=0)
        ax.grid(alpha=0.3)
    for ax in (cpu, memory):
        ax.legend(fontsize=6, ncol=3)
    name = f"load-{run['read']}-{run['rtt']:g}ms" + (f"-{run['rate_limit']:g}mbit" if run["rate_limit"] else "") + \
        ("-faults" if run["faults"] else "")
    speed.set_title(f"{run['server']}, {run['rtt']:g} ms, {described(run['rate_limit'], run['loss'])}, {run['hosts']} x "
                    f"{run['processes']} processes, {run['read']}" +
                    (f"; {run['killed']} servers killed" if run["killed"] else ""),
                    fontsize=10)
    save(figure, out, name)


def main():
    out = pathlib.Path(sys.argv[1])
    if (out / "load.json").exists():
        result = json.loads((out / "load.json").read_text())
        stress_over_rtt(result, out)
        for run in result["runs"]:
            if run["reader"] == "xhdf5":
                stress_over_time(run, out)
        return
    result = json.loads((out / "run.json").read_text())
    for name in result["workloads"]:
        if name in ("P1-slabs", "P1-all"):
            several(result, out, name)
        elif name == "P2":
            gains(result, out)
        elif name == "P3":
            ranks(result, out, name)
        elif result["workloads"][name]["bulk"]:
            throughput(result, out, name, name.lower())
    times(result, out)
    for path in sorted(out.glob("trace-*.log")):
        time_line(path, out)


if __name__ == "__main__":
    main()
