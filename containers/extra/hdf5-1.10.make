#!/bin/bash
# hdf5-1.10.make DIR: Debian 12's h5dump (HDF5 1.10, which has no drivers to load), with its libraries in a place of their
# own: DIR/usr/lib/hdf5-1.10/h5dump. Tests of mounts alone start it.
set -euo pipefail
. "$(dirname "$(readlink -f "$0")")/../lib.sh"
to=$1/usr/lib/hdf5-1.10
work=$(mktemp -d /var/tmp/hdf5-1.10-XXXXXX)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p lists/partial archives/partial parts
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(host_mirror) bookworm main" >sources.list
apt=(apt-get -o Dir::Etc::SourceList="$PWD/sources.list" -o Dir::Etc::SourceParts="$PWD/parts"
    -o Dir::State::Lists="$PWD/lists" -o Dir::Cache::Archives="$PWD/archives" -o Acquire::Languages=none
    -o APT::Sandbox::User=root -o Acquire::Retries=3 -o Acquire::Check-Valid-Until=false)
"${apt[@]}" update
"${apt[@]}" download {hdf5-tools,libhdf5-103-1,libhdf5-hl-100}/bookworm
for p in ./*.deb; do dpkg-deb --fsys-tarfile "$p" | tar -x --no-same-owner; done
mkdir -p "$to"
cp usr/bin/h5dump usr/lib/*/libhdf5*.so.* "$to"
LD_LIBRARY_PATH=$to "$to/h5dump" --version
