"""Examples of Rust crates for libibverbs, as the crates have them."""

import pytest
from pairs import SEND, end, packets, run_pair
from test_readers import PROGRAMS

SIZE = 5000
ITERS = 20


@pytest.fixture(scope="session")
def examples():
    path = PROGRAMS / "bin"
    if not path.is_dir():
        pytest.skip("the examples are not in .tools/programs: see scripts/setup-programs.sh")
    return path


def test_loopback(sim, row, examples):
    """The crate ibverbs: a QP connected with itself; the example compares the bytes."""
    row("loopback of the crate ibverbs")
    done = sim.run(0, examples / "loopback")
    assert done.code == 0 and sorted(done.text.split()) == ["received", "sent"], done


def test_rc_pingpong(hca, row, tmp_path, examples):
    """The crate sideway: it opens libibverbs by name when it runs. It tells its peer no LID: RoCE only."""
    words = [examples / "rc_pingpong", "-g", 1, "-n", ITERS, "-s", SIZE]
    row("rc_pingpong of the crate sideway", f"-g 1 -n {ITERS} -s {SIZE}")
    capture = tmp_path / "link.pcap"
    done = run_pair(hca, words, [*words, "127.0.0.1"], capture=capture)
    assert done.returncode == 0, done
    for name in ("server", "client"):
        text = end(done, name)
        assert f"{2 * SIZE * ITERS} bytes in " in text and f"{ITERS} iters in " in text, done
    # 5 packets of the MTU of 1024 bytes each way.
    assert packets(hca, capture)[SEND] >= 2 * ITERS * -(-SIZE // 1024)
