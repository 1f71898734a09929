#!/usr/bin/env python3
"""Strict check of the RTL by slang: a second opinion, and the frontend synthesis uses.

usage: scripts/lint_slang.py TOP FILELIST...       (runs at the repository root)
"""

import sys

from pyslang import driver

# Verilator -Wall already judges widths and unused names; slang judges what the language allows. A `unique case` has a
# default on purpose (lowRISC style), and a cast that is useless for one value of a parameter is not for another.
FLAGS = "--std 1800-2023 --error-limit 0 -Wextra -Werror -Wno-unused -Wno-case-redundant-default -Wno-useless-cast"


def main():
    """Compiles and elaborates the design; the exit code says whether slang accepts it."""
    top, *filelists = sys.argv[1:]
    lists = " ".join(f"-f {filelist}" for filelist in filelists)
    slang = driver.Driver()
    slang.addStandardArgs()
    accepted = (
        slang.parseCommandLine(f"slang {FLAGS} --top {top} {lists}")
        and slang.processOptions()
        and slang.parseAllSources()
        and slang.runFullCompilation(True)
    )
    sys.exit(0 if accepted else 1)


if __name__ == "__main__":
    main()
