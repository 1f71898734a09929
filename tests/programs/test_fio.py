"""fio's RDMA engine: blocks go to a server's memory, or come from it, by WRITE and READ. It sends what is in its
buffers and looks at nothing that comes: what is judged is that all blocks were done, and that packets carried them.
Its SEND wants a receiver that is always ahead (it asks for no retries after RNR), which a simulated card's is not."""

import json

import pytest
from cards import free_port

BLOCKS = 64


def quick(*values):
    return pytest.param(*values, marks=pytest.mark.quick)


def words(port, block, *more):
    return ["fio", "--ioengine=rdma", f"--port={port}", f"--bs={block}", f"--size={block * BLOCKS}", *more]


@pytest.mark.parametrize(("link", "verb", "block", "faults"), [
    *[(link, verb, block, None) for link in ("eth", "ib") for verb in ("write", "read")
      for block in (1024, 65536)],
    *[(link, verb, 16384, "loss=0.001") for link in ("eth", "ib") for verb in ("write", "read")],
    quick("eth", "write", 16384, None),
    quick("ib", "read", 16384, None),
], ids=str)
def test_blocks(simulators, row, link, verb, block, faults):
    row("fio", f"--ioengine=rdma --verb={verb} --bs={block}{', 0.1 % loss' if faults else ''}", link)
    simulator = simulators(link=link, **{"faults": faults} if faults else {})
    # The port is the connection manager's.
    port, before = free_port(), simulator.sent(0, 1)
    server = simulator.start(0, *words(port, block, "--name=server", "--rw=read", "--iodepth=16"))
    # rw says who waits for whom: the one that writes connects, whatever its verb.
    client = simulator.start(1, *words(port, block, "--name=client", "--rw=write", f"--verb={verb}",
                                       "--hostname=10.0.0.1", "--iodepth=4", "--iodepth_batch_complete_min=1",
                                       "--output-format=json"))
    ended = client.done()
    assert ended.code == 0, ended
    job = json.loads(ended.text[ended.text.index("{"):])["jobs"][0]
    done = job["write"]
    assert (job["error"], done["total_ios"], done["io_kbytes"]) == (0, BLOCKS, block * BLOCKS // 1024), ended
    assert server.done().code == 0, server.text
    sent = [after - past for after, past in zip(simulator.sent(0, 1), before, strict=True)]
    assert sent[0 if verb == "read" else 1] >= BLOCKS * -(-block // 4096), sent
