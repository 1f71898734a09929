#!/usr/bin/env bash
# Bare Debian roots for `make test-dist`: what `apt` itself needs and the verbs programs, without compilers, Rust or
# Verilator. Nothing outside DEST changes. The mirror is the one that this machine's own packages come from;
# HCA_DEBIAN_MIRROR names another one.
# usage: setup-roots.sh DEST [SUITE...]     afterwards there is DEST/SUITE.tar for each, by default of Debian 12 and 13
set -euo pipefail
dest=$(realpath -m "$1")
shift
suites=("${@:-bookworm trixie}")
read -ra suites <<<"${suites[*]}"
programs=ibverbs-utils,perftest

die() { printf 'roots: %s\n' "$*" >&2; exit 1; }
command -v mmdebstrap >/dev/null || die "no mmdebstrap here: install it (apt-get install mmdebstrap)"

# The machine's first source whose path is Debian's, not that of a security or vendor archive.
find_mirror() {
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -E '^(https?|file)://[^ ]*/debian/?$' |
    head -n 1 || true
}
mirror=${HCA_DEBIAN_MIRROR:-$(find_mirror)}
[[ $mirror ]] || die "no Debian mirror among this machine's package sources: set HCA_DEBIAN_MIRROR to its address"

mkdir -p "$dest"
for suite in "${suites[@]}"; do
  if [[ -s $dest/$suite.tar ]]; then continue; fi
  echo "roots: Debian $suite into $dest (a minute or two)"
  # The tar archive appears complete or not at all.
  mmdebstrap --quiet --variant=minbase --include="$programs" "$suite" "$dest/$suite.new.tar" "$mirror" \
    >"$dest/$suite.log" 2>&1 || { tail -n 5 "$dest/$suite.log" >&2; die "Debian $suite could not be unpacked"; }
  mv "$dest/$suite.new.tar" "$dest/$suite.tar"
done
