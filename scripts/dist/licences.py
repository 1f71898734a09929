"""Licences of what is linked into the programs: Rust crates, by what cargo resolves for them, and what C++ brings.

usage: licences.py PACKAGE... > THIRD-PARTY.txt      from the checkout's folder
"""

import json
import subprocess
import sys
from pathlib import Path

TARGET = "x86_64-unknown-linux-gnu"
TEXTS = ("LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE")
# Parts that are no crates, and where this machine has their terms.
HERE = Path(__file__).resolve().parent
OTHERS = [
    ("Verilator's runtime, by Wilson Snyder and others", "LGPL-3.0-only OR Artistic-2.0; here under the latter",
     HERE / "Artistic-2.0.txt"),
    ("LZ4, by Yann Collet (writes waveforms)", "BSD-2-Clause", Path("/usr/share/doc/liblz4-dev/copyright")),
    ("zlib, by Jean-loup Gailly and Mark Adler (writes waveforms)", "Zlib",
     Path("/usr/share/doc/zlib1g-dev/copyright")),
    ("libstdc++ and libatomic of GCC", "GPL-3.0 with the GCC runtime library exception",
     Path("/usr/share/doc/gcc-12-base/copyright")),
]


def linked_crates(roots):
    """Crates of others that end up in the packages `roots`: no tests, no build scripts, no macros."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", TARGET]
    metadata = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    waiting = [package["id"] for package in metadata["packages"] if package["name"] in roots]
    missing = set(roots) - {packages[found]["name"] for found in waiting}
    if missing:
        sys.exit(f"licences: no such packages: {', '.join(sorted(missing))}")
    seen = set(waiting)
    while waiting:
        for dep in nodes[waiting.pop()]["deps"]:
            is_linked = any(kind["kind"] is None for kind in dep["dep_kinds"])
            is_macro = any("proc-macro" in target["kind"] for target in packages[dep["pkg"]]["targets"])
            if is_linked and not is_macro and dep["pkg"] not in seen:
                seen.add(dep["pkg"])
                waiting.append(dep["pkg"])
    found = (packages[crate] for crate in seen if packages[crate]["source"])
    return sorted(found, key=lambda crate: (crate["name"], crate["version"]))


def texts_of(crate):
    """The licence files in a crate's folder."""
    folder = Path(crate["manifest_path"]).parent
    files = sorted(file for file in folder.iterdir() if file.is_file() and file.name.upper().startswith(TEXTS))
    return [(file.name, file.read_text(encoding="utf-8", errors="replace").strip()) for file in files]


def heading(text):
    return f"{text}\n{'=' * len(text)}\n"


def main():
    crates = linked_crates(sys.argv[1:])
    out = [heading("What is linked into hca and its libraries, and under which terms")]
    out += [f"{name}: {terms}" for name, terms, _ in OTHERS]
    out += ["Rust's standard library: MIT OR Apache-2.0", ""]
    unknown = [crate["name"] for crate in crates if not crate["license"]]
    if unknown:
        sys.exit(f"licences: crates that do not say under which terms they are: {', '.join(unknown)}")
    out += [f"{crate['name']} {crate['version']}: {crate['license']}" for crate in crates]
    # Many crates carry the same text, word by word.
    owners = {}
    for crate in crates:
        for name, text in texts_of(crate):
            owners.setdefault(text, []).append(f"{crate['name']} ({name})")
    for text, names in owners.items():
        out += ["", heading(", ".join(names)), text]
    for name, _, path in OTHERS:
        if not path.is_file():
            sys.exit(f"licences: the terms of {name} are not at {path}")
        out += ["", heading(name), path.read_text(encoding="utf-8").strip()]
    print("\n".join(out))


main()
