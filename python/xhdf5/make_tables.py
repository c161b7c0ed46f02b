"""Writes the package's _tables.py from the project's two tables.

usage: make_tables.py OPTIONS_DEF STATS_DEF VERSION OUTPUT
"""
from __future__ import annotations

import re
import sys

OPTION = re.compile(r'^X\((\w+),\s*(\w+),\s*("[^"]*"|\d+),\s*(\d+),\s*(\d+),\s*"([^"]*)"\)', re.M)
COUNTER = re.compile(r'^X\((\w+),\s*"([^"]*)",\s*"([^"]*)"\)', re.M)
TYPES = {"BOOL": "bool | str", "INT": "int", "SIZE": "int | str", "STR": "str", "WORD": "str"}


def rows(path: str, row: re.Pattern[str]) -> list[tuple[str, ...]]:
    """Every X(…) of a table; a line that is not understood is an error, not left out."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    found = row.findall(text)
    if not found or len(found) != len(re.findall(r"^X\(", text, re.M)):
        sys.exit(f"{path}: {len(found)} rows understood")
    return found


def main() -> None:
    options, counters = rows(sys.argv[1], OPTION), rows(sys.argv[2], COUNTER)
    out = ['"""Made from cache/base/options.def and cache/watch/stats.def by make_tables.py."""',
           "from __future__ import annotations", "",
           "from typing import NamedTuple, TypedDict", "", f"VERSION = {sys.argv[3]!r}", "", "",
           "class Option(NamedTuple):", "    type: str", "    default: int | str", "    min: int", "    max: int",
           "    help: str", "    words: tuple[str, ...] = ()", "", "", "OPTIONS: dict[str, Option] = {"]
    for kind, name, default, low, high, text in options:
        words = tuple(default.strip('"').split("|")) if kind == "WORD" else ()
        default = repr(words[0]) if words else default
        out.append(f"    {name!r}: Option({kind!r}, {default}, {low}, {high}, {text!r}, {words!r}),")
    out += ["}", "", "", "class Options(TypedDict, total=False):"]
    for kind, name, _, _, _, text in options:
        out += [f"    {name}: {TYPES[kind]}", f"    {chr(34) * 3}{text}{chr(34) * 3}"]
    out += ["", "", "class Counters(TypedDict):"]
    for name, unit, text in counters:
        out += [f"    {name}: int", f"    {chr(34) * 3}{unit}: {text}{chr(34) * 3}"]
    out += ["", "", "COUNTERS: dict[str, tuple[str, str]] = {"]
    out += [f"    {name!r}: ({unit!r}, {text!r})," for name, unit, text in counters]
    out.append("}")
    with open(sys.argv[4], "w", encoding="utf-8") as f:
        f.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
