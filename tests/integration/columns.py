#!/usr/bin/env python3
"""Lines have at most 120 columns: C, Python, shell, build files, and Markdown but for tables and addresses. TAP.

Usage: columns.py [--write]

columns.allow says how many longer lines each folder has from before there was this check. It may have fewer and never more;
--write makes the list anew, and only ever shorter.
"""
import collections
import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

MOST = 120
NAMES = re.compile(r"\.(c|h|def|py|md|build|options|toml)$|^\.(clang-tidy|gitignore)$")
LEFT_OUT = {".git", "dist", "ci-logs", "__pycache__", "seeds"}
ALLOWED = pathlib.Path(__file__).parent / "columns.allow"


def files(top):
    for directory, inside, names in os.walk(top):
        inside[:] = [d for d in inside if d not in LEFT_OUT and not d.startswith("build")]
        for name in names:
            path = pathlib.Path(directory, name)
            if NAMES.search(name) or ("." not in name and path.read_bytes()[:2] == b"#!"):
                yield path


def long_lines(path):
    """[number of a line that is too long, …]"""
    found = []
    for n, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        if len(line) > MOST and not (path.suffix == ".md" and (line.lstrip().startswith("|") or "://" in line)):
            found.append(n)
    return found


def allowed():
    lines = ALLOWED.read_text().splitlines() if ALLOWED.exists() else []
    return {name: int(n) for n, name in (line.split(" ", 1) for line in lines)}


def main():
    found, counts = {}, collections.Counter()
    for path in files(harness.TOP):
        name = path.relative_to(harness.TOP)
        found[str(name)] = long_lines(path)
        counts[name.parts[0] if len(name.parts) > 1 else "."] += len(found[str(name)])
    before = allowed()
    if "--write" in sys.argv:
        now = {folder: min(n, before.get(folder, 0) if before else n) for folder, n in counts.items()}
        ALLOWED.write_text("".join(f"{n} {folder}\n" for folder, n in sorted(now.items()) if n))
        return 0
    tap = harness.Tap()
    tap.ok(len(found) > 300, f"{len(found)} files are looked at", sorted(found)[:10])
    for folder, n in sorted(counts.items()):
        why = [f"{name}: lines " + " ".join(map(str, lines[:20])) for name, lines in sorted(found.items())
               if lines and (name.split("/")[0] if "/" in name else ".") == folder]
        most = before.get(folder, 0)
        tap.ok(n <= most, f"{folder}: at most {most} lines of over {MOST} columns", "\n".join([f"{n} lines", *why]))
    print(f"# {counts.total()} lines of over {MOST} columns are left")
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
