#!/bin/bash
# qemu.make DIR: DIR/usr/bin/qemu-aarch64, which runs programs for aarch64 here, and nothing else of its large package.
# Debian 12's version: the later ones cannot show a program other pages than this machine's (wheel --arch aarch64 --check).
set -euo pipefail
. "$(dirname "$(readlink -f "$0")")/../lib.sh"
work=$(mktemp -d /var/tmp/qemu-XXXXXX)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p lists/partial archives/partial parts "$1/usr/bin"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(host_mirror) bookworm main" >sources.list
apt=(-o Dir::Etc::SourceList="$PWD/sources.list" -o Dir::Etc::SourceParts="$PWD/parts"
    -o Dir::State::Lists="$PWD/lists" -o Dir::Cache::Archives="$PWD/archives" -o Acquire::Languages=none
    -o APT::Sandbox::User=root -o Acquire::Retries=3 -o Acquire::Check-Valid-Until=false)
apt-get "${apt[@]}" update
apt-get "${apt[@]}" download qemu-user-static
dpkg-deb --fsys-tarfile qemu-user-static_*.deb | tar -x --no-same-owner ./usr/bin/qemu-aarch64-static
cp usr/bin/qemu-aarch64-static "$1/usr/bin/qemu-aarch64"
"$1/usr/bin/qemu-aarch64" --version
