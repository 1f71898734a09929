"""One end of a transfer by Mooncake's engine: `serve DEVICE FILE` serves a buffer, `transfer DEVICE FILE` writes one
there and reads it back; `repeat DEVICE FILE` writes until that fails, and says so. FILE tells the client where the
server is; the server ends when the client has removed it."""

import ctypes
import json
import os
import random
import sys
import time
from pathlib import Path

from mooncake.engine import TransferEngine

BYTES = 1 << 20
LIMIT_S = 300
TICK_S = 0.02


def wait_until(condition, what):
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end, f"not after {LIMIT_S} s: {what}"
        time.sleep(TICK_S)


def start(device):
    engine = TransferEngine()
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "rdma", device) == 0, "the engine does not start"
    buffer = ctypes.create_string_buffer(2 * BYTES)
    assert engine.register_memory(ctypes.addressof(buffer), len(buffer)) == 0, "the buffer is not registered"
    return engine, buffer


def serve(device, file):
    engine, buffer = start(device)
    where = {"target": f"127.0.0.1:{engine.get_rpc_port()}", "address": ctypes.addressof(buffer)}
    new = file.with_suffix(".new")
    new.write_text(json.dumps(where), encoding="ascii")
    new.rename(file)
    wait_until(lambda: not file.exists(), "the client has ended")
    print(f"{BYTES} bytes arrived: {buffer.raw[:BYTES] == pattern()}", flush=True)


def pattern():
    return random.Random(1).randbytes(BYTES)


def meet(device, file):
    engine, buffer = start(device)
    wait_until(file.exists, "the server has started")
    buffer[:BYTES] = pattern()
    return engine, buffer, json.loads(file.read_text(encoding="ascii")), ctypes.addressof(buffer)


def repeat(device, file):
    engine, _, where, here = meet(device, file)
    code = 0
    while code == 0:
        code = engine.transfer_sync_write(where["target"], here, where["address"], BYTES)
    print(f"a write fails: {code}", flush=True)


def transfer(device, file):
    engine, buffer, where, here = meet(device, file)
    code = engine.transfer_sync_write(where["target"], here, where["address"], BYTES)
    assert code == 0, f"write: {code}"
    code = engine.transfer_sync_read(where["target"], here + BYTES, where["address"], BYTES)
    assert code == 0, f"read: {code}"
    file.unlink()
    print(f"{BYTES} bytes came back: {buffer.raw[BYTES:] == pattern()}", flush=True)


if __name__ == "__main__":
    {"serve": serve, "transfer": transfer, "repeat": repeat}[sys.argv[1]](sys.argv[2], Path(sys.argv[3]))
    # The engine's threads do not end by themselves when Python does.
    sys.stdout.flush()
    os._exit(0)
