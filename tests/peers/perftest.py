"""perftest and the pingpongs: their words, and what a good run prints."""

import re

BANDWIDTH = ["ib_write_bw", "ib_read_bw", "ib_send_bw"]
LATENCY = ["ib_write_lat", "ib_read_lat", "ib_send_lat"]
BLURRED = "Correlation coefficient"
"""perftest has compared the processor's clock with the system's, and other work on the machine was in the way."""
READS = 16
"""That a QP of ours may have under way. perftest takes what the peer says, and rxe says 128."""
TIMEOUT = 18
"""4.096 us * 2^18: a second. Of the wall clock where the peer lives by it."""


def words(program, *options, iterations, bytes_, timeout=TIMEOUT):
    """A function of device and GID index, as pairs of ends want it."""
    gid = "-g" if "pingpong" in program else "-x"
    common = [] if "pingpong" in program else ["-F", "-u", timeout]
    common += ["-o", READS] if "read" in program or "atomic" in program else []
    size = [] if "atomic" in program else ["-s", bytes_]   # that of a word

    def of(device, index):
        return [program, "-d", device, gid, index, *common, "-n", iterations, *size, *options]

    return of


def lines(text, bytes_, iterations):
    """The line of figures for that size."""
    found = re.findall(rf"^ +{bytes_} +{iterations} +(\d.*)$", text, re.MULTILINE)
    return [list(map(float, line.split())) for line in found]


def judge(done, bytes_, iterations):
    """Fails unless both ends have ended as they should."""
    for end in done:
        assert end.code == 0, "\n".join(map(str, done))
    text = done[1].text
    if "pingpong" in done[1].words[0]:
        count = re.search(r"^(\d+) iters in", text, re.MULTILINE)
        assert count and int(count[1]) == iterations, text
        assert "invalid data" not in done[0].text + text, text
        return
    if BLURRED in text:
        return  # both ends say that all has arrived; how long it took they do not know
    figures = lines(text, bytes_, iterations)
    # Behind these four come a deviation, -nan where one value is far from all others, and tails.
    assert len(figures) == 1 and all(figure >= 0 for figure in figures[0][:4]), text
