#!/usr/bin/env python3
"""Expands the file lists of hw/filelists into absolute paths (their syntax: hw/filelists/README.md)."""

import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass
class FileList:
    """Sources in reading order, and include folders; all absolute."""

    sources: list[Path] = field(default_factory=list)
    include_dirs: list[Path] = field(default_factory=list)


def read(path, into=None):
    """Returns the FileList of `path` (absolute, or from the repository root)."""
    files = FileList() if into is None else into
    for number, line in enumerate((ROOT / path).read_text().splitlines(), 1):
        entry = line.split("//", 1)[0].strip()
        if not entry:
            continue
        if entry.startswith("-f "):
            read(entry[3:].strip(), files)
        elif entry.startswith("+incdir+"):
            files.include_dirs.append(ROOT / entry[len("+incdir+"):])
        elif entry[0] in "+-" or not (ROOT / entry).is_file():
            raise ValueError(f"{path}:{number}: '{entry}' is neither a file of this repository, -f nor +incdir+")
        elif ROOT / entry not in files.sources:
            files.sources.append(ROOT / entry)
    return files


def main():
    """Prints the files of each list named on the command line, one per line, in the form Verilator reads."""
    try:
        for name in sys.argv[1:]:
            files = read(name)
            for folder in files.include_dirs:
                print(f"+incdir+{folder}")
            for source in files.sources:
                print(source)
    except (OSError, ValueError) as error:
        sys.exit(f"filelist: {error}")


if __name__ == "__main__":
    main()
