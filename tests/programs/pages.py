"""The tables in docs/programs.md that the suite writes: make programs ARGS=--write-docs."""

from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "programs.md"
HOW = "run 'make programs ARGS=--write-docs' and commit docs/programs.md"


def marks(name):
    return f"<!-- {name}: written by make programs ARGS=--write-docs -->\n", f"<!-- end of {name} -->\n"


def table(headings, lines):
    """Markdown."""
    lines = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in [headings, ["---"] * len(headings), *lines])


def read(name):
    """What stands between the marks."""
    first, last = marks(name)
    return PAGE.read_text(encoding="utf-8").split(first)[1].split(last)[0]


def write(name, text):
    first, last = marks(name)
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(first)
    PAGE.write_text(before + first + text + last + rest.split(last)[1], encoding="utf-8")
