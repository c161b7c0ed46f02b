"""Prints the commands that switch the driver on in a shell: eval "$(python -m xhdf5)"."""
import shlex
import sys

from ._default import environment

if len(sys.argv) > 1:
    sys.exit(f'usage: eval "$({sys.executable} -m xhdf5)"; the tool is the command xhdf5 (doctor, stat, ls, get, cache)')
for name, value in environment().items():
    print(f"export {name}={shlex.quote(value)}")
