"""librdmacm and rsockets, wrongly used: every call with NULL, with an object that is closed, with one that is another's
or of another kind, and where nothing is left: -1 or NULL, the errno of the manual pages, and no harm (CM-4, RS-1).

libibverbs is the same in driver/hca-capi/tests: wrong_objects.rs, bad_use.rs, exhausted.rs."""

import re
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
EXPORTS = HERE.parent.parent / "driver/hca-rdmacm/exports.txt"
PROGRAMS = ["cm_wrong_use", "cm_exhausted", "rs_wrong_use", "rs_exhausted"]
LINKS = ["eth", "ib"]
# Calls that cannot be asked so, and why.
NO_ARGUMENT = {"rdma_create_event_channel": "takes nothing", "rsocket": "takes numbers alone",
               "rdma_event_str": "takes a number", "rdma_get_devices": "takes no object"}
NUMBERS_ALONE = {name: "takes a descriptor, which is never NULL"
                 for name in ("rclose", "rfcntl", "rlisten", "rshutdown")}
NEEDS_NOTHING = {name: "needs nothing that can run out" for name in (
    "rdma_ack_cm_event", "rdma_disconnect", "rdma_establish", "rdma_event_str", "rdma_get_dst_port",
    "rdma_get_remote_ece", "rdma_get_src_port", "rdma_init_qp_attr", "rdma_notify", "rdma_reject_ece",
    "rdma_set_local_ece", "rdma_set_option", "rgetpeername", "rgetsockname", "rgetsockopt", "rshutdown")}
GIVES_BACK = {name: "gives back what there was" for name in (
    "rdma_destroy_ep", "rdma_destroy_event_channel", "rdma_destroy_qp", "rdma_destroy_srq", "rdma_free_devices",
    "rdma_freeaddrinfo", "riounmap")}
NOT_ASKED = {
    "null": {"raccept": "NULL is an address that nobody asks for", "rsocket": NO_ARGUMENT["rsocket"],
             "rdma_create_event_channel": NO_ARGUMENT["rdma_create_event_channel"]} | NUMBERS_ALONE,
    "closed": NO_ARGUMENT | {"rdma_create_ep": "takes a structure of the program's own"},
    "foreign": NO_ARGUMENT,
    "exhausted": NEEDS_NOTHING | GIVES_BACK | {"rdma_accept": "the request has all that it needs"},
}


def ask(sim, folder, name):
    """Builds and runs one of the programs; {kind: calls that it has asked}."""
    program = folder / name
    words = ["cc", "-Wall", "-Werror", "-o", program, HERE / f"{name}.c", "-lrdmacm", "-libverbs"]
    subprocess.run(words, check=True)
    done = sim.run(0, program)
    wrong = [line for line in done.text.splitlines() if line.startswith("WRONG")]
    assert done.code == 0 and " 0 wrong answers" in done.text, (done.code, wrong, done.text[-300:])
    asked = {}
    for kind, call in re.findall(r"^asked (\w+) (\w+)", done.text, re.MULTILINE):
        asked.setdefault(kind, set()).add(call)
    return asked


@pytest.mark.parametrize("link", [pytest.param(LINKS[0], marks=pytest.mark.quick), LINKS[1]])
def test_every_call_in_every_way(simulators, row, tmp_path, link):
    row("every call, wrongly used", "null, closed, foreign, exhausted", link)
    sim = simulators(link=link)
    asked = {}
    for name in PROGRAMS:
        for kind, calls in ask(sim, tmp_path, name).items():
            asked.setdefault(kind, set()).update(calls)
    exports = set(re.findall(r"\b(r[a-z]\w+)\b", EXPORTS.read_text(encoding="utf-8")))
    assert len(exports) > 60
    for kind, reasons in NOT_ASKED.items():
        missing = exports - asked[kind]
        assert missing == set(reasons), (kind, "not asked", missing - set(reasons), "asked", set(reasons) - missing)
