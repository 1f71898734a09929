#!/usr/bin/env bash
# hca without the RTL (make model): it builds where there is no Verilator and no C++ compiler, says what it has not, and
# carries a program. The crates below the last two are those of the other builds, so that this takes half a minute; the
# hca that was there before is there again afterwards.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target=${CARGO_TARGET_DIR:-target}
own=$target/without-rtl
rm -rf "$own"
mkdir -p "$own/tools" "$own/sockets"
die() { printf 'test-without-rtl: %s\n' "$*" >&2; exit 1; }

# Tools that the machine is not to have: whoever calls one fails, and is told of.
for tool in verilator c++ g++ clang++; do
  printf '#!/bin/sh\necho "$0 $*" >>"%s"\nexit 1\n' "$(realpath "$own")/called" >"$own/tools/$tool"
  chmod +x "$own/tools/$tool"
done
restore() { if [[ -f $own/hca-before ]]; then mv -f "$own/hca-before" "$target/release/hca"; fi; }
trap restore EXIT
if [[ -f $target/release/hca ]]; then ln "$target/release/hca" "$own/hca-before"; fi
PATH=$(realpath "$own/tools"):$PATH cargo build --quiet --release -p hca --no-default-features
ln "$target/release/hca" "$own/hca"
restore
[[ ! -f $own/called ]] || die "the build called $(head -n 1 "$own/called")"
crates=$(cargo tree --quiet -p hca --no-default-features -e normal,build --prefix none)
! grep -E '^(hca-models|cc|cmake) v' <<<"$crates" || die "the build without RTL depends on these crates"

# refuses WHAT WORDS...: hca fails with code 2 and says WHAT.
refuses() {
  local says=$1 text rc=0
  shift
  text=$("$own/hca" "$@" 2>&1 </dev/null) || rc=$?
  [[ $rc == 2 && $text == *"$says"* ]] || die "hca $* ended with $rc and said: $text"
}
refuses "built without the RTL: choose cards of the model (--model" sim --dir "$own/sockets"
refuses "was built without it: build it on a machine with Verilator (make hca)" demo
refuses "was built without it: build it on a machine with Verilator (make hca)" perf

cargo build --quiet --release -p hca-capi
ln -s ../release/libibverbs.so "$own/libibverbs.so"
pingpong=(ibv_rc_pingpong -g 1 -c -n 100)
text=$("$own/hca" run --model --pair -- "${pingpong[@]}" --- "${pingpong[@]}" localhost </dev/null) ||
  die "ibv_rc_pingpong failed: $text"
[[ $(grep -c '100 iters in' <<<"$text") == 2 ]] || die "ibv_rc_pingpong said: $text"
echo "hca without RTL: built, refuses what needs cycles, carries ibv_rc_pingpong"
