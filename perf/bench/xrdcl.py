#!/usr/bin/env python3
"""XRootD's own client as the bench's reader: the bytes of a contiguous dataset, without HDF5.

  xrdcl.py ROOT-URL START slabs TOTAL BLOCK          all TOTAL bytes, block by block, DEEP blocks asked for ahead
  xrdcl.py ROOT-URL START blocks LEN OFFSETS one     one after another
  xrdcl.py ROOT-URL START blocks LEN OFFSETS vector  vector reads of 1,000 blocks, all sent at once
START is where the dataset begins in the file. Prints client.py's line of JSON.
"""
import time

spawned_main = time.clock_gettime(time.CLOCK_MONOTONIC)

import json
import queue
import sys

import numpy as np
from XRootD import client as xrd

import client

DEEP = 8        # blocks in flight
BATCH = 1000    # of a vector read: a server takes 1,024


def good(status):
    if not status.ok:
        raise SystemExit(status.message)


def wait(box):
    status, answer, _ = box.get(timeout=600)
    good(status)
    return answer


def ask(read, *words):
    """Sends a request; returns the queue in which its answer will lie."""
    box = queue.Queue()
    good(read(*words, callback=lambda *answer: box.put(answer)))
    return box


def main():
    url, start, verb, *words = sys.argv[1:]
    start = int(start)
    client.moments["main"] = spawned_main
    total = client.Sum(verb != "slabs")
    client.moment("init")
    f = xrd.File()
    good(f.open(url)[0])
    client.moment("open")
    if verb == "slabs":
        size, block = int(words[0]), int(words[1])
        ahead, n = [], 0
        for at in range(0, size + DEEP * block, block):
            if at < size:
                ahead.append(ask(f.read, start + at, min(block, size - at)))
            if at >= DEEP * block or at >= size:
                if not ahead:
                    break
                total.add(np.frombuffer(wait(ahead.pop(0)), np.uint8))
                n += 1
    else:
        length, offsets = int(words[0]), [start + int(o) for o in np.fromfile(words[1], np.uint64)]
        n = len(offsets)
        if words[2] == "one":
            for at in offsets:
                status, data = f.read(at, length)
                good(status)
                total.add(np.frombuffer(data, np.uint8))
        else:
            boxes = [ask(f.vector_read, [(at, length) for at in offsets[i:i + BATCH]]) for i in range(0, n, BATCH)]
            for box in boxes:
                for chunk in wait(box).chunks:
                    total.add(np.frombuffer(chunk.buffer, np.uint8))
    client.moment("read")
    f.close()
    client.moment("end")
    print(json.dumps(client.moments | {"bytes": total.bytes, "operations": n, "sum": f"{total.value:08x}",
                                       "rss_bytes": client.resident_bytes()}))


if __name__ == "__main__":
    main()
