#!/usr/bin/env bash
# Fails if a file that scripts/gen-regs.sh generates is not what abi/regs says. Changes nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
scripts/gen-regs.sh "$fresh" >"$fresh.log" 2>&1 || { cat "$fresh.log" >&2; rm -f "$fresh.log"; exit 1; }
rm -f "$fresh.log"
stale=0 count=0
while read -r file; do
  ((count += 1))
  diff -u "$file" "$fresh/$file" || stale=1
done < <(cd "$fresh" && find . -type f | sed 's|^\./||' | sort)
if ((stale || count == 0)); then
  echo "gen-check: what is generated from abi/regs differs from the tree: run 'make gen' and commit the result" >&2
  exit 1
fi
