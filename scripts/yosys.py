"""The `yosys` command over the pyosys wheel, as far as SymbiYosys uses it: -V, -q, -l LOG, -p COMMANDS, SCRIPT.

The wheel has the library, natively compiled, but not the program.
"""

import argparse
from importlib.metadata import version

from pyosys import libyosys as ys


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-V", action="store_true")
    parser.add_argument("-q", action="count")
    parser.add_argument("-t", action="store_true")
    parser.add_argument("-l")
    parser.add_argument("-p", action="append", default=[])
    parser.add_argument("script", nargs="*")
    args = parser.parse_args()
    if args.V:
        print("Yosys", version("pyosys"))
        return
    commands = [f"script {path}" for path in args.script]
    commands += [part.strip() for text in args.p for part in text.split(";") if part.strip()]
    design = ys.Design()
    for command in commands:
        ys.run_pass((f"tee -q -o {args.l} " if args.l else "") + command, design)


if __name__ == "__main__":
    main()
