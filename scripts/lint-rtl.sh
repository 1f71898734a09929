#!/usr/bin/env bash
# Lints the card's RTL with Verilator, slang and verible. Warnings are errors; waivers: hw/lint/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
top=hca_core
list=hw/filelists/$top.f

# Verilator would report a missing file in the middle of a list; say it plainly first, for a half-written design
# must never pass as a clean one.
sources=$(.venv/bin/python scripts/filelist.py "$list") ||
  { echo "lint-rtl: $list is not complete, so the RTL was not linted" >&2; exit 1; }

echo "lint-rtl: Verilator"
verilator=${VERILATOR:-.tools/verilator/bin/verilator}
"$verilator" --lint-only -Wall --quiet --top-module "$top" hw/lint/waivers.vlt -f "$list"
echo "lint-rtl: slang"
.venv/bin/python scripts/lint_slang.py "$top" "$list"
echo "lint-rtl: verible (generated files excepted)"
grep -v -e '^+' -e '/gen/' <<<"$sources" |
  xargs .venv/bin/verible-verilog-lint --ruleset none --rules_config hw/lint/verible.rules
