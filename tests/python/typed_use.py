"""A program as a user types it. A line that ends in `# wrong: CODE` is a mistake that a type checker has to find."""
import pathlib
from typing import Any

import xhdf5


def mean(url: str, dataset: str) -> float:
    with xhdf5.open(url, connections=8, readahead_bytes="64M") as f:
        xhdf5.prefetch(f[dataset], (slice(0, 10), ...))
        total: float = sum(float(row.mean()) for row in f[dataset])
        counters: xhdf5.Counters = xhdf5.stats(f)
        print(counters["bytes_fetched"] / counters["requests"], counters["no_such"])  # wrong: typeddict-item
    return total


def first_bytes(name: pathlib.Path) -> bytes:
    with xhdf5.file(name, retries=3) as f:
        pieces: list[bytes] = f.read_ranges([0, 512], [8, 8])
        return f.read_at(0, 8) + pieces[0]


def publish(urls: list[str]) -> dict[str, str]:
    expected: list[str] = xhdf5.expect(urls, ca_bundle="ca.pem")
    paths: list[pathlib.Path] = xhdf5.expect(urls)  # wrong: arg-type
    xhdf5.warm(expected, metadata_only=False)
    xhdf5.warm(7)  # wrong: arg-type
    option: xhdf5.Option = xhdf5.OPTIONS["retries"]
    print(option.default, option.most, paths)  # wrong: attr-defined
    with xhdf5.open(urls[0], "r+", writable=True) as f:
        others: bool = xhdf5.commit(f)
        xhdf5.discard(f, keep=others)
    xhdf5.open()  # wrong: call-arg
    xhdf5.enable()
    return xhdf5.environment()


everything: Any = [mean, first_bytes, publish, xhdf5.plugin_path(), xhdf5.__version__]
