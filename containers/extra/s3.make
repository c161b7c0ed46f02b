#!/bin/bash
# s3.make DIR: versitygw, an S3 server over a directory that verifies signatures. A Go module, built by Debian's Go: the
# newest version for which that is new enough.
set -euo pipefail
version=v1.2.0
work=$(mktemp -d /var/tmp/versitygw-XXXXXX)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
export GOPATH=$work/path GOCACHE=$work/cache GOBIN=$1/usr/bin GOTOOLCHAIN=local CGO_ENABLED=0
nice -n 10 go install -trimpath -ldflags '-s -w' "github.com/versity/versitygw/cmd/versitygw@$version"
