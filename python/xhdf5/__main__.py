"""Prints the commands that switch the driver on in a shell: eval "$(python -m xhdf5)"."""
import shlex

from ._default import environment

for name, value in environment().items():
    print(f"export {name}={shlex.quote(value)}")
