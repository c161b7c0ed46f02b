#!/usr/bin/env python3
"""Runs the patterns of shadow.patterns through herd7, in C11 (RC11) and AArch64, and each of their faults.

usage: patterns.py [--keep DIR] [--only NAME] HERD7 [ARGUMENT...]

HERD7 and its arguments are how herd7 is started. Prints a line for each pattern and fault, and "N passed, N failed". A
pattern passes if no model has a run that ends as it never should; a fault passes if each model has one, or each of
those that it names, and the others none. --keep leaves the litmus tests in DIR.

A pattern is no proof of code that does something else. So where a thread names functions, each of its steps that orders
something must be found there, with this order; and docs/shadow.md must name the pattern.
"""
import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[1]
MODELS = ("c11", "llsc", "lse")  # RC11; AArch64 as compilers make it for ARMv8.0, and for ARMv8.1 with RCpc loads
ORDERS = {"relaxed", "acquire", "release", "acq_rel", "seq_cst"}


@dataclasses.dataclass
class Step:
    words: list
    faults: dict  # name: the steps in its place, as lists of words
    kernel: bool  # the kernel does it


@dataclasses.dataclass
class Pattern:
    name: str
    start: dict
    threads: list = dataclasses.field(default_factory=list)
    places: list = dataclasses.field(default_factory=list)  # of each thread: "file: function, function; file: …"
    never: list = dataclasses.field(default_factory=list)
    models: dict = dataclasses.field(default_factory=dict)  # of a fault: those that find it

    def faulty(self, fault):
        """The threads with a fault made; None: without."""
        return [[w for s in t for w in (s.faults[fault] if fault in s.faults else [s.words])] for t in self.threads]


def read(path):
    patterns = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line, _, comment = line.partition("#")
        said, *faults = line.split("~")
        words = said.split()
        if not words:
            continue
        if words[0] == "pattern":
            patterns.append(Pattern(words[1].rstrip(":"), {}))
            continue
        p = patterns[-1]
        if words[0] == "start":
            p.start = dict(w.split("=") for w in words[1:])
        elif words[0] == "thread":
            p.threads.append([])
            p.places.append(comment.strip())
        elif words[0] == "never":
            p.never.append(dict(w.split("=") for w in words[1:]))
        else:
            step = Step(words, {}, "kernel" in comment)
            for fault in faults:
                name, models, instead = re.fullmatch(r"(\w+)(?:\(([\w ]+)\))?:(.*)", fault.strip()).groups()
                step.faults[name] = [s.split() for s in instead.split(";") if s.strip()]
                p.models[name] = models.split() if models else p.models.get(name, list(MODELS))
            p.threads[-1].append(step)
            assert words[-1] in ORDERS or words[0] == "want", f"line {number}: no order {words[-1]}"
    return patterns


# ---- what the code says ------------------------------------------------------------------------------------------

# How a step with an order is written; besides, by a call of one of these two.
WRITTEN = {"load": r"atomic_load_explicit\(", "store": r"atomic_store_explicit\(", "fence": r"atomic_thread_fence\(",
           "cas": r"atomic_(?:compare_exchange_\w+|fetch_or)_explicit\(",
           "swap": r"atomic_(?:compare_exchange_\w+|exchange)_explicit\("}
BY = {"xh_page_change(": ("page_state.c", "cas", "acq_rel"), "xh_page_fence(": ("page.h", "fence", "acquire")}


def function(file, name):
    text = (TOP / "cache/shadow" / file).read_text()
    found = re.search(rf"^\w[^\n;]*\b{name}\([^;{{]*\)\n\{{.*?^\}}", text, re.M | re.S)
    return found[0] if found else None


def writes(text, op, order, place=""):
    return re.search(rf"{WRITTEN[op]}[^;]*?\b{place}[^;]*?memory_order_{order}\b", text)


def does(text, op, order, place):
    change = op in ("cas", "swap") and order == "acq_rel" or op == "store" and order == "release"
    return (writes(text, op, order, place) or place == "word" and change and "xh_page_change(" in text
            or (op, order) == ("fence", "acquire") and "xh_page_fence(" in text)


