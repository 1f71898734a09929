"""ibv_rc_pingpong: `-c` makes it look at every byte that it has received. Its ends tell each other their LIDs, QPNs and
GIDs through a socket: no administrator is asked (MGMT-12)."""

import pytest

ITERS = 1000  # its default
SIZE = 4096
GID = {"eth": ["-g", 1], "ib": []}  # an Ethernet port must send with a GID


def quick(*values):
    return pytest.param(*values, marks=pytest.mark.quick)


def option(words, name, default):
    return int(words[words.index(name) + 1]) if name in words else default


def assert_exchanged(ends, words):
    """Both ends say that all messages went there and back, and none says that a byte is wrong."""
    size, iters = option(words, "-s", SIZE), option(words, "-n", ITERS)
    for done in ends:
        assert done.code == 0 and "invalid data" not in done.text, done
        assert f"{2 * size * iters} bytes in " in done.text and f"{iters} iters in " in done.text, done


def packets(words):
    """At least so many packets of data each end must send."""
    size, iters = option(words, "-s", SIZE), option(words, "-n", ITERS)
    return iters * -(-size // option(words, "-m", 1024))


def pingpong(sim, link, words, cards=(0, 1)):
    before = sim.sent(*cards)
    ends = sim.pair(["ibv_rc_pingpong", *GID[link], *words], cards=cards)
    assert_exchanged(ends, words)
    sent = [after - past for after, past in zip(sim.sent(*cards), before, strict=True)]
    assert min(sent) >= packets(words), f"{sent} packets on the cable for {words}"


CASES = [
    ("eth", ["-c"]),
    ("eth", ["-c", "-e"]),
    ("eth", ["-c", "-n", 1000, "-s", 64]),
    ("eth", ["-c", "-n", 10, "-s", 1 << 20, "-m", 4096]),
    ("eth", ["-c", "-n", 100, "-t"]),
    ("eth", ["-c", "-n", 100, "-N"]),
    ("eth", ["-c", "-n", 100, "-N", "-t", "-e"]),
    ("ib", ["-c"]),
    ("ib", ["-c", "-e"]),
    ("ib", ["-c", "-n", 10, "-s", 1 << 20]),
    ("ib", ["-c", "-n", 100, "-g", 0]),
    *[(link, ["-c", "-n", 50, "-s", 5000, "-m", mtu]) for link in GID for mtu in (256, 512, 1024, 2048, 4096)],
    ("ib", ["-c", "-n", 50, "-s", 20000, "-j"]),
    quick("eth", ["-c", "-n", 50, "-j"]),  # from and to device memory
    quick("eth", ["-c", "-n", 200]),
    quick("eth", ["-c", "-n", 50, "-e"]),
    quick("eth", ["-c", "-n", 50, "-s", 32]),  # it sends inline what the QP can take
    quick("eth", ["-c", "-n", 3, "-s", 1 << 17, "-m", 256]),
    quick("ib", ["-c", "-n", 20, "-s", 5000, "-m", 4096]),
]


@pytest.mark.parametrize(("link", "words"), CASES, ids=lambda value: "".join(map(str, value)))
def test_pingpong(simulators, row, link, words):
    row("ibv_rc_pingpong", " ".join(map(str, words)), link)
    pingpong(simulators(link=link), link, words)


def test_ten_times_in_a_row(simulators, row):
    row("ibv_rc_pingpong", "-c, ten times in a row")
    for _ in range(10):
        pingpong(simulators(), "eth", ["-c", "-n", 50])


@pytest.mark.quick
def test_two_pairs_on_four_cards(simulators, row):
    row("ibv_rc_pingpong", "-c, two pairs at once on four cards")
    sim = simulators(cards=4)
    words = ["-c", "-n", 100]
    pairs = [sim.start_pair(["ibv_rc_pingpong", *GID["eth"], *words], cards=cards) for cards in ((0, 1), (2, 3))]
    for pair in pairs:
        assert_exchanged([program.done() for program in pair], words)
    assert min(sim.sent(0, 1, 2, 3)) >= packets(words)


def test_loss(simulators, row):
    """One packet of a thousand is lost on the cable: all arrives, and right."""
    row("ibv_rc_pingpong", "-c, 0.1 % loss")
    sim = simulators(faults="loss=0.001")
    pingpong(sim, "eth", ["-c", "-n", 100, "-s", 32768])
    assert sum(card["ports"][0]["retransmitted_packets"] for card in sim.info()) > 0, "nothing was lost"
