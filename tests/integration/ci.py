#!/usr/bin/env python3
"""What CI joins and says: the parts of .ci/run, here of a list of our own; the sum of meson's logs, and why tests
failed; which long tests have their turn. TAP."""
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

# Two parts side by side: either waits until the other one is there. A third one does not begin before both are over.
BESIDE = r"""
one      0.2  touch one; until [ -e two ]; do sleep 0.02; done; sleep 0.1; touch over; echo '1 passed, 0 failed'
+two     0.2  touch two; until [ -e one ]; do sleep 0.02; done; echo '0 passed, 1 failed'; exit 1
three    0.2  [ -e over ]
"""

# A part that ran tests, of which one failed; and one that failed without saying why: only its last lines are repeated.
TELLING = r"""
tests    1  seq 40; echo '== why tests failed'; printf 'x: FAIL\n  not ok 1 - a\nfailed: x\n0 passed, 1 failed\n'
other    1  for i in `seq 40`; do echo line $i; done; exit 1
good     1  echo '1 passed, 0 failed'
"""


def test(name, out, err="", result="OK", status=0):
    """One line of meson's log."""
    return json.dumps({"name": name, "stdout": out, "stderr": err, "result": result, "returncode": status,
                       "duration": 1.25})


LOG = "\n".join([
    test("good", "ok 1 - a\n1..1\n", err="of no interest"),
    test("claims", "ok 1 - a\nnot ok 2 - b\n# Traceback\n" + "".join(f"# at {i}\n" for i in range(30)) +
         "# AssertionError: 7\nok 3 - c\n# of c\nnot ok 4 - d # TODO\n# of d\nnot ok 5 - e\n1..5\n",
         "said " + "x" * 900, "ERROR", 1),
    test("silent", "ok 1 - a\nok 2 - b\n1..2\n", "".join(f"line {i}\n" for i in range(50)), "ERROR", 1),
    test("sanitized", "1..1\nnot ok - s::e  Crash\n", "warm up\n==1==ERROR: AddressSanitizer: heap-use-after-free\n" +
         "".join(f"    #{i} in f\n" for i in range(50)), "FAIL", 1),
    test("hung", "ok 1 - a\nok 2 - its last\n", "", "TIMEOUT", -15),
    test("plain", "no TAP\nat all\n", "", "FAIL", 3)])


