#!/usr/bin/env bash
# Lints the card's RTL with Verilator, slang and verible. Warnings are errors; waivers: hw/lint/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
top=hca_core
list=hw/filelists/$top.f
# The soft core and what it uses of the card's; Ibex is not ours to judge.
soc_top=hca_fw_soc
soc_lists=(hw/filelists/pkg.f hw/filelists/lib.f .tools/ibex/ibex.f hw/filelists/soc.f)
soc_args=()
for soc_list in "${soc_lists[@]}"; do soc_args+=(-f "$soc_list"); done

# Verilator would report a missing file in the middle of a list; say it plainly first, for a half-written design
# must never pass as a clean one.
sources=$(.venv/bin/python scripts/filelist.py "$list") ||
  { echo "lint-rtl: $list is not complete, so the RTL was not linted" >&2; exit 1; }

echo "lint-rtl: Verilator"
verilator=${VERILATOR:-.tools/verilator/bin/verilator}
"$verilator" --lint-only -Wall --quiet --top-module "$top" hw/lint/waivers.vlt -f "$list"
# The card with nothing that can be left out (decision 0081).
"$verilator" --lint-only -Wall --quiet +define+HCA_FEATURES=0 +define+HCA_SMALL_POOLS \
  --top-module "$top" hw/lint/waivers.vlt -f "$list"
"$verilator" --lint-only -Wall -Wno-UNUSEDPARAM --quiet --top-module "$soc_top" hw/lint/waivers.vlt hw/lint/ibex.vlt \
  "${soc_args[@]}"
echo "lint-rtl: slang"
.venv/bin/python scripts/lint_slang.py "$top" "$list"
.venv/bin/python scripts/lint_slang.py "$soc_top" "${soc_lists[@]}"
echo "lint-rtl: verible (generated files excepted)"
sources+=$'\n'$(.venv/bin/python scripts/filelist.py hw/filelists/soc.f)
grep -v -e '^+' -e '/gen/' <<<"$sources" |
  xargs .venv/bin/verible-verilog-lint --ruleset none --rules_config hw/lint/verible.rules
