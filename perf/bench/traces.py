"""A traced run: what xhdf5 sent when, and what HDF5 asked for when. Pure: text in, tuples out."""
import bisect
import collections
import itertools
import re

PAGE = 4096
EVENT = re.compile(r"^(\d+) \d+ \d+ (\S+) (\S+) (.*)$")

# Times in seconds from the first line; the range's bytes (of several ranges: from the first's start to
# the last one's end).
Transfer = collections.namedtuple("Transfer", "sent reply over start end speculative")
Read = collections.namedtuple("Read", "at start end raw")


def parse(text):
    """([Transfer] in the order of sending, [Read], pages of index nodes that were fetched ahead). Requests
    are told apart by their id, which is used again after they are over."""
    running, done, reads, speculative, nodes, first = {}, [], [], {}, set(), None
    for line in text.splitlines():
        if not (m := EVENT.match(line)):
            continue
        first = int(m[1]) if first is None else first
        at, event, words = (int(m[1]) - first) / 1e9, (m[2], m[3]), dict(re.findall(r"(\w+)=(\S+)", m[4]))
        if event == ("vfd", "read"):
            offset, _, length = words["first"].partition("+")
            reads.append(Read(at, int(offset), int(offset) + int(length), words["kind"] == "raw"))
        elif event == ("predict", "node"):
            nodes.add(int(words["off"]) // PAGE)
        elif event == ("origin", "request"):
            speculative[words["id"]] = words["speculative"] == "1"
            if words["to"] == "over" and words["id"] in running:
                t = running.pop(words["id"])
                done.append(t._replace(over=at, reply=t.reply or at))
        elif event == ("origin", "send"):
            running[words["id"]] = Transfer(at, None, None, int(words["from"]), int(words["to"]),
                                            speculative.get(words["id"], False))
        elif event == ("origin", "reply") and words["id"] in running:
            running[words["id"]] = running[words["id"]]._replace(reply=at)
    return sorted(done), reads, nodes


def in_order(done, reads, nodes=()):
    """Whether prefetches were sent in the order in which HDF5 then asked for their bytes: of any two, the
    share that were. Two threads that send at once lower it little, an order by address more. A short one
    counts for less than a long one: such begin on connections that are just being opened, with what is
    wanted last. Index nodes are another matter. None where there are too few."""
    by_start = sorted((r.start, r.end, i) for i, r in enumerate(reads) if r.raw)
    starts = [r[0] for r in by_start]
    longest = max((r.end - r.start for r in reads), default=0)
    ranks = []      # (place in HDF5's order, weight)
    for t in done:
        if not t.speculative or t.start // PAGE in nodes:
            continue
        near = by_start[bisect.bisect_left(starts, t.start - longest):bisect.bisect_left(starts, t.end)]
        wanted = [i for start, end, i in near if end > t.start]
        if wanted:
            ranks.append((min(wanted), min(t.end - t.start, longest)))
    pairs = list(itertools.combinations(ranks, 2))
    total = sum(v * w for (_, v), (_, w) in pairs)
    return sum(v * w for (a, v), (b, w) in pairs if a <= b) / total if len(pairs) >= 10 else None


def facts(text):
    """What of a trace belongs in a result."""
    done, reads, nodes = parse(text)
    return {"transfers": len(done), "speculative": sum(t.speculative for t in done), "reads": len(reads),
            "in_order": in_order(done, reads, nodes)}
