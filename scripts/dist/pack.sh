#!/usr/bin/env bash
# Packs what scripts/dist/build.sh has built, into DEST: openhca-VERSION-x86_64.tar.gz, which runs from any folder, and
# openhca_VERSION_amd64.deb. The same bytes for the same commit and tools: every time in them is the commit's.
# usage: pack.sh DEST
set -euo pipefail
dest=$(realpath -m "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
built=${CARGO_TARGET_DIR:-target}/portable
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Cargo.toml)}
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C
umask 022

die() { printf 'dist: %s\n' "$*" >&2; exit 1; }
for file in hca libibverbs.so librdmacm.so librspreload.so libibumad.so libhcaview.so libhcanetlink.so; do
  [[ -f $built/$file ]] || die "$built/$file is not there: run scripts/dist/build.sh first"
done
mkdir -p "$dest"
work=$(mktemp -d "$dest/.pack.XXXXXX")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"

# The oldest C library with all symbols that the programs want.
glibc=$(objdump -T "$built/hca" "$built/libibverbs.so" "$built/librdmacm.so" "$built/librspreload.so" \
  "$built/libibumad.so" "$built/libhcaview.so" "$built/libhcanetlink.so" |
  grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
glibc=${glibc#GLIBC_}

# One tree for both; the .deb puts it below /usr.
tree=$work/openhca-$version-x86_64
install -D -m 755 "$built/hca" "$tree/bin/hca"
install -D -m 644 "$built/libibverbs.so" "$tree/lib/openhca/libibverbs.so.1"
install -D -m 644 "$built/librdmacm.so" "$tree/lib/openhca/librdmacm.so.1"
install -D -m 644 "$built/librspreload.so" "$tree/lib/openhca/librspreload.so"
install -D -m 644 "$built/libibumad.so" "$tree/lib/openhca/libibumad.so.3"
install -D -m 644 "$built/libhcaview.so" "$tree/lib/openhca/libhcaview.so"
install -D -m 644 "$built/libhcanetlink.so" "$tree/lib/openhca/libhcanetlink.so"
"$tree/bin/hca" extras "$work/extras"
for page in "$work"/extras/man1/*.1; do
  install -d "$tree/share/man/man1"
  gzip -9n <"$page" >"$tree/share/man/man1/${page##*/}.gz"
done
install -D -m 644 "$work/extras/completions/bash/hca" "$tree/share/bash-completion/completions/hca"
install -D -m 644 "$work/extras/completions/zsh/_hca" "$tree/share/zsh/vendor-completions/_hca"
install -D -m 644 "$work/extras/completions/fish/hca.fish" "$tree/share/fish/vendor_completions.d/hca.fish"
doc=$tree/share/doc/openhca
install -D -m 644 docs/programs.md "$doc/programs.md"
install -m 644 docs/ci.md "$doc/ci.md"
install -D -m 644 -t "$doc/topologies" docs/topologies/*.toml
install -m 644 LICENSE "$doc/LICENSE"
python3 scripts/dist/licences.py hca hca-capi >"$doc/THIRD-PARTY.txt"
{
  printf 'OpenHCA %s. Terms: Apache-2.0, the text is in LICENSE beside this file.\n' "$version"
  printf 'What others have written and is linked into the programs: THIRD-PARTY.txt.\n'
} >"$doc/copyright"

stamp() { find "$1" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +; }
stamp "$tree"
archive=openhca-$version-x86_64.tar.gz
tar --sort=name --format=gnu --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
  -C "$work" -cf - "${tree##*/}" | gzip -9n >"$work/$archive"

root=$work/deb
mkdir -p "$root/DEBIAN" "$root/usr"
cp -a "$tree/." "$root/usr/"
cat >"$root/DEBIAN/control" <<END
Package: openhca
Version: $version
Architecture: amd64
Maintainer: OpenHCA <openhca@users.invalid>
Installed-Size: $(du -sk --apparent-size "$root/usr" | cut -f 1)
Depends: libc6 (>= $glibc), libgcc-s1
Suggests: ibverbs-utils, perftest
Section: net
Priority: optional
Description: simulated InfiniBand and RoCEv2 adapter for verbs programs
 Two cards, cycle by cycle, and the cable between them, with faults by seed;
 programs that use libibverbs run on them unmodified, without root, kernel
 module or network: hca run --pair -- ibv_rc_pingpong -g 1
END
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
stamp "$root"
package=openhca_${version}_amd64.deb
# xz: every dpkg reads it, older ones no zstd.
dpkg-deb --root-owner-group --uniform-compression -Zxz --build "$root" "$work/$package" >/dev/null
mv "$work/$archive" "$work/$package" "$dest/"
(cd "$dest" && sha256sum "$archive" "$package" >SHA256SUMS)
printf 'dist: %s: needs x86-64-v3 and glibc %s\n' "$dest" "$glibc"
(cd "$dest" && du -h --apparent-size "$archive" "$package")
