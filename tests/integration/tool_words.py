#!/usr/bin/env python3
"""All commands and options of the tool are in its help, in the manual page, in docs/tool.md and in the completion."""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

TOOL = harness.BUILD / "vfd" / "tool" / "xhdf5"
COMPLETION = harness.TOP / "vfd/tool/completion/xhdf5"
COMPLETE = r"""
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_xhdf5
printf '%s\n' "${COMPREPLY[@]}"
"""


def help_of(words):
    status, out, err = harness.run([TOOL, *words, "--help"], harness.clean_env())
    assert status == 0 and not err, (words, status, err)
    return out


def commands():
    """Of the sources' tables: [["doctor"], …, ["cache", "ls"], …]."""
    sources = {path.name: path.read_text() for path in (harness.TOP / "vfd/tool").glob("*.c")}
    names = dict(re.findall(r'\b(\w+) = \{"(\w+)", \w+, \w+\}', "".join(sources.values())))
    found = []
    for source, before in (("main.c", []), ("shadows.c", ["cache"])):
        table = re.search(r"struct xh_verb \*const \w+\[\] = \{(.*?)\};", sources[source], re.S)[1]
        found += [before + [names[verb]] for verb in re.findall(r"&(\w+)", table)]
    return [words for words in found if words != ["cache"]]


def options(words):
    """[["-o", "--output"], ["--json"], …], by the command's help; its lines of usage name no other."""
    text = help_of(words)
    listed = re.findall(r"^  (-\w)?(?:, )?(--[a-z-]+)", text, re.M)
    usage = set(re.findall(r"(?<![\w-])--[a-z-]+", text.split("\n\n")[0]))
    unlisted = usage - {long for _, long in listed}
    assert not unlisted, f"{words}: {unlisted} is in the usage alone"
    return [[o for o in pair if o] for pair in listed]


def section(page, words):
    """The manual page's part on a command."""
    match = re.search(r"^\.SS xhdf5 %s\b(.*?)(?=^\.S[SH])" % " ".join(words), page, re.M | re.S)
    assert match, f"no .SS xhdf5 {' '.join(words)}"
    return match[1].replace("\\-", "-")


def completed(*words):
    """What the completion offers for the last of |words|."""
    r = subprocess.run(["bash", "-c", COMPLETE, "bash", str(COMPLETION), str(TOOL), *words], capture_output=True,
                       text=True,
                       timeout=30, env=harness.clean_env())
    assert r.returncode == 0, r.stderr
    return set(r.stdout.split())


def main():
    tap = harness.Tap()
    page = (harness.TOP / "docs/man/xhdf5.1").read_text()
    doc = (harness.TOP / "docs/tool.md").read_text()
    with tap.claim("the program's help names all commands"):
        text = help_of([])
        assert len(commands()) >= 8, commands()
        for words in commands():
            assert re.search(r"^  xhdf5 %s\b" % " ".join(words), text, re.M), words
    with tap.claim("the manual page has each command with its options, and no others"):
        synopsis = page.split(".SH DESCRIPTION")[0]
        assert sorted(re.findall(r"^\.SS xhdf5 (cache \w+|\w+)", page, re.M)) == sorted(" ".join(w) for w in commands())
        for words in commands():
            assert f"xhdf5 {' '.join(words)}" in synopsis, words
            about = section(page, words)
            have = set(re.findall(r"(?<![\w-])--[a-z-]+", about)) | set(re.findall(r"(?<!\S)-\w(?![\w-])", about))
            want = {o for pair in options(words) for o in pair}
            assert have == want, f"{words}: {have ^ want}"
    with tap.claim("names in errors steer no terminal: neither their line ends nor their control characters"):
        name = "/nowhere/\x1b[2Jred\nxhdf5: all is well\u00e4"
        for words in (["publish", name], ["get", "https://localhost/x", "-o", f"{name}/x"], ["mount", name], [name],
                      ["get", name], ["cache", name], ["recover", "export", name, name], ["doctor", name],
                      ["mount", "https://localhost:1/x", name], ["recover", name], ["stat", "--" + name]):
            status, out, err = harness.run([TOOL, *words], harness.clean_env())
            assert status in (2, 3) and "\x1b" not in out + err and "\nxhdf5: all" not in err, (words, err)
            assert err.startswith("xhdf5"), (words, err)
    with tap.claim("a wrong option is named, with what is wrong: there is none, it lacks its value, it takes none"):
        for words, says in ((["stat", "--jsn", "x"], 'there is no option "--jsn"'),
                            (["get", "x", "-zf"], 'there is no option "-z"'),
                            (["stat", "--json=yes", "x"], '"--json" takes no value'),
                            (["get", "x", "-o"], '"-o" lacks its value'),
                            (["publish", "--jobs"], '"--jobs" lacks its value')):
            status, out, err = harness.run([TOOL, *words], harness.clean_env())
            want = f"xhdf5 {words[0]}: {says}; xhdf5 {words[0]} --help says more\n"
            assert (status, out, err) == (2, "", want), (words, status, out, err)
    with tap.claim("help COMMAND is COMMAND --help, also where an option in the environment is wrong"):
        wrong = harness.clean_env() | {"XHDF5_CONNECTIONS": "many"}
        for words in commands():
            for asked in (["help", *words], [*words, "--help"], [*words, "x", "-h"]):
                assert harness.run([TOOL, *asked], wrong) == (0, help_of(words), ""), asked
        status, out, err = harness.run([TOOL, "get", "https://localhost:1/x", "-o", "--help"], wrong)
        assert status == 2 and "XHDF5_CONNECTIONS" in err, (status, out, err)
    with tap.claim("docs/tool.md names each command, with its options"):
        for words in commands():
            heading = re.search(r"^##+ .*\b%s\b.*$" % words[-1], doc, re.M)
            assert heading, words
            for pair in options(words):
                assert any(o in doc for o in pair), (words, pair)
    with tap.claim("the completion offers all commands, and each command's options"):
        assert completed("") == {words[0] for words in commands()} | {"cache"}
        assert completed("cache", "") == {words[1] for words in commands() if words[0] == "cache"}
        assert completed("do") == {"doctor"}
        assert completed("recover", "") == {"list", "retry", "export", "drop"}, completed("recover", "")
        for words in commands():
            want = {o for pair in options(words) for o in pair} | {"--help"}
            assert want <= completed(*words, "-"), (words, want, completed(*words, "-"))
    with tap.claim("the exit codes of the help are those of the manual page and of docs/tool.md"):
        assert re.findall(r"^\.B (\d)$", page, re.M) == re.findall(r"^\| (\d) \|", doc, re.M) == ["0", "1", "2", "3"]
        for words in commands():
            assert "Exit codes: 0 " in help_of(words), words
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
