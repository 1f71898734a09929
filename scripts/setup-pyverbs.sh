#!/usr/bin/env bash
# rdma-core's Python tests and the bindings they use, from Debian's package python3-pyverbs. It is unpacked, not
# installed: it would bring kernel modules' tools along, and images of Debian without documentation drop the tests.
# usage: setup-pyverbs.sh DEST      afterwards DEST/lib is for PYTHONPATH, DEST/tests holds the tests
set -euo pipefail
dest=$(realpath -m "$1")
version=44.

mkdir -p "$(dirname "$dest")"
work=$(mktemp -d "$dest.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
download() { apt-get download -qq python3-pyverbs </dev/null; }
# Package lists are missing where nothing has been installed yet; only root can fetch them.
download || { [[ $(id -u) == 0 ]] && apt-get update -qq && download; }
dpkg -x python3-pyverbs_*.deb package
found=$(dpkg-deb -f python3-pyverbs_*.deb Version)
[[ $found == "$version"* ]] || { echo "python3-pyverbs $found: version $version is wanted" >&2; exit 1; }
mkdir new
mv package/usr/lib/python3/dist-packages new/lib
mv package/usr/share/doc/rdma-core/tests new/tests
gunzip new/tests/*.gz
rm -rf "$dest"
mv new "$dest"
