"""libfabric's verbs provider: what it finds, and its ping-pong over each kind of endpoint."""

import pytest
from cards import free_port, listens

ENDPOINTS = ["msg", "dgram", "rdm"]


def quick(*values):
    return pytest.param(*values, marks=pytest.mark.quick)


@pytest.mark.parametrize("link", ["eth", "ib"])
def test_info(simulators, row, link):
    row("fi_info", "-p verbs", link)
    done = simulators(link=link).run(0, "fi_info", "-p", "verbs")
    assert done.code == 0, done
    for found in ("domain: hca0\n", "domain: hca0-dgram", "FI_PROTO_RDMA_CM_IB_RC", "FI_PROTO_IB_UD", "FI_PROTO_RXM"):
        assert found in done.text, done


def pingpong(simulator, kind, size, turns):
    """Both ends compare what they get (-c) and say how much that was."""
    port = free_port()
    domain = "hca0-dgram" if kind == "dgram" else "hca0"
    words = ["fi_pingpong", "-p", "verbs", "-d", domain, "-e", kind, "-I", turns, "-S", size, "-c"]
    server = simulator.start(0, *words, "-B", port)
    server.wait_until(lambda: listens(port), f"it listened on port {port}")
    client = simulator.start(1, *words, "-P", port, "localhost")
    for done in (client.done(), server.done()):
        assert done.code == 0, done
        lines = [line.split() for line in done.text.splitlines() if line[:1].isdigit()]
        assert lines and all(line[1:3] == [str(turns), f"={turns}"] for line in lines), done
        assert "error" not in done.text.lower(), done


@pytest.mark.parametrize(("link", "kind", "size"), [
    *[(link, kind, size) for link in ("eth", "ib") for kind in ENDPOINTS for size in (1, 64, 1024, 4000, 65536, "all")
      if (kind, size) != ("dgram", 65536)],
    quick("eth", "msg", 65536),
    quick("ib", "rdm", 4000),
    quick("eth", "dgram", 1024),
], ids=str)
def test_pingpong(simulators, row, link, kind, size):
    row("fi_pingpong", f"-p verbs -e {kind} -S {size} -c", link)
    pingpong(simulators(link=link), kind, size, 10)


@pytest.mark.parametrize("link", ["eth", "ib"])
@pytest.mark.parametrize("kind", ["msg", "rdm"])  # nobody repeats datagrams
def test_loss(simulators, row, link, kind):
    row("fi_pingpong", f"-p verbs -e {kind} -S 65536 -c, 0.1 % loss", link)
    pingpong(simulators(link=link, faults="loss=0.001"), kind, 65536, 20)
