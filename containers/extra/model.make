#!/bin/bash
# model.make DIR: what containers/box model runs: spin, and herd7 of Debian's next suite (this one has no herd7), with the
# C library that it needs, in a place of its own.
set -euo pipefail
. "$(dirname "$(readlink -f "$0")")/../lib.sh"
work=$(mktemp -d /var/tmp/model-XXXXXX)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p lists/partial archives/partial parts spin herd
for suite in trixie forky; do
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(host_mirror) $suite main"
done >sources.list
apt=(apt-get -o Dir::Etc::SourceList="$PWD/sources.list" -o Dir::Etc::SourceParts="$PWD/parts"
    -o Dir::State::Lists="$PWD/lists" -o Dir::Cache::Archives="$PWD/archives" -o Acquire::Languages=none
    -o APT::Sandbox::User=root -o Acquire::Retries=3)
"${apt[@]}" update
"${apt[@]}" download spin/trixie {herdtools7,libc6,libgmp10}/forky
dpkg-deb --fsys-tarfile spin_*.deb | tar -x --no-same-owner -C spin
for p in herdtools7_*.deb libc6_*.deb libgmp10_*.deb; do
    dpkg-deb --fsys-tarfile "$p" | tar -x --no-same-owner -C herd --exclude='./usr/share/doc' --exclude='*.asl'
done
to=$1/usr/lib/herd7
mkdir -p "$1/usr/bin" "$to"
cp spin/usr/bin/spin "$1/usr/bin"
cp herd/usr/bin/herd7 herd/usr/lib/*/{ld-linux-*,lib{c,m,gmp}}.so.* "$to"
cp -r herd/usr/share/herdtools7/herd "$to/models"
cat >"$1/usr/bin/herd7" <<'EOF'
#!/bin/bash
exec /usr/lib/herd7/ld-linux-*.so.* --library-path /usr/lib/herd7 /usr/lib/herd7/herd7 -set-libdir /usr/lib/herd7/models "$@"
EOF
chmod +x "$1/usr/bin/herd7"
"$to"/ld-linux-*.so.* --library-path "$to" "$to/herd7" -version
"$1/usr/bin/spin" -V
