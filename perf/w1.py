#!/usr/bin/env python3
"""W1: a contiguous dataset read image by image through readers, beside the raw limit.

The raw limit is what curl gets from the same URL in the same round: the best of 1, 2, 4, 8 and 16
connections, each fetching a disjoint range of the file to /dev/null. Raw and readers take turns in
every round, in an order that shifts from round to round, so that a drift of the machine strikes
all alike. Only ratios within one run mean something.

A reader is a shell command that reads all images and prints one line `seconds=FLOAT bytes=INT`.
In it {url} becomes the URL and {cacert} the value of --cacert, both quoted for the shell.

example, over an emulated link:
  perf/wan up 50 0
  perf/wan client python3 perf/w1.py --cacert ca.pem --rounds 5 --json w1.json \\
      --url nginx=https://10.77.0.1:8444/w1.h5 --url xrootd=https://10.77.0.1:8443/w1.h5 \\
      --reader 'c=build/perf/read_images {url} /images'
"""

import argparse
import json
import os
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--url", action="append", required=True, type=named_url, metavar="[NAME=]URL",
                   help="the file, https or http; repeat it to compare servers")
    p.add_argument("--cacert", help="CA bundle that curl trusts; {cacert} in a reader's command")
    p.add_argument("--reader", action="append", default=[], type=named_reader, metavar="NAME=COMMAND",
                   help="a reader to measure (repeatable)")
    p.add_argument("--rounds", type=positive, default=3, help="how often all are measured (default 3)")
    p.add_argument("--connections", type=connection_list, default=[1, 2, 4, 8, 16], metavar="N,N,...",
                   help="curl connections to try for the raw limit (default 1,2,4,8,16)")
    p.add_argument("--curl", choices=["best", "processes", "parallel"], default="best",
                   help="a curl process a connection, or one `curl --parallel`; best: the first round tries "
                        "both, later rounds take what was faster for that number of connections (default)")
    p.add_argument("--timeout", type=float, default=900, metavar="SECONDS", help="for one measurement (default 900)")
    p.add_argument("--json", metavar="OUT", help="write every sample and the summary here")
    a = p.parse_args()
    for what, pairs in (("--url", a.url), ("--reader", a.reader)):
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            p.error(f"{what}: two have the same name")
    if a.cacert:
        a.cacert = os.path.abspath(a.cacert)
        if not os.path.isfile(a.cacert):
            p.error(f"--cacert: no file {a.cacert}")
    return a


def named_url(text):
    found = re.fullmatch(r"(?:([\w.-]+)=)?(https?://(\S+?)/\S*)", text)
    if not found:
        raise argparse.ArgumentTypeError("not [NAME=]http(s)://HOST/PATH")
    return found[1] or found[3], found[2]


def named_reader(text):
    name, equals, command = text.partition("=")
    if not equals or not re.fullmatch(r"[\w.-]+", name) or "{url}" not in command:
        raise argparse.ArgumentTypeError("not NAME=COMMAND with {url} in the command")
    return name, command


def positive(text):
    n = int(text)
    if n < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return n


def connection_list(text):
    return sorted({positive(n) for n in text.split(",")})


class Failed(Exception):
    """A measurement that did not give a figure. The text says why."""


def timed(start, timeout):
    """Calls |start|, which returns started processes; waits for all.

    Returns (seconds of wall time from before the first start, CPU seconds of the processes,
    their outputs)."""
    cpu_before, began = os.times(), time.perf_counter()
    processes, outputs = start(), []
    try:
        for process in processes:
            out, err = process.communicate(timeout=max(0.01, timeout - (time.perf_counter() - began)))
            if process.returncode:
                raise Failed(f"exit {process.returncode}: {(err or out).strip()[-300:]}")
            outputs.append(out)
    except subprocess.TimeoutExpired:
        raise Failed(f"not done after {timeout:g} s") from None
    finally:
        seconds = time.perf_counter() - began
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
    after = os.times()
    cpu = after.children_user + after.children_system - cpu_before.children_user - cpu_before.children_system
    return seconds, cpu, outputs


def spawn(command, **more):
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            start_new_session=True, **more)


