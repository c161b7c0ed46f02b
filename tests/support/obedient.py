"""An h5py process that does as it is told: each line of its input is an order in JSON, and gets a line in JSON.

An order may hold, and they are done in this order: env, variables to set, or to remove where they are null; open, a file,
with mode; rows, the numbers of rows of its dataset "rows", of which the second element comes back; digest, names of datasets
whose sums come back. The file is closed then, unless close is false. What fails comes back as kinds, the exception's
classes, and text.
"""
import json
import subprocess
import tempfile

import harness

PYTHON = harness.H5PY["3.14.0"]
PROGRAM = """
import hashlib, json, os, sys, h5py
file = None
for line in sys.stdin:
    order = json.loads(line)
    for name, value in order.get("env", {}).items():
        os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)
    said = {"rows": [], "digest": []}
    try:
        if "open" in order:
            file = h5py.File(order["open"], order.get("mode", "r"))
        for row in order.get("rows", []):
            said["rows"].append(int(file["rows"][row, 1]))
        for name in order.get("digest", []):
            said["digest"].append(hashlib.sha256(file[name][...].tobytes()).hexdigest())
    except Exception as e:
        said |= {"kinds": [k.__name__ for k in type(e).__mro__], "text": str(e)}
    if order.get("close", True) and file:
        file.close()
        file = None
    print(json.dumps(said), flush=True)
"""


class Reader:
    """Such a process, with the environment |env|."""

    def __init__(self, env):
        self.answers, self.log = [], tempfile.TemporaryFile()
        self.process = subprocess.Popen([str(PYTHON), "-c", PROGRAM], env=env, stdin=subprocess.PIPE, text=True,
                                        stdout=subprocess.PIPE, stderr=self.log)

    def ask(self, **order):
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        self.answers.append(self.process.stdout.readline())
        return json.loads(self.answers[-1] or '{"kinds": ["it has ended"], "text": "", "rows": [], "digest": []}')

    def printed(self):
        """What it wrote to standard error so far."""
        self.log.seek(0)
        return self.log.read().decode(errors="backslashreplace")

    def end(self):
        """All that it wrote, answers and standard error."""
        self.process.stdin.close()
        assert self.process.wait(20) == 0
        return "".join(self.answers) + self.printed()
