"""Prints the commands that switch the driver on in a shell: eval "$(python -m xhdf5)"."""
import shlex
import sys

from ._default import environment

usage = f'usage: eval "$({sys.executable} -m xhdf5)"; the tool is the command xhdf5: xhdf5 '
if sys.argv[1:] in (["-h"], ["--help"]):
    print(usage + "--help")
    sys.exit()
if len(sys.argv) > 1:
    print(usage + shlex.join(sys.argv[1:]), file=sys.stderr)
    sys.exit(2)
for name, value in environment().items():
    print(f"export {name}={shlex.quote(value)}")
