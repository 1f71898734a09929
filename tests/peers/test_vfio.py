"""Two cards of a guest, bound to vfio-pci behind a vIOMMU: programs of others, our library, the kernel's VFIO."""

import re

import perftest
import pytest
import vfio

GIB = 1 << 30


@pytest.fixture(scope="module")
def slots(boot, hca):
    sim = vfio.two_cards(hca)
    slots = vfio.Slots(boot, "slots", [sim.sockets / "card0.0", sim.sockets / "card1.0"], memory_mib=3072)
    yield slots
    slots.guest.stop()
    sim.stop()


def run_pair(slots, program, *options, iterations, bytes_):
    of = perftest.words(program, *options, iterations=iterations, bytes_=bytes_)
    done = slots.pair(of("hca0", 1))
    perftest.judge(done, bytes_, iterations)
    return done


@pytest.mark.quick
def test_devinfo(slots, row):
    row("ibv_devinfo", "-v", "vfio")
    done = slots.run("ibv_devinfo", "-v")
    assert done.code == 0 and re.findall(r"hca_id:\s+(\S+)", done.text) == ["hca0", "hca1"], done
    assert re.findall(r"\tstate:\s+(\w+)", done.text) == ["PORT_ACTIVE"] * 2, done


def test_one_card_is_named(slots, row):
    row("ibv_devices", "HCA_VFIO=0000:02:00.0", "vfio")
    listed = slots.run("ibv_devices", card=1).text
    assert re.findall(r"^\s+(hca\d)\s+00000afffe000002$", listed, re.MULTILINE) == ["hca0"], listed


@pytest.mark.quick
def test_lspci(slots, row):
    row("lspci -vv", "", "vfio")
    for address in slots.addresses:
        text = slots.guest.check(f"lspci -vv -s {address}")
        assert "Kernel driver in use: vfio-pci" in text and "Infiniband controller" in text, text
        for capability in ("Express (v2) Endpoint", "MSI-X: Enable", "Power Management version 3", "FLReset+"):
            assert capability in text, f"{capability}: {text}"
        assert "!!!" not in text and "unknown" not in text.lower(), text


@pytest.mark.quick
@pytest.mark.parametrize("options", [["-c"], ["-c", "-e"]], ids=["polling", "events"])
def test_rc_pingpong(slots, row, options):
    row("ibv_rc_pingpong", " ".join(options), "vfio <-> vfio")
    run_pair(slots, "ibv_rc_pingpong", *options, iterations=100, bytes_=4096)


@pytest.mark.parametrize("bytes_", [1, 4095, 65536, 1 << 20])
def test_rc_pingpong_of_sizes(slots, row, bytes_):
    row("ibv_rc_pingpong", f"-c -s {bytes_}", "vfio <-> vfio")
    run_pair(slots, "ibv_rc_pingpong", "-c", iterations=3, bytes_=bytes_)


@pytest.mark.parametrize("program", [pytest.param("ib_write_bw", marks=pytest.mark.quick), *perftest.BANDWIDTH[1:]])
def test_bandwidth(slots, row, program):
    row(program, "-s 65536", "vfio <-> vfio")
    run_pair(slots, program, iterations=20, bytes_=65536)


@pytest.mark.parametrize("program", perftest.LATENCY)
def test_latency(slots, row, program):
    row(program, "-s 64", "vfio <-> vfio")
    run_pair(slots, program, iterations=20, bytes_=64)


@pytest.mark.parametrize("options", [["-q", "4"], ["-b"], ["-e"]], ids=["4 QPs", "both ways", "events"])
def test_bandwidth_options(slots, row, options):
    row("ib_send_bw", " ".join(options), "vfio <-> vfio")
    of = perftest.words("ib_send_bw", *options, iterations=20, bytes_=4096)
    done = slots.pair(of("hca0", 1))
    perftest.judge(done, 4096, 20 * 4 if "-q" in options else 20)


def test_one_gib_registered(slots, row):
    row("hca-parity", "1 GiB registered at both ends", "vfio <-> vfio")
    done = slots.run("hca-parity", "--only", "region_of_many_megabytes", "--region", GIB, *slots.addresses, limit_s=300)
    assert done.code == 0 and "1 of 1 passed" in done.text, done


def test_parity(slots, row):
    row("hca-parity", "the same list of system tests over every way to a card", "vfio <-> vfio")
    names = slots.run("hca-parity", "--list").text.split()
    done = slots.run("hca-parity", *slots.addresses, limit_s=300)
    assert done.code == 0, done
    assert re.findall(r"^ok (\S+)", done.text, re.MULTILINE) == names and len(names) >= 20, done
    row.result(f"{len(names)} of {len(names)} tests pass")


def test_a_program_forks(slots, row):
    """Pages that the card reads and writes stay the parent's; a child has a copy of its own."""
    row("fork_child", "registered memory, before and after a fork", "vfio")
    done = slots.run("fork_child", "-d", "hca0", "-x", 1, card=0, before=f"PATH=$PATH:/{vfio.OURS}/own;")
    assert (done.code, done.text) == (0, "forked\n"), done


def test_a_card_has_one_owner(slots, row):
    """A function in a slot is a device of its own; a second program that wants it is told who has it."""
    row("ibv_asyncwatch", "a second program on the same card", "vfio")
    first = slots.start(["ibv_asyncwatch"], card=0)
    first.prints("async event FD")
    second = slots.run("ibv_asyncwatch", card=0, before="export IBV_SHOW_WARNINGS=1;")
    assert second.code == 1 and "is in use by another process" in second.text, second
    first.kill()
    assert slots.run("ibv_devinfo", card=0).code == 0
    row.result("refused: the group is in use")
