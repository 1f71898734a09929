"""Did a requester give a packet another number when it sent it anew? Soft-RoCE does when its time-out comes amid a
message: all that follows is a PSN further than before, and what was the middle of one message is the end of another.
A responder that has taken the first of the two must refuse what comes next (IBA 9.7.4.1)."""

import subprocess

REQUESTS = "infiniband.bth.opcode < 13"
WHAT = ["infiniband.bth.opcode", "infiniband.reth.va", "infiniband.reth.dmalen", "frame.len"]


def renumbers(capture, address):
    """Whether one PSN of a QP stands for two different requests from this address in a capture of one connection."""
    asked = [word for field in ["infiniband.bth.destqp", "infiniband.bth.psn", *WHAT] for word in ("-e", field)]
    told = subprocess.run(["tshark", "-n", "-r", capture, "-Y", f"ip.src == {address} && {REQUESTS}", "-T", "fields",
                           *asked], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    # Its exit code says only that the last packet of a capture that goes on was not whole.
    found = {}
    for line in told.stdout.splitlines():
        qp, psn, *what = line.split("\t")
        if found.setdefault((qp, psn), what) != what:
            return True
    return False