def strangers(pattern):
    """What the pattern says and the code, or the documentation, does not."""
    wrong = [] if f"`{pattern.name}`" in (TOP / "docs/shadow.md").read_text() else ["docs/shadow.md does not name it"]
    for called, (file, op, order) in BY.items():
        if not writes(function(file, called[:-1]), op, order):
            wrong.append(f"{called[:-1]} has no {op} {order}")
    for steps, places in zip(pattern.threads, pattern.places):
        texts = []
        for place in filter(None, places.split(";")):
            file, _, names = place.strip().partition(": ")
            for name in names.split(", "):
                texts.append(function(file, name) or wrong.append(f"no {name} in {file}") or "")
        for s in steps if texts else []:
            op, order = s.words[0], s.words[-1]
            on = "" if op == "fence" else s.words[2 if op in ("load", "swap") else 1]
            if order in ORDERS - {"relaxed"} and not s.kernel and not any(does(t, op, order, on) for t in texts):
                wrong.append(f"no {op} {on} {order} in {places}")
    return wrong


# ---- tests as herd7 reads them -----------------------------------------------------------------------------------

class Names:
    """The numbers of values, places and registers. A register that was not reached is 0, which is no value."""

    def __init__(self, pattern, threads):
        steps = [(t, w) for t, thread in enumerate(threads) for w in thread]
        self.places = sorted(set(pattern.start) | {w[1] for _, w in steps if w[0] in ("store", "cas")}
                             | {w[2] for _, w in steps if w[0] in ("load", "swap")})
        self.registers = {w[1]: t for t, w in steps if w[0] in ("load", "swap")}
        self.values = {}
        self.start = {place: self.value(pattern.start[place]) if place in pattern.start else 0
                      for place in self.places}

    def value(self, name):
        return self.values.setdefault(name, len(self.values) + 1)


def exists(pattern, names, register):
    def one(name, value):
        return f"{register(name) if name in names.registers else name}={names.value(value)}"
    return "exists " + " \\/ ".join(
        "(" + " /\\ ".join(one(*both) for both in never.items()) + ")" for never in pattern.never)


def in_c(name, pattern, threads):
    names = Names(pattern, threads)
    start, text = [f"{p}={v};" for p, v in names.start.items()], []
    for t, thread in enumerate(threads):
        olds, body, depth = [], [], 0
        for op, *a in thread:
            order = f"memory_order_{a[-1]}"
            if op == "load":
                body.append(f"{a[0]} = atomic_load_explicit({a[1]}, {order});")
            elif op == "store":
                body.append(f"atomic_store_explicit({a[0]}, {names.value(a[1])}, {order});")
            elif op == "swap":
                body.append(f"{a[0]} = atomic_exchange_explicit({a[1]}, {names.value(a[2])}, {order});")
            elif op == "fence":
                body.append(f"atomic_thread_fence({order});")
            elif op == "want":
                body.append(f"if ({a[0]} == {names.value(a[1])}) {{")
                depth += 1
            elif op == "cas":
                old = f"old{t}{len(olds)}"
                olds.append(old)
                start.append(f"{old}={names.value(a[1])};")
                body.append(f"int did{len(olds)} = atomic_compare_exchange_strong_explicit({a[0]}, {old}, "
                            f"{names.value(a[2])}, {order}, memory_order_relaxed);")
                body.append(f"if (did{len(olds)}) {{")
                depth += 1
        while body and body[-1].endswith("{"):  # herd7 reads no empty block
            body.pop()
            depth -= 1
        head = [f"int {r} = 0;" for r, of in names.registers.items() if of == t]
        places = [f"atomic_int* {p}" for p in names.places] + [f"int* {o}" for o in olds]
        text.append(f"P{t}({', '.join(places)}) {{\n  " + "\n  ".join(head + body + ["}" * depth]) + "\n}\n")
    return "\n".join([f"C {name}", "{ " + " ".join(start) + " }", *text,
                      exists(pattern, names, lambda r: f"{names.registers[r]}:{r}"), ""])


