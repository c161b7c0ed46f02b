"""The stress test's figures: tables, and what was to be shown. Pure: knows only the result as load.json holds it."""
from .report import aligned, number, piped

OF_CURL = 0.9
JAIN = 0.95     # of processes that read alike
GAP_S = 10      # longer is a stall, whatever curl does

HEAD = ["rtt ms", "limit", "read", "reader", "MB/s", "whole", "of curl", "conns", "gap s", "wait s", "least/most",
        "Jain", "client CPU %",
        "server %", "link %", "other %", "idle %", "CPU s/GB", "RSS MB", "host MB", "shadow MB", "blocks", "failed",
        "wrong", "killed"]


def key_of(run):
    return run["rtt"], run["rate_limit"], run["loss"], run["read"], run["faults"]


def is_ours(run):
    return run["reader"] == "xhdf5"


def curl_of(result, run):
    return next((r for r in result["runs"] if not is_ours(r) and key_of(r) == key_of(run)), None)


def of_curl(result, run):
    """By the first curl, which has as many connections."""
    curl = curl_of(result, run)
    return run["rate"] / curl["rate"] if curl and is_ours(run) else float("nan")


def percent(cores):
    """Of one core."""
    return f"{100 * cores:.0f}"


def row(result, r):
    ours = is_ours(r)
    per_gb = sum(r["client_cpu"]) * r["seconds"] / (r["bytes"] / 1e9) if r["bytes"] else float("nan")
    return [f"{r['rtt']:g}", f"{r['rate_limit']:g} Mbit/s" if r["rate_limit"] else "none", r["read"], r["reader"],
            number(r["rate"] / 1e6), number(r["rate_whole"] / 1e6), number(of_curl(result, r)),
            f"{r['connections']:.0f}, {r['connections_most']}",
            number(r["gap"]), number(r["longest"]) if ours else "", number(r["least"] / r["most"]) if r["most"] else "",
            number(r["jain"]),
            " ".join(map(percent, r["client_cpu"])), percent(r["server_cpu"]), percent(r["link_cpu"]),
            percent(r["other_cpu"]), percent(r["idle"]),
            number(per_gb), number(r["rss_most"] / 1e6), number(r["rss_host"] / 1e6), number(r["shadow_host"] / 1e6),
            *([r["blocks"], r["failed"], r["wrong"]] if ours else ["", "", ""]), r["killed"] or ""]


def claims(result):
    """[(claim, where, figure, bound, holds)]"""
    found = []
    for r in filter(is_ours, result["runs"]):
        where = f"{r['server']}, {r['rtt']:g} ms, {r['read']}" + (f", {r['rate_limit']:g} Mbit/s" if r["rate_limit"]
                                                                  else "")
        where += f", loss {r['loss']:g} %" if r["loss"] else ""
        where += f", {r['killed']} servers killed" if r["killed"] else ""
        if curl := curl_of(result, r):
            found.append(("of curl with as many connections", where, of_curl(result, r), OF_CURL,
                          of_curl(result, r) >= OF_CURL))
            bound = max(GAP_S, 2 * curl["gap"])
            found.append(("of fairness, Jain's index", where, r["jain"], JAIN, r["jain"] >= JAIN))
        else:
            bound = GAP_S
        found.append(("longest time without a byte for a process, s", where, r["gap"], bound, r["gap"] <= bound))
        for what in ("failed", "wrong"):
            found.append((f"blocks {what}, of {r['blocks']}", where, r[what], 0, r[what] == 0))
    return found


CLAIM_HEAD = ["claim", "where", "figure", "bound", "holds"]


def claim_rows(result):
    return [[text, where, number(figure), f"{'>=' if text.startswith('of ') else '<='} {number(bound)}",
             "yes" if holds else "NO"]
            for text, where, figure, bound, holds in claims(result)]


def preamble(result):
    v, first = result["versions"], result["runs"][0]
    return [f"xhdf5 {v['commit']}, {result['when']}; {' '.join(result['command'])}",
            f"{first['hosts']} hosts x {first['processes']} processes, {first['seconds']:.0f} s each; TCP windows {result['tcp']}",
            f"{v['cpus']} cores for all, Linux {v['kernel']}, TCP {v['congestion']}; {v['nginx']}; XRootD {v['xrootd']}; "
            f"{v['curl'].split(' (')[0]}"]


def errors(result):
    return [e for r in result["runs"] for e in r.get("errors", [])]


def text(result):
    parts = ["\n".join(preamble(result)), aligned(HEAD, [row(result, r) for r in result["runs"]]),
             "What was to be shown\n" + aligned(CLAIM_HEAD, claim_rows(result))]
    return "\n\n".join(parts + errors(result)) + "\n"


def markdown(result):
    return "\n\n".join(["\n".join(f"- {line}" for line in preamble(result)),
                        piped(HEAD, [row(result, r) for r in result["runs"]]),
                        "### What was to be shown\n\n" + piped(CLAIM_HEAD, claim_rows(result))]) + "\n"
