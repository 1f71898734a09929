"""The card and Linux's soft-RoCE connect by the connection manager, each in both roles: CM-*, and Debian's programs."""

import re

import perftest
import pytest
from rxe import CARD_ADDRESSES, ROLES, RXE_ADDRESSES, awaits_connections, ends

COUNT = 5
BYTES = 4096


def rping(name, server, _):
    return ["rping", f"-{name[0]}", "-a", server, "-C", COUNT, "-v"]


def rdma_server_client(name, server, _):
    return ["rdma_server"] if name == "server" else ["rdma_client", "-s", server]


def cmatose(name, server, client):
    return ["ucmatose", "-b", server] if name == "server" else ["ucmatose", "-s", server, "-b", client]


def many_cmatose(name, server, client):
    return [*cmatose(name, server, client), "-c", 5, "-C", 20, "-S", 100]


def daddy(name, server, client):
    return ["udaddy", "-b", server] if name == "server" else ["udaddy", "-s", server, "-b", client]


# CM-5, CM-6, CM-42: what both ends must say.
PROGRAMS = {
    "rdma_server, rdma_client": (rdma_server_client, "end 0"),
    "ucmatose": (cmatose, "return status 0"),
    "ucmatose -c 5 -C 20 -S 100": (many_cmatose, "return status 0"),
    "udaddy": (daddy, "return status 0"),
}


def check_rping(done):
    assert [end.code for end in done] == [0, 0], done
    for end, said in zip(done, ("server ping data", "ping data")):
        found = re.findall(rf"^{said}: rdma-ping-(\d+)", end.text, re.MULTILINE)
        assert found == [str(n) for n in range(COUNT)], done
    # The client may go before its thread has told.
    assert "DISCONNECT EVENT" in done[0].text, done


@pytest.mark.quick
@pytest.mark.parametrize("server", ROLES)
def test_rping(cable, row, server):
    row("rping", f"-C {COUNT} -v", ends(server))
    check_rping(cable.run_connected(rping, server))


@pytest.mark.parametrize("server", ROLES)
def test_rping_ipv6(cable, row, server):
    row("rping", f"-C {COUNT} -v, IPv6", ends(server))
    check_rping(cable.run_connected(rping, server, kind="IPv6"))


@pytest.mark.parametrize("server", ROLES)
def test_rping_ten_times_with_loss(rxe, row, server):
    row("rping", f"-C {COUNT} -v, 1 % loss, ten times", ends(server))
    rxe.plug(faults="loss=0.01")
    for _ in range(10):
        check_rping(rxe.run_connected(rping, server))
    rxe.end_all()


@pytest.mark.parametrize("server", ROLES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(cable, row, name, server):
    words, said = PROGRAMS[name]
    row(name, "", ends(server))
    done = cable.run_connected(words, server)
    assert [end.code for end in done] == [0, 0] and all(said in end.text for end in done), done


@pytest.mark.parametrize("server", ROLES)
@pytest.mark.parametrize("program", [*perftest.BANDWIDTH, *perftest.LATENCY])
def test_perftest(cable, row, program, server):
    def words(name, address, _):
        return [program, "-R", "-F", "-s", BYTES, "-n", 20, *([address] if name == "client" else [])]

    row(program, f"-R -s {BYTES}", ends(server))
    perftest.judge(cable.run_connected(words, server), BYTES, 20)


def test_nobody_listens(cable, row):
    """REJ with reason 8, invalid service ID, from the kernel. A card answers while a program has it open."""
    row("rping -c", "nobody listens", ends("rxe"))
    done = cable.sim.run(0, "rping", "-c", "-a", RXE_ADDRESSES["IPv4"], "-C", 1, "-p", 7999)
    assert done.code != 0 and "RDMA_CM_EVENT_REJECTED, error 8" in done.text, done


def test_nobody_listens_on_the_card(cable, row):
    row("rping -c", "nobody listens", ends("card"))
    first = cable.sim.start(0, *map(str, rping("server", CARD_ADDRESSES["IPv4"], None)))
    first.wait_until(lambda: awaits_connections(first.pid), "it listened for connections")
    done = cable.guest.run(f"rping -c -a {CARD_ADDRESSES['IPv4']} -C 1 -p 7999", 60)
    assert done.code != 0 and "RDMA_CM_EVENT_REJECTED, error 8" in done.text, done
