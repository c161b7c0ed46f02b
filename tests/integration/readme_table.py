#!/usr/bin/env python3
"""The README's options table is the one of cache/options.def. With --write, makes it so."""
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- options: made from cache/options.def -->", "<!-- end of options -->"


def size(text):
    v = int(text)
    for unit in ("G", "M", "k"):
        step = {"G": 1 << 30, "M": 1 << 20, "k": 1 << 10}[unit]
        if v and v % step == 0:
            return f"{v // step}{unit}"
    return text


def table():
    rows = ["| option | default | bounds | meaning |", "|---|---|---|---|"]
    row = re.compile(r'^X\((\w+),\s*(\w+),\s*("[^"]*"|\d+),\s*(\d+),\s*(\d+),\s*"([^"]*)"\)', re.M)
    for kind, name, default, lo, hi, text in row.findall((TOP / "cache/options.def").read_text()):
        if kind == "BOOL":
            default, bounds = ("on" if default == "1" else "off"), "on, off"
        elif kind == "STR":
            default, bounds = default.strip('"') or "(empty)", f"up to {hi} bytes"
        elif kind == "SIZE":
            default, bounds = size(default), f"{size(lo)} to {size(hi)}"
        else:
            bounds = f"{lo} to {hi}"
        rows.append(f"| `{name}` | {default} | {bounds} | {text} |")
    return "\n".join(rows)


def main():
    readme = TOP / "README.md"
    text = readme.read_text()
    head, rest = text.split(BEGIN)
    old, tail = rest.split(END)
    if "--write" in sys.argv:
        readme.write_text(f"{head}{BEGIN}\n{table()}\n{END}{tail}")
        return 0
    good = old.strip() == table()
    print("1..1")
    print(f"{'ok' if good else 'not ok'} 1 - the README's options table is that of options.def")
    if not good:
        print("# run tests/integration/readme_table.py --write")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
