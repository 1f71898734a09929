#!/usr/bin/env python3
"""Lays the soft core's sources out from the Python package pythondata-cpu-ibex, patched, with a file list.

usage: setup_ibex.py DEST       (with the Python that has the package)
"""

import re
import shutil
import sys
from pathlib import Path

import pythondata_cpu_ibex

# In the order tools read them.
PRIM_PACKAGES = ["util", "cipher", "ram_1p", "secded", "mubi"]
CORE = ["pkg", "alu", "branch_predict", "compressed_decoder", "controller", "counter", "csr", "cs_registers", "decoder",
        "dummy_instr", "ex_block", "fetch_fifo", "icache", "id_stage", "if_stage", "load_store_unit", "multdiv_fast",
        "multdiv_slow", "pmp", "prefetch_buffer", "register_file_fpga", "register_file_ff", "wb_stage", "core", "top"]
# What every user of Ibex makes for his technology: ours for simulation and FPGA alike.
WRAPPERS = """\
module prim_buf #(parameter int Width = 1) (input [Width-1:0] in_i, output logic [Width-1:0] out_o);
  assign out_o = in_i;
endmodule
// The clock of the whole block stops in a simulator; on an FPGA the core stands still by itself.
module prim_clock_gating (input clk_i, en_i, test_en_i, output logic clk_o);
  assign clk_o = clk_i;
endmodule
"""
# In every file. Resets are synchronous, as everywhere in hw/rtl: one clock edge is all that happens. Of a declaration
# with a value other readers than Verilator think that it is evaluated once. Assertions are its own project's.
PATCHES = [
    (re.compile(r"posedge (\w+) or negedge rst_ni"), r"posedge \1"),
    (re.compile(r"logic (unused_scramble_inputs) = "), r"logic \1;\n    assign \1 = "),
    (re.compile(r"prim_assert_standard_macros"), "prim_assert_dummy_macros"),
]


def main():
    """Writes the folder anew."""
    dest = Path(sys.argv[1])
    source = Path(pythondata_cpu_ibex.__file__).parent / "system_verilog"
    prim = source / "vendor/lowrisc_ip/ip/prim/rtl"
    shutil.rmtree(dest, ignore_errors=True)
    dest.mkdir(parents=True)
    files = [prim / f"prim_{name}_pkg.sv" for name in PRIM_PACKAGES]
    files += [prim / "prim_onehot_check.sv"]
    files += [source / f"rtl/ibex_{name}.sv" for name in CORE]
    headers = [*prim.glob("prim_assert*"), prim / "prim_flop_macros.sv",
               source / "vendor/lowrisc_ip/dv/sv/dv_utils/dv_fcov_macros.svh"]
    for file in [*files, *headers]:
        text = file.read_text()
        for old, new in PATCHES:
            text = old.sub(new, text)
        (dest / file.name).write_text(text)
    (dest / "prim_wrappers.sv").write_text(WRAPPERS)
    shutil.copy(source / "LICENSE", dest)
    names = [files[0].name, *(file.name for file in files[1:len(PRIM_PACKAGES)]), "prim_wrappers.sv",
             *(file.name for file in files[len(PRIM_PACKAGES):])]
    lines = ["+incdir+.tools/ibex", *(f".tools/ibex/{name}" for name in names)]
    (dest / "ibex.f").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
