"""`hca run --pair`: both ends of a program, and what was on their cable."""

import json
import subprocess
from collections import Counter

from cards import LIMIT_S, WITH_US

SEND, WRITE, READ, ATOMIC = KINDS = ["SEND", "RDMA WRITE", "RDMA READ RESPONSE", "ATOMIC ACKNOWLEDGE"]


def run_pair(hca, server, client, *options, before=(), capture=None):
    """Runs both to their end; `before`: what runs hca."""
    recorded = [] if capture is None else ["--pcap", capture]
    words = [*WITH_US, *before, hca, "run", "--pair", *options, *recorded, "--", *server, "---", *client]
    return subprocess.run(list(map(str, words)), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=LIMIT_S, check=False)


def end(done, name):
    """What an end has printed."""
    lines = [line.removeprefix(f"{name}: ") for line in done.stdout.splitlines() if line.startswith(f"{name}: ")]
    return "\n".join(lines)


def packets(hca, capture, service="RC"):
    """Packets of a capture by operation: {"SEND": 3, ...}. Every one of them must have the right CRCs."""
    done = subprocess.run([hca, "pcap", "check", "--json", capture], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done
    found = Counter()
    for opcode, count in json.loads(done.stdout)["opcodes"].items():
        kind = next((kind for kind in KINDS if opcode.upper().startswith(f"{service} {kind}")), None)
        found[kind] += count["packets"]
    return found
