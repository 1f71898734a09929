"""Area of the link block per number of data VLs, by open synthesis (Yosys, UltraScale+ cells), as a table.

usage: scripts/area.py [--top MODULE] [COUNT ...]      (default: hca_link with 1, 2, 4, 8 and 15 data VLs)
Logs with every cell: target/area. Minutes for each count; two run at a time.
"""

import argparse
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import filelist

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "target" / "area"
LISTS = ["hw/filelists/pkg.f", "hw/filelists/lib.f", "hw/filelists/wire.f", "hw/filelists/link.f"]
COUNTS = [1, 2, 4, 8, 15]
LIMIT_S = 3600
# What one cell of the library counts for, by column; RAM32M and the like are LUTs used as memory.
COLUMNS = {"LUT": re.compile(r"LUT[1-6]"), "LUT RAM": re.compile(r"RAM(32|64|128|256|512)[MX]\w*"),
           "FF": re.compile(r"FD[CPRS]E"), "DSP": re.compile(r"DSP48E2")}
# Block RAM in units of RAMB36, of which a RAMB18 is half.
BLOCK_RAM = {"RAMB36E2": 1, "RAMB18E2": 0.5}

SCRIPT = """read_slang --top {top} -D SYNTHESIS -G NumVls={count} {includes} {sources}
synth_xilinx -family xcup -flatten -noiopad -noclkbuf -top {top}
stat
"""


def cells(text):
    """({cell: number}, LCs) of the last `stat` of a log."""
    last = text[text.rindex("=== "):]
    # Count, cell; since Yosys 0.5x the count stands in front.
    rows = re.findall(r"^\s+(\d+)\s+\\?([A-Z][A-Z0-9_]+)\s*$", last, re.MULTILINE)
    found = {name: int(number) for number, name in rows}
    estimate = re.search(r"Estimated number of LCs:\s+(\d+)", text)
    return found, int(estimate.group(1)) if estimate else 0


def synthesise(top, count):
    """Row of the table: {column: number}."""
    folder = FOLDER / f"{top}-{count}"
    folder.mkdir(parents=True, exist_ok=True)
    sources, includes = [], []
    for path in LISTS:
        files = filelist.read(path)
        sources += [str(source) for source in files.sources if str(source) not in sources]
        includes += [f"-I {folder_of}" for folder_of in files.include_dirs]
    script = folder / "synth.ys"
    script.write_text(SCRIPT.format(top=top, count=count, includes=" ".join(includes), sources=" ".join(sources)))
    log = folder / "synth.log"
    command = [sys.executable, ROOT / "scripts" / "yosys.py", "-l", log, script]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=LIMIT_S)
    found, estimate = cells(log.read_text())
    row = {name: sum(number for cell, number in found.items() if pattern.fullmatch(cell))
           for name, pattern in COLUMNS.items()}
    if not row["FF"] or not row["LUT"]:
        raise ValueError(f"area: {log} has no cells")
    return {"data VLs": count, "LC": estimate} | row | {"RAMB36": sum(number * found.get(cell, 0)
                                                                     for cell, number in BLOCK_RAM.items())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--top", default="hca_link", help="hca_link, hca_link_tx, hca_link_rx or hca_vl_arb")
    parser.add_argument("counts", nargs="*", type=int, default=COUNTS, help="numbers of data VLs")
    args = parser.parse_args()
    width = None
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        for row in pool.map(lambda count: synthesise(args.top, count), args.counts):
            if width is None:
                width = max(map(len, row))
                print("| " + " | ".join(name.rjust(width) for name in row) + " |")
                print("|" + "|".join("-" * (width + 1) + ":" for _ in row) + "|")
            print("| " + " | ".join(str(number).rjust(width) for number in row.values()) + " |", flush=True)


if __name__ == "__main__":
    main()
