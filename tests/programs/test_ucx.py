"""UCX over datagrams, by its own benchmark: every kind of message that its protocols know."""

import pytest

# The transport is told: between two processes of one machine UCX would take shared memory.
UCX = ["env", "UCX_TLS=ud_verbs", "UCX_NET_DEVICES=hca0:1"]
KINDS = ["tag_lat", "tag_bw", "tag_sync_lat", "tag_sync_bw", "stream_lat", "stream_bw", "ucp_am_lat", "ucp_am_bw",
         "ucp_put_lat", "ucp_put_bw", "ucp_get"]
# Of datagrams atomics are active messages, of 4 or 8 bytes.
ATOMICS = ["ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap"]
# The transport layer alone, without protocols above it.
BARE = ["am_lat", "am_bw"]


def quick(*values):
    return pytest.param(*values, marks=pytest.mark.quick)


def perftest(simulator, kind, messages, *more):
    """Both ends report; what was sent went over the cable."""
    before = simulator.sent(0, 1)
    words = [*UCX, "ucx_perftest", "-t", kind, "-n", messages, "-w", 2, *more]
    server, client = simulator.pair(words)
    assert (server.code, client.code) == (0, 0), (server, client)
    final = next(line.split() for line in client.text.splitlines() if line.startswith("Final:"))
    assert int(final[1]) == messages, client
    assert not any(word in end.text for end in (server, client) for word in ("ERROR", "WARN", "Fatal")), (server, client)
    sent = [after - past for after, past in zip(simulator.sent(0, 1), before, strict=True)]
    assert max(sent) >= messages, f"{sent} packets for {messages} messages"
    return sent


@pytest.mark.parametrize(("link", "kind", "size"), [
    *[(link, kind, size) for link in ("eth", "ib") for kind in KINDS for size in (1, 8, 3000, 20000)],
    *[(link, kind, size) for link in ("eth", "ib") for kind in ATOMICS for size in (4, 8)],
    quick("eth", "tag_lat", 64),
    quick("ib", "ucp_am_bw", 5000),
    quick("eth", "ucp_fadd", 8),
], ids=str)
def test_messages(simulators, row, link, kind, size):
    row("ucx_perftest", f"-t {kind} -s {size}, over ud_verbs", link)
    perftest(simulators(link=link), kind, 40, "-s", size)


@pytest.mark.parametrize("link", ["eth", "ib"])
@pytest.mark.parametrize("kind", BARE)
def test_transport(simulators, row, link, kind):
    row("ucx_perftest", f"-t {kind} -d hca0:1 -x ud_verbs", link)
    perftest(simulators(link=link), kind, 40, "-d", "hca0:1", "-x", "ud_verbs", "-D", "bcopy")


@pytest.mark.parametrize("index", [0, 1, 2])
def test_every_gid(simulators, row, index):
    """A17.4.5.1: UCX drops a datagram unless the completion says what network header came before it."""
    row("ucx_perftest", f"UCX_IB_GID_INDEX={index}", "eth")
    words = [*UCX, f"UCX_IB_GID_INDEX={index}", "ucx_perftest", "-t", "tag_lat", "-n", 20, "-w", 2, "-s", 64]
    for end in simulators(link="eth").pair(words):
        assert end.code == 0, end


@pytest.mark.parametrize("link", ["eth", "ib"])
@pytest.mark.parametrize("kind", ["tag_bw", "ucp_am_lat", "stream_bw"])
def test_loss(simulators, row, link, kind):
    """UCX repeats what is lost."""
    row("ucx_perftest", f"-t {kind}, 0.1 % loss", link)
    perftest(simulators(link=link, faults="loss=0.001"), kind, 300, "-s", 3000)


def test_capabilities(simulators, row):
    row("ucx_info", "-d")
    done = simulators(link="ib").run(0, "ucx_info", "-d")
    assert done.code == 0, done
    assert "Transport: ud_verbs" in done.text and "Device: hca0:1" in done.text, done