def in_assembler(name, pattern, threads, lse):
    """AArch64, as gcc and clang translate C11's atomics: with the instructions of ARMv8.1, or exclusive pairs."""
    names = Names(pattern, threads)
    number, columns, start = {}, [], [f"int {p}={v};" for p, v in names.start.items()]
    for t, thread in enumerate(threads):
        at = {p: f"X{20 + i}" for i, p in enumerate(names.places)}
        for i, r in enumerate(r for r, of in names.registers.items() if of == t):
            number[r] = 1 + i
        start += [f"{t}:{x}={p};" for p, x in at.items()]
        out = []

        def exchange(register, place, value, order, test=None):
            a, l = "A" * (order in ("acquire", "acq_rel")), "L" * (order in ("release", "acq_rel"))
            out.append(f"MOV W18,#{value}")
            if lse and test:
                out.extend([f"MOV W17,#{test}", f"CAS{a}{l} W17,W18,[{place}]", f"CMP W17,#{test}", f"B.NE END{t}"])
            elif lse:
                out.append(f"SWP{a}{l} W18,W17,[{place}]")
            else:
                out.append(f"LD{a}XR W17,[{place}]")
                out.extend([f"CMP W17,#{test}", f"B.NE END{t}"] if test else [])
                # A store that fails is tried again, which shows nothing new.
                out.extend([f"ST{l}XR W16,W18,[{place}]", f"CBNZ W16,END{t}"])
            if register:
                out.append(f"MOV {register},W17")

        for op, *a in thread:
            order = a[-1]
            if op == "load":
                how = "LDR" if order == "relaxed" else "LDAPR" if lse else "LDAR"
                out.append(f"{how} W{number[a[0]]},[{at[a[1]]}]")
            elif op == "store":
                out.append(f"MOV W18,#{names.value(a[1])}")
                out.append(f"{'STR' if order == 'relaxed' else 'STLR'} W18,[{at[a[0]]}]")
            elif op == "swap":
                exchange(f"W{number[a[0]]}", at[a[1]], names.value(a[2]), order)
            elif op == "fence":
                out.append("DMB ISHLD" if order == "acquire" else "DMB ISH")
            elif op == "want":
                out.extend([f"CMP W{number[a[0]]},#{names.value(a[1])}", f"B.NE END{t}"])
            elif op == "cas":
                exchange(None, at[a[0]], names.value(a[2]), order, names.value(a[1]))
        columns.append(out + [f"END{t}:"])
    rows = max(map(len, columns))
    text = [" | ".join(f"P{t}" for t in range(len(columns))) + " ;"]
    text += [" | ".join(c[i] if i < len(c) else "" for c in columns) + " ;" for i in range(rows)]
    return "\n".join([f"AArch64 {name}", "{ " + " ".join(start) + " }", *text,
                      exists(pattern, names, lambda r: f"{names.registers[r]}:X{number[r]}"), ""])


def text_of(model, name, pattern, threads):
    return in_c(name, pattern, threads) if model == "c11" else in_assembler(name, pattern, threads, model == "lse")


# ---- herd7 -------------------------------------------------------------------------------------------------------

def runs(herd, model, files):
    """How many runs of each test end as they never should: {name: (such, others)}."""
    arguments = ["-model", "rc11.cat"] if model == "c11" else ["-optace", "true"]
    done = subprocess.run([*herd, *arguments, *files], capture_output=True, text=True, timeout=900, check=False)
    seen = {name: (int(such), int(others))
            for name, such, others in re.findall(r"^Observation (\S+) \w+ (\d+) (\d+)$", done.stdout, re.M)}
    if len(seen) != len(files) or done.returncode:
        sys.exit(f"herd7 read {len(seen)} of {len(files)} tests, status {done.returncode}:\n{done.stderr[-2000:]}")
    return seen


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--only")
    parser.add_argument("herd", nargs="+")
    o, more = parser.parse_known_args()
    patterns = [p for p in read(HERE / "shadow.patterns") if o.only in (None, p.name)]
    good = bad = 0
    with tempfile.TemporaryDirectory() as scratch:
        to = o.keep or pathlib.Path(scratch)
        to.mkdir(parents=True, exist_ok=True)
        files = {model: [] for model in MODELS}
        for model in MODELS:
            for p in patterns:
                for fault in [None, *p.models]:
                    name = "-".join([p.name, *([fault] if fault else []), model])
                    files[model].append(to / f"{name}.litmus")
                    files[model][-1].write_text(text_of(model, name, p, p.faulty(fault)))
        # Half of the time goes into AArch64 with single instructions: first.
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            tasks = {m: pool.submit(runs, o.herd + more, m, files[m]) for m in reversed(MODELS)}
            found = {m: t.result() for m, t in tasks.items()}
    for p in patterns:
        for fault in [None, *p.models]:
            name = "-".join([p.name, *([fault] if fault else [])])
            by = [m for m in MODELS if found[m][f"{name}-{m}"][0]]
            wrong = strangers(p) if not fault else []
            right = (by == (p.models[fault] if fault else []) and not wrong
                     and all(sum(found[m][f"{name}-{m}"]) for m in MODELS))
            good, bad = good + right, bad + (not right)
            counts = ", ".join(f"{m} {sum(found[m][f'{name}-{m}'])}" for m in MODELS)
            verdict = f"found by {' '.join(by) or 'none'}" if fault or by else "never"
            print(f"{'ok' if right else 'FAILED':6} {name}: {verdict} (runs: {counts})", *wrong, sep="; ")
        if not p.models:
            bad += 1
            print(f"FAILED {p.name}: it has no fault")
    print(f"{good} passed, {bad} failed")
    sys.exit(bad != 0)


if __name__ == "__main__":
    main()
