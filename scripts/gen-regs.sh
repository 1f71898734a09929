#!/bin/sh
# Prints what is made from the register map (abi/regs/*.rdl): the SystemVerilog register blocks and the Rust
# register layer. Usage: scripts/gen-regs.sh [OUTDIR]; OUTDIR is the project itself unless given, and a scratch
# directory when a check wants to compare. Needs the project's .venv (scripts/setup.sh).
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
out=${1:-$root}
python=$root/.venv/bin/python
if [ ! -x "$python" ]; then
  echo "gen-regs: $python not found; run scripts/setup.sh first" >&2
  exit 1
fi

mkdir -p "$out/hw/rtl/mgmt/gen" "$out/abi/hca-regs/src"
for block in hca_func_regs hca_mgmt_regs; do
  "$python" -m peakrdl regblock "$root/abi/regs/hca_regs.rdl" --top "$block" -o "$out/hw/rtl/mgmt/gen" \
    --cpuif passthrough --default-reset rst --type-style hier
done
"$python" "$root/abi/regs/print_rust.py" "$root/abi/regs/hca_regs.rdl" "$out/abi/hca-regs/src/map.rs"
"$python" "$root/abi/regs/print_windows.py" "$root/abi/regs/hca_regs.rdl" "$out/hw/rtl/mgmt/gen/hca_mgmt_pkg.sv"
