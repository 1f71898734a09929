"""Every program of rdmacm-utils ten times in a row, and with loss, on both links; an end that is
killed: test_killed.py."""

import hashlib
import os
import re

import pytest
from cards import listens_by_cm

SERVER, CLIENT = "10.0.0.1", "10.0.0.2"
LINKS = ["eth", "ib"]
GROUP = "239.1.2.3"
TIMES = 10
LOSS = {"faults": "loss=0.001"}


def both(name, *options, end=("return status 0",) * 2):
    """Words of the server, of the client, and what each says at its end."""
    return [name, *options], [name, "-s", SERVER, *options], end


def rping(*options):
    """Its client may have ended before it says that it is disconnected."""
    words = ["rping", "-a", SERVER, "-v", *options]
    return [*words, "-s"], [*words, "-c"], ("server DISCONNECT EVENT", r"(?m)^ping data: rdma-ping-\d+")


def stream(name, *options, words=("-S", 500, "-I", 3, "-C", 5, "-T", "v")):
    said = (r"(?m)^custom +500 ",) * 2
    return [name, "-b", SERVER, *words, *options], [name, "-s", SERVER, *words, *options], said


def xrc(kind):
    server, client = ["rdma_xserver", "-c", kind], ["rdma_xclient", "-c", kind, "-s", SERVER]
    return server, client, ("rdma_xserver: end 0", "rdma_xclient: end 0")


# Programs whose two ends both end by themselves.
PAIRS = {
    "rping -C 3": rping("-C", 3),
    "rping -C 2 -P": (["rping", "-s", "-P", "-a", SERVER, "-v"],
                      ["rping", "-c", "-a", SERVER, "-C", 2, "-v"], (None, "ping data: rdma-ping-1")),
    "rdma_server, rdma_client": (["rdma_server"], ["rdma_client", "-s", SERVER],
                                 ("rdma_server: end 0", "rdma_client: end 0")),
    "rdma_xserver, rdma_xclient -c r": xrc("r"),
    "rdma_xserver, rdma_xclient -c x": xrc("x"),
    "ucmatose": both("ucmatose"),
    "ucmatose -m": both("ucmatose", "-m"),
    "ucmatose -P ib": both("ucmatose", "-P", "ib"),
    "ucmatose -c 4 -C 5 -S 3000": both("ucmatose", "-c", 4, "-C", 5, "-S", 3000),
    "udaddy": both("udaddy"),
    "udaddy -p 0x2": both("udaddy", "-p", "0x2"),
    "udaddy -c 3 -C 5": both("udaddy", "-c", 3, "-C", 5),
    "cmtime -c 5": (["cmtime", "-c", 5], ["cmtime", "-s", SERVER, "-c", 5], (None, r"(?m)^connect +: +[\d.]+")),
    "mckey": (["mckey", "-m", GROUP, "-b", SERVER], ["mckey", "-m", GROUP, "-b", CLIENT, "-s"],
              ("data transfers complete", "return status 0")),
    "rstream": stream("rstream"),
    "riostream": stream("riostream"),
    "udpong": stream("udpong", words=("-S", 500, "-C", 20))[:2] + ((None, r"(?m)^custom +500 +(20|40) "),),
    "rcopy": (["rcopy"], None, (None, "done")),
}
# Datagrams that are lost are nobody's to repeat: these programs wait for them for ever.
DATAGRAMS = {"udaddy", "udaddy -p 0x2", "udaddy -c 3 -C 5", "mckey", "udpong"}
QUICK = {("eth", "rdma_xserver, rdma_xclient -c x"), ("ib", "ucmatose -m")}


def ready(server):
    """The client may come."""
    if server.words[0] == "mckey":
        server.prints("joined dgid")
    else:
        server.wait_until(lambda: listens_by_cm(server.pid), "it listened")


def run(sim, name, folder):
    """Once; the server whose end is not looked at never ends by itself."""
    server_words, client_words, (server_said, client_said) = PAIRS[name]
    source, target = folder / "source", folder / "target"
    if name == "rcopy":
        source.write_bytes(os.urandom(300_001))
        client_words = ["rcopy", source, f"{SERVER}:{target}"]
    server = sim.start(0, *server_words, live=True)
    ready(server)
    client = sim.run(1, *client_words)
    if server_said is None:
        server.kill()
    else:
        done = server.done()
        assert done.code == 0 and re.search(server_said, done.text), (done, client)
    assert client.code == 0 and re.search(client_said, client.text), (server.text, client)
    if name == "rcopy":
        assert len({hashlib.sha256(path.read_bytes()).digest() for path in (source, target)}) == 1


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("name", PAIRS)
def test_ten_times(simulators, row, tmp_path, link, name):
    """ACC-11. Ports are free again, and numbers of one run do not meet those of the next."""
    row(name, "ten times in a row", link)
    for _ in range(TIMES):
        run(simulators(link=link), name, tmp_path)


@pytest.mark.quick
@pytest.mark.parametrize(("link", "name"), sorted(QUICK))
def test_once(simulators, row, tmp_path, link, name):
    row(name, "", link)
    run(simulators(link=link), name, tmp_path)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("name", [name for name in PAIRS if name not in DATAGRAMS])
def test_loss(simulators, row, tmp_path, link, name):
    """Messages of the manager and packets of connections are lost, and repeated."""
    row(name, "0.1 % loss, three times", link)
    for _ in range(3):
        run(simulators(link=link, **LOSS), name, tmp_path)
