"""Where the soft core's firmware spends its time, by function.

    HCA_FIRMWARE=core HCA_FIRMWARE_PROFILE=/tmp/profile cargo nextest run ... -E 'test(=NAME)'
    scripts/profile_firmware.py /tmp/profile [ELF] [--at FUNCTION]

The simulator appends cycles by program counter to the file. --at shows the addresses of one function instead. The ELF
file is the newest that the build has made, unless it is named.
"""

import argparse
import collections
import pathlib
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SYMTAB = 2
FUNC = 2


def functions(path):
    """Functions of a 32-bit ELF file: sorted (address, size, name)."""
    data = path.read_bytes()
    (shoff,) = struct.unpack_from("<I", data, 32)
    shentsize, shnum = struct.unpack_from("<HH", data, 46)
    sections = [struct.unpack_from("<10I", data, shoff + shentsize * i) for i in range(shnum)]
    found = []
    for section in sections:
        if section[1] != SYMTAB:
            continue
        names = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 16):
            name, value, size, info, _, _ = struct.unpack_from("<IIIBBH", data, at)
            if info & 15 == FUNC or size:
                text = data[names + name : data.index(b"\0", names + name)].decode()
                found.append((value, size, text))
    return sorted(found)


def plain(name):
    """The last two parts of a mangled name."""
    parts, at = [], 0
    while at < len(name):
        if name[at].isdigit():
            end = at
            while end < len(name) and name[end].isdigit():
                end += 1
            count = int(name[at:end])
            part = name[end : end + count].lstrip("_")
            if part.isidentifier() and len(part) == len(name[end : end + count].lstrip("_")) and count > 1:
                parts.append(part)
                at = end + count
                continue
        at += 1
    parts = [part for part in parts if not (len(part) == 17 and part.startswith("h"))]
    return "::".join(parts[-2:]) or name


def newest_elf():
    found = sorted(
        ROOT.glob("target/release/build/hca-image-*/out/target/*/firmware/hca-fw"), key=lambda p: p.stat().st_mtime
    )
    if not found:
        sys.exit("no firmware has been built: cargo build --release -p hca-image, or name the ELF file")
    return found[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("profile", type=pathlib.Path)
    parser.add_argument("elf", type=pathlib.Path, nargs="?")
    parser.add_argument("--at", help="show the addresses of this function")
    args = parser.parse_args()
    symbols = functions(args.elf or newest_elf())
    cycles = collections.Counter()
    for line in args.profile.read_text().splitlines():
        pc, count = line.split()
        cycles[int(pc, 16)] += int(count)
    total = sum(cycles.values())
    by_name = collections.Counter()
    for pc, count in cycles.items():
        name = next((plain(n) for a, size, n in reversed(symbols) if a <= pc < a + size), "elsewhere")
        by_name[name] += count
        if args.at == name:
            print(f"{pc:6x} {count:10}")
    if not args.at:
        for name, count in by_name.most_common(40):
            print(f"{count:12} {100 * count / total:5.1f} %  {name}")


if __name__ == "__main__":
    main()
