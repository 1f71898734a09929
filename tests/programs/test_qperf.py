"""qperf's tests over RC. They choose no GID: on Ethernet qperf needs librdmacm."""

import re

import pytest
from pairs import ATOMIC, READ, SEND, WRITE, end, packets, run_pair

SIZE = 4096
UNITS = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "KiB": 1 << 10, "MiB": 1 << 20, "KB": 1e3, "MB": 1e6, "GB": 1e9}
# Test, what is on the cable for a message, and by whose count there are so many of them; a run takes a second, and
# what is posted when it ends may never be sent.
TESTS = {"rc_bw": (SEND, ["recv_msgs"]), "rc_bi_bw": (SEND, ["loc_recv_msgs", "rem_recv_msgs"]),
         "rc_lat": (SEND, ["loc_recv_msgs", "rem_recv_msgs"]), "rc_rdma_read_bw": (READ, ["recv_msgs"]),
         "rc_rdma_read_lat": (READ, ["recv_msgs"]), "rc_rdma_write_bw": (WRITE, ["msg_rate"]),
         "rc_rdma_write_lat": (WRITE, ["msg_rate"]),
         "rc_rdma_write_poll_lat": (WRITE, ["loc_recv_msgs", "rem_recv_msgs"]),
         "rc_fetch_add_mr": (ATOMIC, ["recv_msgs"]), "rc_compare_swap_mr": (ATOMIC, ["recv_msgs"]),
         "ver_rc_fetch_add": (ATOMIC, ["recv_msgs"]), "ver_rc_compare_swap": (ATOMIC, ["recv_msgs"])}


def quick(test):
    return pytest.param(test, marks=[pytest.mark.quick] if test in ("rc_bw", "rc_rdma_read_lat") else [])


def figures(text):
    """What qperf has printed: {"recv_msgs": 128, ...}; it rounds to three digits."""
    found = re.findall(r"^ +(\w+) += +([\d.,]+) ([KMG]?(?:iB|B)?)", text, re.MULTILINE)
    return {name: float(value.replace(",", "")) * UNITS.get(unit, 1) for name, value, unit in found}


@pytest.mark.parametrize("test", [quick(test) for test in TESTS])
def test_qperf(hca, row, tmp_path, test):
    row("qperf", f"{test} -m {SIZE} -t 1", "ib")
    capture = tmp_path / "link.pcap"
    done = run_pair(hca, ["qperf"], ["qperf", "-t", 1, "-m", SIZE, "-vvs", "localhost", test, "quit"], "--link", "ib",
                    capture=capture)
    assert done.returncode == 0, done
    kind, counts = TESTS[test]
    found = figures(end(done, "client"))
    messages = sum(found[name] for name in counts)
    figure = "msg_rate" if kind == ATOMIC else "bw" if test.endswith("_bw") else "latency"
    assert messages >= 1 and found[figure] > 0, done
    on_cable = packets(hca, capture)
    # A message is a packet or two, as the MTU is; each figure has three digits.
    assert on_cable[kind] >= 0.99 * messages, (on_cable, found)


def test_on_ethernet(hca, row):
    row("qperf", "rc_bw")
    row.result("ends with 'failed to modify QP to RTR: Invalid argument'")
    done = run_pair(hca, ["qperf"], ["qperf", "-t", 1, "localhost", "rc_bw", "quit"])
    assert done.returncode > 0 and "failed to modify QP to RTR: Invalid argument" in done.stdout + done.stderr, done
