"""qperf's tests of RDMA. It has no option for a GID, so that on Ethernet, where every address needs one, it runs by the
connection manager alone, with which it does RC; the server is then named by an address of its card, and TCP reaches it
there, too (`hca run --pair`)."""

import re

import pytest
from cards import LIMIT_S
from pairs import ATOMIC, READ, SEND, WRITE, end, packets, run_pair

SIZE = 2048
UNITS = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "KiB": 1 << 10, "MiB": 1 << 20, "KB": 1e3, "MB": 1e6, "GB": 1e9}
BOTH = ["loc_recv_msgs", "rem_recv_msgs"]
# Test, what is on the cable for a message, and by whose count there are so many of them; a run takes a second, and
# what is posted when it ends may never be sent.
RC = {"rc_bw": (SEND, ["recv_msgs"]), "rc_bi_bw": (SEND, BOTH), "rc_lat": (SEND, BOTH),
      "rc_rdma_read_bw": (READ, ["recv_msgs"]), "rc_rdma_read_lat": (READ, ["recv_msgs"]),
      "rc_rdma_write_bw": (WRITE, ["msg_rate"]), "rc_rdma_write_lat": (WRITE, ["msg_rate"]),
      "rc_rdma_write_poll_lat": (WRITE, BOTH), "rc_fetch_add_mr": (ATOMIC, ["recv_msgs"]),
      "rc_compare_swap_mr": (ATOMIC, ["recv_msgs"]), "ver_rc_fetch_add": (ATOMIC, ["recv_msgs"]),
      "ver_rc_compare_swap": (ATOMIC, ["recv_msgs"])}
UC = {"uc_bw": (SEND, ["recv_msgs"]), "uc_bi_bw": (SEND, BOTH), "uc_lat": (SEND, BOTH),
      "uc_rdma_write_bw": (WRITE, ["msg_rate"]), "uc_rdma_write_lat": (WRITE, ["msg_rate"]),
      "uc_rdma_write_poll_lat": (WRITE, BOTH)}
UD = {"ud_bw": (SEND, ["recv_msgs"]), "ud_bi_bw": (SEND, BOTH), "ud_lat": (SEND, BOTH)}
TESTS = RC | UC | UD
# What a link needs: where the server is, and options.
WAYS = {"ib": ["localhost"], "eth": ["10.0.0.1", "-cm", 1]}
QUICK = [("ib", "rc_bw"), ("eth", "rc_rdma_read_lat")]


def cases():
    for link, tests in (("ib", TESTS), ("eth", RC)):
        for test in tests:
            yield pytest.param(link, test, marks=[pytest.mark.quick] * ((link, test) in QUICK))


def words_of(link, test, seconds=1):
    host, *more = WAYS[link]
    return ["qperf", "-to", LIMIT_S, "-t", seconds, "-m", SIZE, "-vvs", host, *more, test, "quit"]


def figures(text):
    """What qperf has printed: {"recv_msgs": 128, ...}; it rounds to three digits."""
    found = re.findall(r"^ +(\w+) += +([\d.,]+) ([KMG]?(?:iB|B)?)", text, re.MULTILINE)
    return {name: float(value.replace(",", "")) * UNITS.get(unit, 1) for name, value, unit in found}


def assert_measured(done, test):
    """Messages, as both ends have counted them."""
    assert done.returncode == 0, done
    kind, counts = TESTS[test]
    found = figures(end(done, "client"))
    messages = sum(found.get(name, 0) for name in counts)  # it leaves zeros away
    rates = ["msg_rate"] if kind == ATOMIC else ["bw", "send_bw"] if test.endswith("_bw") else ["latency"]
    if test in UD:  # of datagrams all may have found no receive
        assert max(found.get(name, 0) for name in ("send_msgs", "loc_send_msgs")) >= 1, done
    else:
        assert messages >= 1 and max(found.get(rate, 0) for rate in rates) > 0, done
    return messages


@pytest.mark.parametrize(("link", "test"), list(cases()))
def test_qperf(hca, row, tmp_path, link, test):
    row("qperf", f"{test} -m {SIZE} -t 1{' -cm 1' if link == 'eth' else ''}", link)
    capture = tmp_path / "link.pcap"
    done = run_pair(hca, ["qperf"], words_of(link, test), "--link", link, capture=capture)
    messages = assert_measured(done, test)
    kind = TESTS[test][0]
    service = test.removeprefix("ver_")[:2].upper()
    on_cable = packets(hca, capture, service)
    # A message is a packet or two, as the MTU is; each figure has three digits; who looks at memory counts one more.
    assert on_cable[kind] >= max(1, 0.99 * messages - 2), (on_cable, messages)


@pytest.mark.parametrize("link", WAYS)
@pytest.mark.parametrize("test", ["rc_bi_bw", "rc_rdma_read_bw", "rc_rdma_write_bw", "ver_rc_fetch_add"])
def test_loss(hca, row, link, test):
    row("qperf", f"{test} -m {SIZE} -t 2, 0.1 % loss", link)
    done = run_pair(hca, ["qperf"], words_of(link, test, 2), "--link", link, "--faults", "loss=0.001")
    assert_measured(done, test)


# Test: link and options, and what the client says of it.
NOT_THERE = {
    # The address of every peer is a LID: libibverbs refuses it on Ethernet, as Linux does.
    "rc_bw": ("eth", ["localhost"], "failed to modify QP to RTR: Invalid argument"),
    # The server makes an address handle of what a request for datagrams says: by its source, nothing.
    "ud_lat": ("eth", ["10.0.0.1", "-cm", 1], "failed to create address handle: Invalid argument"),
    "xrc_bw": ("ib", ["localhost"], "bad test"),  # Debian's qperf is built without it
    "rds_bw": ("ib", ["localhost"], "Address family not supported by protocol"),  # sockets of Linux' module rds
}


@pytest.mark.parametrize("test", NOT_THERE)
def test_not_there(hca, row, test):
    link, words, said = NOT_THERE[test]
    row("qperf", f"{test}{' -cm 1' if '-cm' in words else ''}", link)
    row.result(f"ends with '{said}'")
    done = run_pair(hca, ["qperf"], ["qperf", "-t", 1, *words, test, "quit"], "--link", link)
    assert done.returncode > 0 and said in done.stdout + done.stderr, done
