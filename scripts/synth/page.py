"""Tables of results in the pages of docs/, between two marks that readers do not see."""

from __future__ import annotations

from pathlib import Path

END = "<!-- end -->\n"


def markdown(names: list[str], rows: list[list[str]]) -> str:
    """A table."""
    lines = [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    lines += [f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def publish(page: Path, text: str, mark: str = "measured") -> None:
    """Puts the text in the place of what was there before, behind `<!-- mark -->`."""
    start = f"<!-- {mark} -->\n"
    head, begin, rest = page.read_text().partition(start)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{page} has no place for a table")
    page.write_text(head + start + text + END + tail)
