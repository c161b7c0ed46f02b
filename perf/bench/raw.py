"""The raw limit: what curl gets of the same file from the same server in the same round.

A whole file by N connections, each fetching a disjoint range to /dev/null over TLS and HTTP/1.1,
either by one `curl --parallel` or by N curl processes. The first round tries all; later rounds only
what came within KEEP of the fastest, so that the rounds stay short without lowering the limit.
"""
import collections
import statistics

from . import lab

CONNECTIONS = (1, 2, 4, 8, 16)
STYLES = ("parallel", "processes")
KEEP = 0.8


def ranges_of(size, n):
    edges = [size * i // n for i in range(n + 1)]
    return [f"{a}-{b - 1}" for a, b in zip(edges, edges[1:])]


def one_by_one(server, url, wanted, work, timeout):
    """What the reads of |wanted|, (offset, bytes) each, cost where nothing is added to them: curl asks for each range,
    one after another, on one connection that stays."""
    config = work / "curl.reads"
    # curl's own clock, from its start to the first reply's first byte, says when the reads began.
    config.write_text("next\n".join(
        f'url = "{url}"\nrange = "{at}-{at + n - 1}"\noutput = "/dev/null"\nfail\nhttp1.1\nnoproxy = "*"\n'
        f'cacert = "{server.cacert}"\nwrite-out = "%{{size_download}} %{{time_total}}\\n"\n' for at, n in wanted))
    server.forget()
    facts, out, err = lab.run(["curl", "-q", "--silent", "--show-error", "--config", str(config)], lab.clean_env(),
                              timeout)
    answers = [line.split() for line in out.splitlines()]
    if [int(a[0]) for a in answers] != [n for _, n in wanted]:
        raise lab.Failed(f"curl got {len(answers)} of {len(wanted)} ranges: {err.strip()[-300:]}")
    later = [float(a[1]) for a in answers[1:]] or [float(answers[0][1])]    # the first one opens the connection
    return [("raw", facts | {"seconds": facts["wall"], "reading": sum(later) * len(wanted) / len(later),
                             "bytes": sum(n for _, n in wanted), "operations": len(wanted)})]


class Raw:
    """The raw limit of one file on one server and link, over the rounds."""

    def __init__(self, server, url, size, work, connections, styles):
        self.server, self.url, self.size, self.work = server, url, size, work
        self.left = [(n, style) for n in connections for style in (styles if n > 1 else STYLES[:1])]
        self.rates = collections.defaultdict(list)

    def jobs(self):
        """[(reader's name, function that measures once)] for this round."""
        if self.rates:
            medians = {k: statistics.median(v) for k, v in self.rates.items()}
            self.left = [k for k in self.left if medians.get(k, 0) >= KEEP * max(medians.values())]
        return [(f"curl x{n} {style}", lambda timeout, n=n, style=style: self.measure(n, style, timeout))
                for n, style in self.left]

    def measure(self, n, style, timeout):
        """seconds: from the first transfer's start to the last one's end by curl's own clock where
        one process does all, else the wall time of all processes."""
        command = self.command(n, style)
        self.server.forget()
        facts, out, err = lab.run(command, lab.clean_env(), timeout)
        answers = [line.split() for line in out.splitlines()]
        got = sum(int(a[1]) for a in answers)
        if {a[0] for a in answers} != {"206"} or got != self.size:
            raise lab.Failed(f"curl got {got} of {self.size} bytes: {err.strip()[-300:]}")
        seconds = max(float(a[3]) for a in answers) if style == "parallel" else facts["wall"]
        self.rates[n, style].append(got / seconds)
        return [("raw", facts | {"seconds": seconds, "bytes": got, "connections": sum(int(a[2]) for a in answers)})]

    def command(self, n, style):
        """Fetches the file by |n| connections; prints a line for each."""
        config = self.work / "curl.config"
        report = "%{http_code} %{size_download} %{num_connects} %{time_total}\\n"
        options = [f'url = "{self.url}"', 'output = "/dev/null"', "fail", "http1.1", 'noproxy = "*"',
                   f'cacert = "{self.server.cacert}"', f'write-out = "{report}"']
        one = ["curl", "-q", "--silent", "--show-error"]
        sections = ["\n".join([*options, f'range = "{r}"', ""]) for r in ranges_of(self.size, n)]
        if style == "parallel":
            config.write_text("next\n".join(sections))
            return one + ["--parallel", "--parallel-immediate", "--parallel-max", str(n), "--config", str(config)]
        for i, section in enumerate(sections):
            config.with_suffix(f".{i}").write_text(section)
        # One shell starts them all and waits, so that their CPU is accounted to it.
        return ["sh", "-c", 'c=$1 n=$2; shift 2; i=0; while [ $i -lt $n ]; do "$@" --config "$c.$i" & '
                "i=$((i+1)); done; wait", "sh", str(config.with_suffix("")), str(n), *one]
