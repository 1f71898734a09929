"""The tests of this folder as a table of docs/peers.md: listing.py write | check."""

import ast
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs/peers.md"
BEGIN, END = "<!-- written by tests/peers/listing.py -->\n", "<!-- end -->\n"


def tests(tree):
    """Names of the test functions of a file, in its order."""
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]


def table():
    lines = ["| File | What it is about | Tests |\n", "|---|---|---|\n"]
    for path in sorted(HERE.glob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        about = re.split(r"(?<=\.)\s", ast.get_docstring(tree))[0].replace("\n", " ").rstrip(".")
        names = ", ".join(name.removeprefix("test_").replace("_", " ") for name in tests(tree))
        lines.append(f"| `{path.name}` | {about} | {names} |\n")
    return "".join(lines)


def filled(page):
    """The page with the table as it must be."""
    begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    return page[:begin] + table() + page[end:]


def main(words):
    page = PAGE.read_text(encoding="utf-8")
    if words == ["write"]:
        PAGE.write_text(filled(page), encoding="utf-8")
    elif words != ["check"]:
        sys.exit(__doc__)
    elif page != filled(page):
        sys.exit("docs/peers.md does not list the tests that there are: run 'make gen'")


if __name__ == "__main__":
    main(sys.argv[1:])
