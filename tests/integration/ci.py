#!/usr/bin/env python3
"""What CI joins: the parts of .ci/run, here of a list of our own, and which long tests have their turn. TAP."""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

PARTS = r"""
# A part's name, the minutes that it may take, its command.

sums     1  echo something; echo '7 passed, 9 failed'; echo 'Sum: 5 passed, 0 failed, 2 skipped'
tap      1  printf 'ok 1 - a\nnot ok 2 - b\nok 3 - c # SKIP no link\n1..3\n'; exit 1
dies     1  printf 'ok 1 - a\n'; kill -9 $$
silent   1  true
wrong    1  echo no sum; exit 3
nothing  1  echo '0 passed, 0 failed'
late     0.002  sleep 60
last     1  read line; echo "and its input is empty: '$line'"
"""


def run(directory, *words, parts=PARTS):
    """(exit status, lines) of .ci/run."""
    path = pathlib.Path(directory, "parts")
    path.write_text(parts)
    env = dict(os.environ, XHDF5_CI_LOGS=str(pathlib.Path(directory, "logs")))
    done = subprocess.run([harness.TOP / ".ci/run", "--parts", path, *words], env=env, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.splitlines()


def long_of_day():
    loader = importlib.machinery.SourceFileLoader("long_of_day", str(harness.TOP / "containers/long-of-day"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("long_of_day", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def main():
    tap = harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-ci-") as d:
        status, lines = run(d)
        with tap.claim("one closing line for all parts, whatever some of them end with; and the status says that some failed"):
            # sums 5 0 2; tap 1 1 1; dies 1 1; silent 1; wrong 0 1; nothing 0 1; late 0 1; last 1
            assert lines[-1] == "9 passed, 5 failed, 3 skipped" and status == 1, (status, lines)
            assert [x for x in lines if re.match(r"(\w+: )?\d+ passed, \d+ failed", x)] == lines[-1:], lines
        with tap.claim("each part runs, in the list's order; its output bears its name and is kept"):
            order = list(dict.fromkeys(x.split(" | ")[0] for x in lines if " | " in x))
            assert order == ["sums", "tap", "dies", "wrong", "nothing", "late", "last"], order
            assert "last | and its input is empty: ''" in lines, lines
            logs = {p.name: p.read_text() for p in pathlib.Path(d, "logs").iterdir()}
            assert len(logs) == 8 and logs["wrong.log"] == "no sum\n", logs
        with tap.claim("a part that hangs is ended, and says so"):
            assert any(re.match(r"late \| ended after its 0.002 minutes", x) for x in lines), lines
        with tap.claim("parts are chosen by name; all is well where these are"):
            status, lines = run(d, "silent", "last")
            assert status == 0 and lines[-1] == "2 passed, 0 failed", (status, lines)
        with tap.claim("a name that is no part's is a failure, and so is a list without parts"):
            for words, parts in (("silent", "more"), PARTS), ((), "# none\n"):
                status, lines = run(d, *words, parts=parts)
                assert status == 1 and re.search(r", 1 failed$|, 2 failed$", lines[-1]), (status, lines)
    with tap.claim("CI's own list: each part has a name, minutes and a command of the box"):
        mine = [x.split(None, 2) for x in (harness.TOP / ".ci/parts").read_text().splitlines() if x and x[0] != "#"]
        assert mine[0][0] == "test" and len({m[0] for m in mine}) == len(mine) >= 5, mine
        for name, minutes, command in mine:
            assert int(minutes) > 0 and re.match(r"containers/box [a-z]+", command), (name, minutes, command)
    with tap.claim("each long test has its turn, one of each kind a day"):
        tests, seen = json.loads((harness.BUILD / "meson-info/intro-tests.json").read_text()), set()
        every = {t["name"] for t in tests if any(s.endswith("long") for s in t["suite"]) and t["timeout"] <= long_of_day().LONGEST_S}
        for day in range(20780, 20780 + len(every)):
            today = long_of_day().chosen(tests, day)
            assert len(today) == len(set(today)) == 3, today
            seen.update(today)
        assert seen == every and len(every) > 20, every - seen
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