def counted(directory, log):
    """(exit status, lines) of containers/count-tests."""
    path = pathlib.Path(directory, "plain", "meson-logs", "testlog.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(log)
    done = subprocess.run([sys.executable, harness.TOP / "containers/count-tests", path], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60, env=dict(os.environ, CI=""))
    return done.returncode, done.stdout.splitlines()


def why_tests_failed(tap, directory):
    status, lines = counted(directory, LOG)
    reasons = lines[1:next(i for i, x in enumerate(lines) if x.startswith("failed: "))]
    of = {name: [] for name in ("claims", "silent", "sanitized", "hung", "plain")}
    for line in reasons:
        if line[0] != " ":
            name = line.split(":")[0]
            assert re.fullmatch(r"\w+: [A-Z]+, exit status -?\d+, 1.2 s", line), line
        of[name].append(line.strip())
    with tap.claim("the last lines are what failed and the sum; before these stands why"):
        assert status == 1 and lines[0] == "== why tests failed", lines
        ended = "claims (ERROR)", "silent (ERROR)", "sanitized (FAIL)", "hung (TIMEOUT)", "plain (FAIL)"
        assert lines[-6:] == [*(f"failed: plain: {name}" for name in ended), "6 passed, 6 failed"], lines[-6:]
    with tap.claim("of a claim that failed: the beginning and the end of its diagnostics"):
        said = of["claims"]
        assert said[1:3] == ["not ok 2 - b", "# Traceback"], said
        assert "# AssertionError: 7" in said and "not ok 5 - e" in said, said
        assert "[19 lines]" in said and not any(x in said for x in ("ok 1 - a", "# of c", "# of d", "# at 9")), said
        assert len(said) == 1 + 15 + 1 + 1 and max(map(len, said)) < 400, said
    with tap.claim("of a test whose claims all held: the end of its standard error"):
        said = of["silent"]
        assert said[1:] == ["its last claim: ok 2 - b", *(f"standard error: line {i}" for i in range(35, 50))], said
    with tap.claim("of a sanitizer's report the beginning; of a test that hung its last claim; else what it printed"):
        said = of["sanitized"]
        assert said[1] == "not ok - s::e  Crash" and len(said) == 2 + 15, said
        assert said[2] == "standard error: ==1==ERROR: AddressSanitizer: heap-use-after-free", said
        assert of["hung"][1:] == ["its last claim: ok 2 - its last"], of
        assert of["plain"][1:] == ["no TAP", "at all"], of["plain"]
    with tap.claim("where nothing failed, the sum stands alone"):
        assert counted(directory, test("good", "ok 1 - a\n1..1\n", err="x")) == (0, ["1 passed, 0 failed"])


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
        with tap.claim("a part marked so runs beside the one before it; the next one begins when both are over"):
            beside = BESIDE.replace("touch ", f"touch {d}/").replace("-e ", f"-e {d}/")
            status, lines = run(d, parts=beside)
            assert status == 1 and lines[-1] == "2 passed, 1 failed", lines
            assert [x.split()[0] for x in lines if re.search("; status [01]$", x)] == ["one", "two", "three"], lines
            assert not list(pathlib.Path(d, "logs").glob("*.sum")), "what the sum is made of is gone"
            assert run(d, "three", parts=beside)[0] == 0
        with tap.claim("a part that is killed before it can say how it ended has failed, and only that one"):
            status, lines = run(d, parts="one 0.2 echo '7 passed, 0 failed'\ntwo 0.2 kill -9 $(ps -o ppid= -p $PPID)\n"
                                         "three 0.2 true\n")
            assert status == 1 and lines[-1] == "8 passed, 1 failed", lines
        with tap.claim("what is ended ends the parts that are under way"):
            path = pathlib.Path(d, "parts")
            path.write_text(f"one 1 echo $$ >{d}/pid; exec sleep 50\n+two 1 sleep 50\n")
            pathlib.Path(d, "pid").unlink(missing_ok=True)
            running = subprocess.Popen([harness.TOP / ".ci/run", "--parts", path], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, env=dict(os.environ, XHDF5_CI_LOGS=f"{d}/logs"))
            harness.wait_for(lambda: pathlib.Path(d, "pid").exists() and pathlib.Path(d, "pid").read_text(), "a part")
            pid = int(pathlib.Path(d, "pid").read_text())
            running.terminate()
            assert running.wait(timeout=20) == 143
            harness.wait_for(lambda: not pathlib.Path(f"/proc/{pid}").exists(), "its end")
        with tap.claim("why parts failed is repeated before the sum: what tests said of it, or the last lines"):
            status, lines = run(d, parts=TELLING)
            assert lines[-1] == "1 passed, 2 failed", lines
            end = lines[next(i for i, x in enumerate(lines) if x == "good | 1 passed, 0 failed") + 1:-6]
            assert end == ["", "tests | == why tests failed", "tests | x: FAIL", "tests |   not ok 1 - a",
                           "tests | failed: x", "tests | 0 passed, 1 failed", "", "",
                           *(f"other | line {i}" for i in range(26, 41)), ""], end
        with tap.claim("which tests failed stands once more behind the parts' own sums"):
            assert lines[-3] == "failed: tests: x", lines
        why_tests_failed(tap, d)
    with tap.claim("CI's own list: each part has a name, minutes and a command of the box"):
        mine = [x.lstrip("+").split(None, 2) for x in (harness.TOP / ".ci/parts").read_text().splitlines()
                if x and x[0] != "#"]
        assert mine[0][0] == "test" and len({m[0] for m in mine}) == len(mine) >= 5, mine
        for name, minutes, command in mine:
            assert int(minutes) > 0 and re.match(r"containers/box [a-z]+", command), (name, minutes, command)
    with tap.claim("each long test has its turn, one of each kind a day"):
        tests, seen = json.loads((harness.BUILD / "meson-info/intro-tests.json").read_text()), set()
        every = {t["name"] for t in tests if any(s.endswith("long") for s in t["suite"])
                 and t["timeout"] <= long_of_day().LONGEST_S}
        for day in range(20780, 20780 + len(every)):
            today = long_of_day().chosen(tests, day)
            assert len(today) == len(set(today)) == 3, today
            alone, beside = (long_of_day().chosen(tests, day, which) for which in ("alone", "beside"))
            assert sorted(alone + beside) == sorted(today) and not any(name.startswith("writing") for name in alone)
            seen.update(today)
        assert seen == every and len(every) > 20, every - seen
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
