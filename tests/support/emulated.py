"""Programs for aarch64 on this machine: qemu runs them, and the kernel starts qemu for each of them.

That is binfmt_misc, of a user namespace of our own (Linux 6.7): nothing is registered for others. What qemu does not
show is how aarch64 orders memory: its threads are this machine's.
"""
import os
import pathlib
import subprocess

QEMU = "/usr/bin/qemu-aarch64"     # containers/extras qemu
# The first 20 bytes of an ELF program or library for aarch64, and which of their bits count.
MAGIC = bytes.fromhex("7f454c460201010000000000000000000200b700")
MASK = bytes.fromhex("ffffffffffffff00fffffffffffffffffeffffff")
# Two processors: one without any of what came after the first aarch64, and one with its newer atomic operations, on a
# kernel with pages of 64 KiB. Without a name qemu's own comes, which signs pointers, slowly: five times the time.
OLD, LARGE_PAGES = {"QEMU_CPU": "cortex-a72"}, {"QEMU_CPU": "neoverse-n1", "QEMU_PAGESIZE": "65536"}


def enter(*argv):
    """Becomes this command, in a user namespace in which register() may be called. It has one user, root."""
    os.execvp("unshare", ["unshare", "--user", "--map-root-user", "--mount", *map(str, argv)])


def register():
    """From here on programs for aarch64 are run, in roots of their own too."""
    at = pathlib.Path("/proc/sys/fs/binfmt_misc")
    done = subprocess.run(["mount", "-t", "binfmt_misc", "none", at], capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"no binfmt_misc in a user namespace, which Linux has from 6.7 on: {done.stderr}")

    def escaped(data):
        return b"".join(b"\\x%02x" % c for c in data)
    # F: qemu is opened now, so that it need not be in the roots.
    rule = b":xhdf5-aarch64:M::" + escaped(MAGIC) + b":" + escaped(MASK) + b":" + QEMU.encode() + b":F"
    with open(at / "register", "wb", buffering=0) as f:
        f.write(rule)
