"""The table program | options | link | result | seconds."""

HEADINGS = ["Program", "Options", "Link", "Result", "Seconds"]
PROPERTY = "program"


class Row:
    """A line of the table, kept with the test's own result."""

    def __init__(self, item):
        self.item = item

    def __call__(self, program, options="", link="eth"):
        self.cells = {"program": program, "options": options, "link": link, "result": ""}
        self.item.user_properties.append((PROPERTY, self.cells))

    def result(self, text):
        """A result in words, for a test that passes."""
        self.cells["result"] = text


def rows(stats):
    """Lines of all tests that have one, in the order in which they ran."""
    found = []
    for outcome in ("passed", "failed", "skipped", "error"):
        for test in stats.get(outcome, []):
            cells = dict(getattr(test, "user_properties", ())).get(PROPERTY)
            if cells is None or (outcome == "passed" and test.when != "call"):
                continue
            result = cells["result"] or "runs" if outcome == "passed" else outcome.upper()
            found.append([cells["program"], cells["options"], cells["link"], result, f"{test.duration:.1f}"])
    return found


def table(lines):
    """Markdown that a terminal shows well, too."""
    lines = [[cell.replace("|", "\\|") for cell in line] for line in [HEADINGS, *lines]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    lines.insert(1, ["-" * width for width in widths])
    return "".join(f"| {' | '.join(map(str.ljust, line, widths))} |\n" for line in lines)
