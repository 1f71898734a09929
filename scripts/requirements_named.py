"""Which statements of the requirements a test names, by section: requirements_named.py [--missing] [SECTION..].

A statement is an ID in bold or at the head of a table's row of ../shared/requirements.md. A test names it by its ID, or
by a range ("KEY-14 to KEY-16", "REL-1..3"). Named is not shown: it is where to look.
"""

import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = ROOT.parent / "shared" / "requirements.md"
ID = r"[A-Z]+(?:-T)?-(?:\d+|[A-Z]+)"
DEFINED = re.compile(rf"\*\*({ID})\b|^\| ({ID}) \|")
RANGE = re.compile(r"\b([A-Z]+)-(\d+)(?: to |\.\.+|–)(?:\1-)?(\d+)\b")
TEST_MODULE = "#[cfg(test)]"
# Sections that an acceptance of the transport names in full.
WANTED = [*range(2, 14), *range(15, 19)]


def sections(text):
    """{number: (title, {ID: first words})}."""
    found, here = {}, None
    for line in text.splitlines():
        heading = re.match(r"## (\d+)\. (.*)", line)
        if heading:
            here = found.setdefault(int(heading[1]), (heading[2], {}))[1]
        for match in DEFINED.finditer(line) if here is not None else ():
            words = line[match.end():].strip(" |*")
            here.setdefault(match[1] or match[2], words[:80])
    return {number: section for number, section in found.items() if section[1]}


def test_texts():
    """What is a test, of every file under version control."""
    names = subprocess.run(["git", "ls-files", "*.rs", "*.py", "*.c", "*.sv"], cwd=ROOT, check=True, text=True,
                           capture_output=True).stdout.split()
    for name in names:
        text = (ROOT / name).read_text(encoding="utf-8")
        if "tests" in pathlib.PurePath(name).parts[:-1]:
            yield text
        elif TEST_MODULE in text:
            yield text[text.index(TEST_MODULE):]


def named(texts):
    """IDs that the tests name."""
    found = set()
    for text in texts:
        found.update(re.findall(rf"\b{ID}\b", text))
        for kind, low, high in RANGE.findall(text):
            if int(high) - int(low) < 100:
                found.update(f"{kind}-{number}" for number in range(int(low), int(high) + 1))
    return found


def table(found, tested):
    """A line for each section."""
    rows, sums = [], [0, 0]
    for number, (title, items) in sorted(found.items()):
        hit = sum(item in tested for item in items)
        mark = "*" if number in WANTED else " "
        rows.append(f"{number:>3}{mark} {title[:60]:<60} {hit:>4} of {len(items):>3}  {100 * hit // len(items):>3} %")
        sums = [sums[0] + hit, sums[1] + len(items)]
    rows.append(f"     {'all; * those that the transport must name':<60} {sums[0]:>4} of {sums[1]:>3}"
                f"  {100 * sums[0] // sums[1]:>3} %")
    return "\n".join(rows)


def main():
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("section", nargs="*", type=int, help="only these sections (default: all)")
    parser.add_argument("--missing", action="store_true", help="list the statements that no test names")
    args = parser.parse_args()
    if not TEXT.exists():
        sys.exit(f"requirements_named: {TEXT} is not there: the requirements lie beside the checkout")
    found = sections(TEXT.read_text(encoding="utf-8"))
    unknown = set(args.section) - set(found)
    if unknown:
        sys.exit(f"requirements_named: section {min(unknown)} has no statements; there are "
                 f"{', '.join(map(str, sorted(found)))}")
    found = {number: section for number, section in found.items() if not args.section or number in args.section}
    tested = named(test_texts())
    if args.missing:
        for number, (title, items) in sorted(found.items()):
            gaps = {item: words for item, words in items.items() if item not in tested}
            if gaps:
                print(f"\n{number}. {title}")
            for item, words in gaps.items():
                print(f"  {item:<10} {words}")
        print()
    print(table(found, tested))


if __name__ == "__main__":
    main()
