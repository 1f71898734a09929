"""The table program | options | link | result | seconds."""

HEADINGS = ["Program", "Options", "Link", "Result", "Seconds"]
PROPERTY = "program"


class Row:
    """A line of the table, kept with the test's own result."""

    def __init__(self, item):
        self.item = item

    def __call__(self, program, options="", link="eth"):
        self.cells = {"program": program, "options": options, "link": link, "result": "", "figure": ""}
        self.item.user_properties.append((PROPERTY, self.cells))

    def result(self, text):
        """A result in words, for a test that passes. The same in every run."""
        self.cells["result"] = text

    def figure(self, text):
        """What was measured."""
        self.cells["figure"] = text


def rows(stats):
    """(cells, outcome, seconds) of all tests that have a line, the failed ones last."""
    found = []
    for outcome in ("passed", "skipped", "failed", "error"):
        for test in stats.get(outcome, []):
            cells = dict(getattr(test, "user_properties", ())).get(PROPERTY)
            if cells is not None and (outcome != "passed" or test.when == "call"):
                found.append((cells, outcome, test.duration))
    return found


def result(cells, outcome):
    return cells["result"] or "runs" if outcome == "passed" else outcome.upper()


def lines(found):
    """The whole table."""
    for cells, outcome, seconds in found:
        words = "; ".join(filter(None, [result(cells, outcome), cells["figure"]]))
        yield [cells["program"], cells["options"], cells["link"], words, f"{seconds:.1f}"]


def aligned(lines, headings=HEADINGS):
    """Markdown that a terminal shows well, too."""
    lines = [[cell.replace("|", "\\|") for cell in line] for line in [headings, *lines]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    lines.insert(1, ["-" * width for width in widths])
    return "".join(f"| {' | '.join(map(str.ljust, line, widths))} |\n" for line in lines)
