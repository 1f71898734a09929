"""A rank of one of OSU's benchmarks, as mpi4py's demos have them, with fewer repetitions than they take by default:
FOLDER NAME."""

import importlib
import inspect
import sys

FEW = {"MAX_MSG_SIZE": 1 << 14} | {f"{name}{size}": count for size in ("", "_small", "_large")
                                   for name, count in (("skip", 1), ("loop", 3), ("window_size", 8))}


def main(folder, name):
    sys.path.insert(0, folder)
    benchmark = getattr(importlib.import_module(name), name)
    benchmark(**{word: value for word, value in FEW.items() if word in inspect.signature(benchmark).parameters})


main(*sys.argv[1:])
