"""Other systems than the box, to try packages on: made by mmdebstrap once, and kept beside the builds."""
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile

ROOTS = pathlib.Path(os.environ["XHDF5_BUILD"]).parent / "systems"
SEEN = ("proc", "sys", "dev", "tmp", "var/tmp", "run", "xhdf5", "build", "etc/resolv.conf", "etc/hosts",
        "etc/ssl/certs/ca-certificates.crt", "etc/pip.conf")
BARE = ("proc", "sys", "dev", "etc/resolv.conf", "etc/hosts", "etc/pip.conf")   # what a machine has when it is new


# Of another machine's packages no script can run yet: they are unpacked, and these links are what a script would make.
UNPACKED = ["--variant=extract", "--architectures=arm64",
            """--setup-hook=for d in bin sbin lib; do mkdir -p "$1/usr/$d"; ln -s "usr/$d" "$1/$d"; done"""]
CONFIGURED = ["--variant=essential"]


def make(suite, packages, sees=SEEN, how=CONFIGURED):
    """A root with that Debian and these packages, made once. What it |sees| of the box is mounted in it until we end.

    mmdebstrap comes into the box for as long as it runs. What is changed in the root stays: see on_top.
    """
    root = ROOTS / f"{suite}-{hashlib.sha256(' '.join([packages, *how[1:]]).encode()).hexdigest()[:8]}"
    ready = root / "ready"
    if not ready.exists() or ready.read_text() != packages:
        shutil.rmtree(root, ignore_errors=True)
        ROOTS.mkdir(parents=True, exist_ok=True)
        print(f"# making {root}", flush=True)
        script = """. /xhdf5/containers/lib.sh; fake=
            awk '{n += $3} END {exit n > 1}' /proc/self/uid_map && fake='perl /xhdf5/containers/fakeown'
            { $fake apt-get update && $fake apt-get install --yes --no-install-recommends mmdebstrap &&
            $fake mmdebstrap --mode=root "${@:4}" --include="$3" \
                --aptopt='Acquire::Languages "none"' --aptopt='APT::Sandbox::User "root"' \
                --aptopt='Acquire::Check-Valid-Until "false"' --skip=chroot/mount/dev \
                --extract-hook='mount --rbind /dev "$1/dev"' --customize-hook='umount --lazy "$1/dev"' "$1" "$2" \
                "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(host_mirror) $1 main"; } >&2"""
        with open(ROOTS / f"{root.name}.log", "w") as log:
            subprocess.run(["bash", "-c", script, "bash", suite, str(root), packages, *how], check=True, stderr=log)
        ready.write_text(packages)
    see_the_box(root, sees)
    return root


def see_the_box(root, sees):
    """Its processes, network and files, for a mount namespace of the caller's own."""
    for name in sees:
        if pathlib.Path("/", name).exists():
            at = root / name
            if pathlib.Path("/", name).is_dir():
                at.mkdir(parents=True, exist_ok=True)
            else:
                at.parent.mkdir(parents=True, exist_ok=True)
                at.touch()
            subprocess.run(["mount", "--rbind", f"/{name}", at], check=True)


def on_top(root, sees=SEEN):
    """A root that holds what |root| does. What is changed in it is in memory, and goes with our mount namespace."""
    # Not in what the roots see: each would hold the mounts of those before it, twice as many each time.
    over = pathlib.Path(tempfile.mkdtemp(prefix="xh-root-", dir="/mnt"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "root", over], check=True)
    for name in ("upper", "work", "root"):
        (over / name).mkdir()
    mine = "userxattr," if mapped_users() == 1 else ""   # a user may only write the user's extended attributes
    layers = f"{mine}lowerdir={root},upperdir={over}/upper,workdir={over}/work"
    subprocess.run(["mount", "-t", "overlay", "-o", layers, "root", over / "root"], check=True)
    see_the_box(over / "root", sees)
    return over / "root"


def mapped_users():
    """How many users this namespace knows: one where a user runs the box, so nothing can be given to another."""
    with open("/proc/self/uid_map") as f:
        return sum(int(line.split()[2]) for line in f)
