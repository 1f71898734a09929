"""UCX over connections and over datagrams, by its own benchmark: every kind of message that its protocols know."""

import pytest

# The transport is told: between two processes of one machine UCX would take shared memory.
TRANSPORTS = {"rc": "rc_verbs,ud_verbs:aux", "ud": "ud_verbs"}
KINDS = ["tag_lat", "tag_bw", "tag_sync_lat", "tag_sync_bw", "stream_lat", "stream_bw", "ucp_am_lat", "ucp_am_bw",
         "ucp_put_lat", "ucp_put_bw", "ucp_get"]
# By active messages, of 4 or 8 bytes: the transports that are told here have no atomics of memory.
ATOMICS = ["ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap"]
# The transport layer alone, without protocols above it.
BARE = ["am_lat", "am_bw"]


def quick(*values):
    return pytest.param(*values, marks=pytest.mark.quick)


def ucx(transport):
    return ["env", f"UCX_TLS={TRANSPORTS[transport]}", "UCX_NET_DEVICES=hca0:1"]


def perftest(simulator, transport, kind, messages, *more):
    """Both ends report; what was sent went over the cable."""
    before = simulator.sent(0, 1)
    words = [*ucx(transport), "ucx_perftest", "-t", kind, "-n", messages, "-w", 2, *more]
    server, client = simulator.pair(words)
    assert (server.code, client.code) == (0, 0), (server, client)
    final = next(line.split() for line in client.text.splitlines() if line.startswith("Final:"))
    assert int(final[1]) == messages, client
    for end in (server, client):
        assert not any(word in end.text for word in ("ERROR", "WARN", "Fatal")), end
    sent = [after - past for after, past in zip(simulator.sent(0, 1), before, strict=True)]
    assert max(sent) >= messages, f"{sent} packets for {messages} messages"
    return sent


@pytest.mark.parametrize(("link", "transport", "kind", "size"), [
    *[(link, transport, kind, size) for link in ("eth", "ib") for transport in TRANSPORTS for kind in KINDS
      for size in (8, 3000, 20000)],
    *[(link, transport, kind, size) for link in ("eth", "ib") for transport in TRANSPORTS for kind in ATOMICS
      for size in (4, 8)],
    quick("eth", "rc", "tag_lat", 64),
    quick("ib", "rc", "ucp_put_bw", 20000),
    quick("ib", "ud", "ucp_am_bw", 5000),
    quick("eth", "ud", "ucp_fadd", 8),
], ids=str)
def test_messages(simulators, row, link, transport, kind, size):
    row("ucx_perftest", f"-t {kind} -s {size}, over {transport}_verbs", link)
    perftest(simulators(link=link), transport, kind, 20, "-s", size)


@pytest.mark.parametrize("link", ["eth", "ib"])
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("kind", BARE)
def test_transport(simulators, row, link, transport, kind):
    row("ucx_perftest", f"-t {kind} -d hca0:1 -x {transport}_verbs", link)
    perftest(simulators(link=link), transport, kind, 40, "-d", "hca0:1", "-x", f"{transport}_verbs", "-D", "bcopy")


@pytest.mark.parametrize("index", [0, 1, 2])
def test_every_gid(simulators, row, index):
    """A17.4.5.1: UCX drops a datagram unless the completion says what network header came before it."""
    row("ucx_perftest", f"UCX_IB_GID_INDEX={index}", "eth")
    words = [*ucx("ud"), f"UCX_IB_GID_INDEX={index}", "ucx_perftest", "-t", "tag_lat", "-n", 20, "-w", 2, "-s", 64]
    for end in simulators(link="eth").pair(words):
        assert end.code == 0, end


@pytest.mark.parametrize("link", ["eth", "ib"])
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("kind", ["tag_bw", "ucp_am_lat", "stream_bw"])
def test_loss(simulators, row, link, transport, kind):
    """The card repeats what is lost of connections, UCX what is lost of datagrams."""
    row("ucx_perftest", f"-t {kind}, 0.1 % loss, over {transport}_verbs", link)
    perftest(simulators(link=link, faults="loss=0.001"), transport, kind, 300, "-s", 3000)


def test_capabilities(simulators, row):
    row("ucx_info", "-d")
    done = simulators(link="ib").run(0, "ucx_info", "-d")
    assert done.code == 0, done
    for found in ("Transport: rc_verbs", "Transport: ud_verbs", "Device: hca0:1"):
        assert found in done.text and "failed to open" not in done.text, done
