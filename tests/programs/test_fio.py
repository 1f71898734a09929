"""fio's RDMA engine: blocks go to a server's memory, or come from it, by WRITE and READ. fio itself looks at nothing
that comes. Here the buffers of both ends are files that they map (mem=mmapshared), so that what is in the memory of
each can be compared. Its SEND wants a receiver that is always ahead (it asks for no retries after RNR), which a
simulated card's is not."""

import json
import os

import pytest
from cards import free_port

BLOCKS = 64
DEPTH = 4  # buffers of each end: a block goes to, or comes from, any of the server's
PATTERN = "0x0badc0ffee15900d"


def quick(*values):
    return pytest.param(*values, marks=pytest.mark.quick)


def words(port, block, memory, *more):
    return ["fio", "--ioengine=rdma", f"--port={port}", f"--bs={block}", f"--size={block * BLOCKS}",
            f"--iodepth={DEPTH}", f"--mem=mmapshared:{memory}", *more]


def blocks_of(path, block):
    data = path.read_bytes()
    return [data[at:at + block] for at in range(0, DEPTH * block, block)]


@pytest.mark.parametrize(("link", "verb", "block", "faults"), [
    *[(link, verb, block, None) for link in ("eth", "ib") for verb in ("write", "read")
      for block in (1024, 65536)],
    *[(link, verb, 16384, "loss=0.001") for link in ("eth", "ib") for verb in ("write", "read")],
    quick("eth", "write", 16384, None),
    quick("ib", "read", 16384, None),
], ids=str)
def test_blocks(simulators, row, tmp_path, link, verb, block, faults):
    row("fio", f"--ioengine=rdma --verb={verb} --bs={block}{', 0.1 % loss' if faults else ''}", link)
    simulator = simulators(link=link, **{"faults": faults} if faults else {})
    theirs, ours = tmp_path / "server", tmp_path / "client"
    for memory in (theirs, ours):
        memory.write_bytes(os.urandom(DEPTH * block + 65536))  # and what fio aligns by
    offered = blocks_of(theirs, block)
    # The port is the connection manager's.
    port, before = free_port(), simulator.sent(0, 1)
    server = simulator.start(0, *words(port, block, theirs, "--name=server", "--rw=read"))
    # rw says who waits for whom: the one that writes connects, whatever its verb.
    client = simulator.start(1, *words(port, block, ours, "--name=client", "--rw=write", f"--verb={verb}",
                                       "--hostname=10.0.0.1", "--iodepth_batch_complete_min=1",
                                       f"--buffer_pattern={PATTERN}", "--output-format=json"))
    ended = client.done()
    assert ended.code == 0, ended
    job = json.loads(ended.text[ended.text.index("{"):])["jobs"][0]
    done = job["write"]
    assert (job["error"], done["total_ios"], done["io_kbytes"]) == (0, BLOCKS, block * BLOCKS // 1024), ended
    assert server.done().code == 0, server.text
    sent = [after - past for after, past in zip(simulator.sent(0, 1), before, strict=True)]
    assert sent[0 if verb == "read" else 1] >= BLOCKS * -(-block // 4096), sent
    if verb == "write":
        pattern = bytes.fromhex(PATTERN[2:]) * (block // 8)
        assert blocks_of(theirs, block) == [pattern] * DEPTH and pattern not in offered
    else:
        assert blocks_of(theirs, block) == offered and all(got in offered for got in blocks_of(ours, block))
