"""perftest's programs over RC."""

import re

import pytest

GID = {"eth": ["-x", 1], "ib": []}
BANDWIDTH = ["ib_write_bw", "ib_read_bw", "ib_send_bw"]
LATENCY = ["ib_write_lat", "ib_read_lat", "ib_send_lat"]
ALL_PROGRAMS = BANDWIDTH + LATENCY
ALL_SIZES = [1 << log for log in range(1, 24)]
MTU = 4096
UNKNOWN = "Device not recognized to implement inline feature"
NUMBER = r"\s+([\d.]+)"
# bytes, iterations, and at least two figures: bandwidths and rate, or latencies
ROW = re.compile(rf"^\s*(\d+)\s+(\d+){NUMBER}{NUMBER}", re.MULTILINE)


def option(words, name, default):
    return int(words[words.index(name) + 1]) if name in words else default


def results(done):
    """[(bytes, iterations, [two figures])], as printed."""
    return [(int(size), int(iters), [float(figure) for figure in figures]) for size, iters, *figures
            in ROW.findall(done.text)]


def assert_measured(ends, program, words):
    """Both ends end well; the client has measured every size it was asked for."""
    for done in ends:
        assert done.code == 0, done
    shown = results(ends[1])
    default = 8 if "atomic" in program else 65536 if program.endswith("_bw") else 2
    sizes = ALL_SIZES if "-a" in words else [option(words, "-s", default)]
    assert [size for size, _, _ in shown] == sizes, ends[1]
    for size, iters, figures in shown:
        if "-D" in words:
            assert iters > 0, ends[1]
        else:
            assert iters == option(words, "-n", 0) * option(words, "-q", 1), ends[1]
        # A slow card's bandwidth may round to 0.00 for the smallest sizes.
        assert figures[-1] > 0 or program.endswith("_bw") and size <= 64, ends[1]
    return sum(-(-size // MTU) * iters for size, iters, _ in shown)


def data_packets_by(program, words, packets):
    """Packets of data that server and client must send for so many of the client's."""
    if program.endswith("_lat") and "read" not in program or "atomic" in program or "-b" in words:
        return [packets, packets]
    return [packets, 0] if "read" in program else [0, packets]


def measure(sim, link, program, words, cards=(0, 1)):
    before = sim.sent(*cards)
    ends = sim.pair([program, *GID[link], *words], cards=cards)
    wanted = data_packets_by(program, words, assert_measured(ends, program, words))
    for after, past, least in zip(sim.sent(*cards), before, wanted, strict=True):
        assert after - past >= least, f"{after - past} packets, at least {least} for {program} {words}"
    return ends


FEW = {"bw": ["-n", 20, "-s", 65536], "lat": ["-n", 50]}
QUEUES = ["-q", 8, "-n", 10, "-s", 8192]
BOTH_WAYS = ["-b", *FEW["bw"]]
INLINE = ["-I", 64, "-n", 20, "-s", 48]
DURATION = ["-D", 2, "-f", 0, "-s", 4096]
EVERY_SIZE = ["-n", 5, "-a"]
# One of each kind.
QUICK = [("ib_write_bw", QUEUES, "eth"), ("ib_write_bw", DURATION, "eth"), ("ib_read_bw", BOTH_WAYS, "ib"),
         ("ib_send_bw", ["-e", *FEW["bw"]], "eth"), ("ib_write_lat", INLINE, "eth"), ("ib_read_lat", FEW["lat"], "ib"),
         ("ib_send_lat", FEW["lat"], "eth")]


def options_of(program):
    few = FEW[program.rpartition("_")[2]]
    options = [few, EVERY_SIZE, DURATION, [*few, "-m", 1024]]
    if program in BANDWIDTH:
        options += [QUEUES, BOTH_WAYS, ["-l", 8, "-n", 64, "-s", 1024]]
    if "write" not in program:
        options.append(["-e", *few])
    if "read" not in program:
        options.append(INLINE)
    return options


def cases():
    """Each program with each option that it has, on both links."""
    for program in ALL_PROGRAMS:
        for link in GID:
            for words in options_of(program):
                mark = [pytest.mark.quick] if (program, words, link) in QUICK else []
                name = f"{program}-{link}-{''.join(map(str, words))}"
                yield pytest.param(link, program, words, id=name, marks=mark)


@pytest.mark.parametrize(("link", "program", "words"), list(cases()))
def test_perftest(simulators, row, link, program, words):
    row(program, " ".join(map(str, words)), link)
    ends = measure(simulators(link=link), link, program, words)
    if "-I" in words and UNKNOWN in ends[1].text:
        row.result("runs without inline data: perftest allows it for the devices that it knows")
