"""What the tests of this folder share: the program, and a slow thing done once."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
if not TARGET.is_absolute():
    TARGET = ROOT / TARGET
HCA = TARGET / "release" / "hca"


def run(*words: object, code: int | None = 0, **options) -> subprocess.CompletedProcess:
    """Runs a program to its end and checks its exit code."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300, **options)
    assert code is None or done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="session")
def hca() -> Path:
    assert HCA.exists(), f"no {HCA}: make hca"
    return HCA
