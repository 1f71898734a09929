"""One end of a transfer by NIXL: `FILE` serves a buffer, `FILE client` writes one there and reads it back; `FILE
repeat` writes until that fails, and says so. FILE tells the client who the server is and where its buffer; the server
ends when the client has removed it."""

import base64
import ctypes
import json
import random
import sys
import time
from pathlib import Path

from nixl_cu12._api import nixl_agent, nixl_agent_config
from nixl_cu12._bindings import nixlBackendError, nixlRemoteDisconnectError

BYTES = 1 << 20
LIMIT_S = 300
TICK_S = 0.02


def wait_until(condition, what):
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end, f"not after {LIMIT_S} s: {what}"
        time.sleep(TICK_S)


def pattern():
    return random.Random(2).randbytes(BYTES)


def start(name):
    agent = nixl_agent(name, nixl_agent_config(backends=["UCX"]))
    buffer = ctypes.create_string_buffer(2 * BYTES)
    agent.register_memory([(ctypes.addressof(buffer), len(buffer), 0, name)], "DRAM")
    return agent, buffer


def serve(file):
    agent, buffer = start("server")
    where = {"metadata": base64.b64encode(agent.get_agent_metadata()).decode(), "address": ctypes.addressof(buffer)}
    new = file.with_suffix(".new")
    new.write_text(json.dumps(where), encoding="ascii")
    new.rename(file)

    def ended():
        agent.get_new_notifs()  # connections are made by whoever asks
        return not file.exists()
    wait_until(ended, "the client has ended")
    print(f"{BYTES} bytes arrived: {buffer.raw[:BYTES] == pattern()}", flush=True)


def move(agent, kind, here, there):
    lists = (agent.get_xfer_descs([(address, BYTES, 0)], "DRAM") for address in (here, there))
    handle = agent.initialize_xfer(kind, *lists, "server", b"")
    state = agent.transfer(handle)
    wait_until(lambda: (state if state != "PROC" else agent.check_xfer_state(handle)) in ("DONE", "ERR"), kind)
    assert agent.check_xfer_state(handle) == "DONE", kind
    agent.release_xfer_handle(handle)


def meet(file):
    wait_until(file.exists, "the server has started")
    where = json.loads(file.read_text(encoding="ascii"))
    agent, buffer = start("client")
    agent.add_remote_agent(base64.b64decode(where["metadata"]))
    buffer[:BYTES] = pattern()
    return agent, buffer, where, ctypes.addressof(buffer)


def repeat(file):
    agent, _, where, here = meet(file)
    try:
        while True:
            move(agent, "WRITE", here, where["address"])
    except (AssertionError, nixlRemoteDisconnectError, nixlBackendError) as failed:
        print(f"a write fails: {failed!r}", flush=True)


def transfer(file):
    agent, buffer, where, here = meet(file)
    move(agent, "WRITE", here, where["address"])
    move(agent, "READ", here + BYTES, where["address"])
    file.unlink()
    print(f"{BYTES} bytes came back: {buffer.raw[BYTES:] == pattern()}", flush=True)


def main():
    file, *what = sys.argv[1:]
    {(): serve, ("client",): transfer, ("repeat",): repeat}[tuple(what)](Path(file))


if __name__ == "__main__":
    main()
