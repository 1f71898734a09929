"""perftest's atomics: both operations, both links."""

import pytest
from test_perftest import GID, measure

OPERATIONS = ["FETCH_AND_ADD", "CMP_AND_SWAP"]
QUICK = [("eth", "ib_atomic_bw", "FETCH_AND_ADD", ["-n", 100]), ("ib", "ib_atomic_lat", "CMP_AND_SWAP", ["-n", 50])]


def cases():
    """Every option that matters here, each with both operations, on both links."""
    for link in GID:
        for operation in OPERATIONS:
            for program, words in [
                *[("ib_atomic_bw", ["-n", 100, *more]) for more in
                  ([], ["-b"], ["-q", 4], ["-o", 1], ["-o", 16], ["-e"], ["-m", 512])],
                ("ib_atomic_bw", ["-D", 2, "-f", 0]),
                *[("ib_atomic_lat", ["-n", 50, *more]) for more in ([], ["-e"])],
            ]:
                mark = [pytest.mark.quick] if (link, program, operation, words) in QUICK else []
                name = f"{program}-{link}-{operation}-{''.join(map(str, words))}"
                yield pytest.param(link, program, ["-A", operation, *words], id=name, marks=mark)


@pytest.mark.parametrize(("link", "program", "words"), list(cases()))
def test_atomics(simulators, row, link, program, words):
    row(program, " ".join(map(str, words)), link)
    measure(simulators(link=link), link, program, words)