# -q comes first: nobody's .curlrc. HTTP/1.1: several connections, not streams of one.
CURL = ["curl", "-q", "--silent", "--show-error", "--fail", "--http1.1", "--noproxy", "*"]
REPORT = "%{http_code} %{size_download} %{num_connects}\n"


def size_of(url, cacert):
    """The size of the file in bytes, from the Content-Range of its first byte."""
    command = CURL + (["--cacert", cacert] if cacert else []) + ["-r", "0-0", "-D", "-", "-o", "/dev/null", url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise Failed(done.stderr.strip())
    total = re.findall(r"(?im)^content-range:\s*bytes 0-0/(\d+)", done.stdout)
    if not total:
        raise Failed("the server does not answer ranges")
    return int(total[-1])


def ranges_of(size, n):
    """|n| disjoint ranges, first and last byte, that cover |size| bytes."""
    edges = [size * i // n for i in range(n + 1)]
    return [f"{a}-{b - 1}" for a, b in zip(edges, edges[1:])]


def curl_raw(url, cacert, size, n, style, timeout):
    """One raw sample: the whole file by |n| connections. Returns a dict."""
    trust = ["--cacert", cacert] if cacert else []
    ranges = ranges_of(size, n)
    if style == "processes":
        def start():
            return [spawn(CURL + trust + ["-r", r, "-o", "/dev/null", "-w", REPORT, url]) for r in ranges]
        seconds, cpu, outputs = timed(start, timeout)
    else:
        with tempfile.NamedTemporaryFile("w", suffix=".curl") as config:
            options = [f'url = "{url}"', 'output = "/dev/null"', "fail", "http1.1", 'noproxy = "*"',
                       'write-out = "%{http_code} %{size_download} %{num_connects}\\n"']
            options += [f'cacert = "{cacert}"'] if cacert else []
            config.write("next\n".join("\n".join(options + [f'range = "{r}"', ""]) for r in ranges))
            config.flush()
            command = ["curl", "-q", "--silent", "--show-error", "--parallel", "--parallel-immediate",
                       "--parallel-max", str(n), "--config", config.name]
            seconds, cpu, outputs = timed(lambda: [spawn(command)], timeout)
    answers = [line.split() for line in "".join(outputs).splitlines()]
    codes, got = {a[0] for a in answers}, sum(int(a[1]) for a in answers)
    if codes != {"206"} or got != size:
        raise Failed(f"{got} of {size} bytes, status {' '.join(sorted(codes))}")
    connects = sum(int(a[2]) for a in answers)
    return {"seconds": seconds, "wall_seconds": seconds, "bytes": got, "cpu_seconds": cpu,
            "connections": n, "connects": connects, "style": style}


def read_once(command, url, cacert, timeout):
    """One sample of a reader. Its own seconds count; the wall time is kept beside them."""
    text = command.replace("{url}", shlex.quote(url)).replace("{cacert}", shlex.quote(cacert or ""))
    wall, cpu, (out,) = timed(lambda: [spawn(text, shell=True)], timeout)
    found = re.findall(r"(?m)^.*\bseconds=([0-9.eE+-]+)\s+bytes=(\d+)", out)
    if not found:
        raise Failed("printed no line seconds=FLOAT bytes=INT")
    seconds, got = float(found[-1][0]), int(found[-1][1])
    if got == 0 or not 0 < seconds <= wall:
        raise Failed(f"printed seconds={seconds} bytes={got}, but ran {wall:.3f} s")
    return {"seconds": seconds, "wall_seconds": wall, "bytes": got, "cpu_seconds": cpu}


def measure(args, url, size, samples, round_number):
    """One round over one URL: everything once, in an order that shifts with the round."""
    jobs = []
    for n in args.connections:
        for style in styles_for(args, samples, n):
            jobs.append((f"curl x{n}", lambda n=n, style=style: curl_raw(url, args.cacert, size, n, style, args.timeout)))
    for name, command in args.reader:
        jobs.append((name, lambda command=command: read_once(command, url, args.cacert, args.timeout)))
    shift = round_number * len(jobs) // args.rounds
    for name, job in jobs[shift:] + jobs[:shift]:
        try:
            sample = job()
            note = f"{sample['bytes'] / sample['seconds'] / 1e6:8.1f} MB/s"
        except Failed as why:
            sample, note = {"error": str(why)}, f"FAILED: {why}"
        sample["round"] = round_number
        samples.setdefault(name, []).append(sample)
        print(f"  round {round_number + 1}  {name:<12} {sample.get('style', ''):<10} {note}", file=sys.stderr)


def styles_for(args, samples, n):
    """How to start |n| curls now: both ways while nothing is known, then the faster."""
    if args.curl != "best":
        return [args.curl]
    if n == 1:
        return ["processes"]                        # one process either way
    known = [s for s in samples.get(f"curl x{n}", []) if "error" not in s]
    return [min(known, key=lambda s: s["seconds"])["style"]] if known else ["processes", "parallel"]


def summary_of(samples):
    """By name: medians in MB/s (of the reader's own seconds, and of wall time) and CPU seconds a GB.
    Of curl's two ways only the one that was kept counts."""
    result = {}
    for name, all_of in samples.items():
        good = [s for s in all_of if "error" not in s]
        if not good:
            continue
        by_style = {}
        for s in good:
            by_style.setdefault(s.get("style"), []).append(s)
        style, good = min(by_style.items(),
                          key=lambda kv: (-len(kv[1]), statistics.median(s["seconds"] for s in kv[1])))
        rates = [s["bytes"] / s["seconds"] / 1e6 for s in good]
        result[name] = {
            "raw": style is not None, "style": style, "samples": len(good),
            "failed": sum("error" in s for s in all_of),
            "mb_per_s": statistics.median(rates), "min": min(rates), "max": max(rates),
            "wall_mb_per_s": statistics.median(s["bytes"] / s["wall_seconds"] / 1e6 for s in good),
            "cpu_s_per_gb": statistics.median(s["cpu_seconds"] / s["bytes"] * 1e9 for s in good),
        }
    raw = [(r["mb_per_s"], name) for name, r in result.items() if r["raw"]]
    if raw:
        limit, best = max(raw)
        for name, r in result.items():
            r["of_raw"], r["wall_of_raw"] = r["mb_per_s"] / limit, r["wall_mb_per_s"] / limit
            r["raw_limit"] = name == best
    return result


def print_table(url_name, summary):
    print(f"\nW1 over {url_name}: medians; 'of raw' is the share of the raw limit (marked *)")
    print(f"{'':2}{'':<14}{'MB/s':>8}{'min':>8}{'max':>8}{'of raw':>8}{'wall MB/s':>11}{'of raw':>8}"
          f"{'CPU s/GB':>10}{'n':>4}")
    for name, r in summary.items():
        print(f"{'* ' if r.get('raw_limit') else '  '}{name:<14}{r['mb_per_s']:8.1f}{r['min']:8.1f}{r['max']:8.1f}"
              f"{r.get('of_raw', float('nan')):8.2f}{r['wall_mb_per_s']:11.1f}"
              f"{r.get('wall_of_raw', float('nan')):8.2f}{r['cpu_s_per_gb']:10.2f}{r['samples']:4}"
              f"{'  ' + r['style'] if r['style'] else ''}{'  FAILED %d' % r['failed'] if r['failed'] else ''}")


def main():
    args = arguments()
    samples = {name: {} for name, _ in args.url}
    sizes = {}
    for name, url in args.url:
        try:
            sizes[name] = size_of(url, args.cacert)
        except (Failed, subprocess.TimeoutExpired) as why:
            sys.exit(f"w1: {url}: {why}")
    for round_number in range(args.rounds):
        for name, url in args.url:
            print(f"{name}: {url}, {sizes[name]} bytes", file=sys.stderr)
            measure(args, url, sizes[name], samples[name], round_number)
    summary = {name: summary_of(s) for name, s in samples.items()}
    for name in summary:
        print_table(name, summary[name])
        for who, all_of in samples[name].items():
            if all("error" in s for s in all_of):
                print(f"  {who}: failed every time: {all_of[-1]['error']}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump({"workload": "W1", "rounds": args.rounds, "sizes": sizes, "urls": dict(args.url),
                       "readers": dict(args.reader), "summary": summary, "samples": samples}, f, indent=1)
    return any("error" in s for of in samples.values() for all_of in of.values() for s in all_of)


if __name__ == "__main__":
    sys.exit(main())
