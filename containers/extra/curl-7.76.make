#!/bin/bash
# curl-7.76.make DIR: the oldest libcurl that xhdf5 is built with, 7.76, which RHEL 9 has: DIR/usr/lib/curl-7.76. Debian
# never had it. Its source is in the Rust package curl-sys of that time, which Debian's cargo fetches. It is built as
# RHEL builds its own, as far as xhdf5 can tell: OpenSSL, resolver threads, AWS signatures. The HDF5 that is here wants
# versioned symbols.
set -euo pipefail
version=0.4.43+curl-7.76.0 to=/usr/lib/curl-7.76
work=$(mktemp -d /var/tmp/curl-7.76-XXXXXX)
trap 'rm -rf "$work"' EXIT
cd "$work"
export CARGO_HOME=$work/cargo
mkdir src
touch src/lib.rs
printf '[package]\nname = "want"\nversion = "0.0.0"\n[dependencies]\ncurl-sys = "=%s"\n' "$version" >Cargo.toml
cargo fetch
cd cargo/registry/src/*/"curl-sys-$version/curl"
autoreconf --force --install
./configure --prefix="$to" --libdir="$to/lib" --with-openssl --enable-threaded-resolver --enable-versioned-symbols \
    --disable-{static,ldap,manual} --with-ca-bundle=/etc/ssl/certs/ca-certificates.crt --without-{zlib,brotli,zstd,libpsl,libidn2,nghttp2}
nice -n 10 make -j"$(nproc)" -C lib install "DESTDIR=$1"
make -C include install "DESTDIR=$1"
make install-pkgconfigDATA "DESTDIR=$1"
