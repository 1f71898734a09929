"""Examples of Rust crates for libibverbs, as the crates have them."""

import re

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


@pytest.mark.parametrize("faults", [(), ("--faults", "loss=0.001")])
def test_rc_pingpong(hca, row, tmp_path, examples, faults):
    """The crate sideway: it opens libibverbs by name when it runs. It tells its peer no LID: RoCE only."""
    words = [examples / "rc_pingpong", "-g", 1, "-n", ITERS, "-s", SIZE]
    row("rc_pingpong of the crate sideway", f"-g 1 -n {ITERS} -s {SIZE}{', 0.1 % loss' if faults else ''}")
    capture = tmp_path / "link.pcap"
    done = run_pair(hca, words, [*words, "127.0.0.1"], *faults, capture=capture)
    assert done.returncode == 0, done
    for name in ("server", "client"):
        text = end(done, name)
        assert f"{2 * SIZE * ITERS} bytes in " in text and f"{ITERS} iters in " in text, done
    # 5 packets of the MTU of 1024 bytes each way.
    assert packets(hca, capture)[SEND] >= 2 * ITERS * -(-SIZE // 1024)


def test_async_rdma(sim, row, examples):
    """The crate async-rdma: server and client in one process, requests by SEND and by WRITE, answers by READ."""
    row("rpc of the crate async-rdma")
    done = sim.run(0, examples / "rpc")
    assert done.code == 0 and re.findall(r"^response: (\w+)", done.text, re.MULTILINE) == ["hello", "world"], done


@pytest.mark.parametrize("faults", [(), ("--faults", "loss=0.001")])
def test_async_rdma_by_addresses(hca, row, examples, faults):
    row("cm_server, cm_client of the crate async-rdma", "0.1 % loss" if faults else "")
    done = run_pair(hca, [examples / "cm_server"], [examples / "cm_client", "10.0.0.1", 7471], *faults)
    assert done.returncode == 0, done
    for name, said in (("server", "recv : "), ("client", "recv: ")):
        assert said + str([1] * 16) in end(done, name), done


def test_async_rdma_takes_soft_roce_for_granted(hca, row, examples):
    """With immediate data it wants wc_flags to be 3, as soft-RoCE has them (set_imm_flag_in_wc); a card has
    IBV_WC_WITH_IMM alone, which is 2."""
    row("server, client of the crate async-rdma")
    row.result("ends with 'called `Option::unwrap()` on a `None` value': it takes wc_flags of soft-RoCE for granted")
    done = run_pair(hca, [examples / "server"], [examples / "client"])
    # What came by SEND, and by SEND with immediate data.
    assert done.returncode != 0 and end(done, "server").count(str([1] * 8)) == 2, done
    assert "called `Option::unwrap()` on a `None` value" in done.stdout + done.stderr, done
