"""What each test of a program has shown last, when and of which commit: results.json, a line per test. Runs of a part
(make programs ARGS="-k rping --write-docs") add up there; the table of docs/programs.md is made of it."""

import datetime
import fcntl
import json
import subprocess
from pathlib import Path

import report

HERE = Path(__file__).resolve().parent
PATH = HERE / "results.json"
OWN_TABLES = "pyverbs"  # these cases have tables of their own


def commit(root):
    """The commit that is tested, with a + where sources differ from it."""
    def git(*words):
        return subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False).stdout

    changed = [line for line in git("status", "--porcelain", "-uno").splitlines()
               if not line.endswith(("/results.json", ".md"))]
    return git("rev-parse", "--short=9", "HEAD").strip() + ("+" if changed else "")


def load():
    """{test: its line}."""
    if not PATH.is_file():
        return {}
    return {line["test"]: line for line in json.loads(PATH.read_text(encoding="utf-8") or "[]")}


def change(how):
    """The lines as `how` makes them of those that are kept, alone among all runs in this checkout."""
    with PATH.open("a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        lines = how(load())
        text = ",\n".join(json.dumps(lines[test], ensure_ascii=False) for test in sorted(lines))
        file.truncate(0)
        file.write(f"[\n{text}\n]\n")
    return lines


def name_of(nodeid):
    return nodeid.split("tests/programs/")[-1]


def line_of(test, of):
    """The line of a test that has ended, None where it has none: `test` is pytest's report of it."""
    found = report.rows({test.outcome: [test]})
    if not found or found[0][0]["program"] == OWN_TABLES:
        return None
    [(cells, outcome, _)] = found
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    return {"test": name_of(test.nodeid), "program": cells["program"], "options": cells["options"],
            "link": cells["link"], "result": report.result(cells, outcome), "date": today, "commit": of}


def without(lines, gone):
    """Without the lines of tests that there are no more: `gone` says of a test's name whether it is gone."""
    return {test: line for test, line in lines.items() if not gone(test)}


def summary(lines):
    """Programs and results, with all options and links that gave them, and the oldest run of those:
    [[program, link, options, result, run]]."""
    links = {}
    for test in sorted(lines):
        line = lines[test]
        links.setdefault((line["program"], line["result"], line["options"]), []).append(line)
    options = {}
    for (program, result, option), found in links.items():
        where = ", ".join(sorted({line["link"] for line in found}))
        words, ran = options.setdefault((program, where, result), ([], []))
        words.append(f"`{option}`" if option else "none")
        ran.append(min(f"{line['date']}, {line['commit']}" for line in found))
    lines = [[f"`{program}`", where, "; ".join(words), result, min(ran)]
             for (program, where, result), (words, ran) in options.items()]
    return sorted(lines, key=lambda line: (line[0].lower(), line[3] != "runs", line[1]))


def told(lines):
    """What must be the same in every run."""
    return {test: (line["program"], line["options"], line["link"], line["result"]) for test, line in lines.items()}
