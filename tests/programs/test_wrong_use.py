"""librdmacm, rsockets and libibumad, wrongly used: every call with NULL, with an object that is closed, with one that
is another's or of another kind, and where nothing is left: an error, the errno of the manual pages, and no harm (CM-4,
RS-1).

libibverbs is the same in driver/hca-capi/tests: wrong_objects.rs, bad_use.rs, exhausted.rs, exhausted_process.rs."""

import re
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
DRIVER = HERE.parent.parent / "driver"
EXPORTS = DRIVER / "hca-rdmacm/exports.txt"
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
# libibumad: calls without an object of anybody's.
UMAD_STRINGS = {f"umad_{name}" for name in (
    "attribute_str", "class_str", "common_mad_status_str", "method_str", "sa_mad_status_str")}
UMAD_NUMBERS = UMAD_STRINGS | {"umad_debug", "umad_done", "umad_init", "umad_size"}
UMAD_BUFFER = {f"umad_{name}" for name in (  # a buffer of the program's own
    "addr_dump", "dump", "get_mad", "get_mad_addr", "get_pkey", "set_addr", "set_addr_net", "set_grh", "set_pkey",
    "status")}
UMAD_BY_NUMBER = {f"umad_{name}" for name in (  # a port by its number, which is never NULL
    "close_port", "get_fd", "poll", "register", "register_oui", "unregister")}
UMAD_BY_NAME = {f"umad_{name}" for name in (  # nothing that could be closed
    "get_ca", "get_ca_device_list", "get_ca_portguids", "get_cas_names", "get_issm_path", "get_port", "open_port")}
UMAD_NOT_ASKED = {
    "null": UMAD_NUMBERS | UMAD_BY_NUMBER | {"umad_open_port", "umad_get_ca_device_list"},
    "closed": UMAD_NUMBERS | UMAD_BUFFER | (UMAD_BY_NAME - {"umad_get_ca", "umad_get_port"}),
    "foreign": UMAD_NUMBERS | UMAD_BUFFER | {
        "umad_get_ca_device_list", "umad_get_cas_names", "umad_release_ca", "umad_release_port"},
}


def ask(sim, folder, name):
    """Builds and runs one of the programs; {kind: calls that it has asked}."""
    program = folder / name
    words = ["cc", "-Wall", "-Werror", "-o", program, HERE / f"{name}.c", "-lrdmacm", "-libumad", "-libverbs"]
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


@pytest.mark.quick
def test_every_call_of_libibumad(simulators, row, tmp_path):
    """ACC-11: what is no port, agent, card or list is a negative errno; no call crashes."""
    row("every call of libibumad, wrongly used", "null, closed, foreign, exhausted", "ib")
    asked = ask(simulators(link="ib"), tmp_path, "umad_wrong_use")
    exports = set(re.findall(r"\b(umad_\w+)\b", (DRIVER / "hca-umad/exports.txt").read_text(encoding="utf-8")))
    assert len(exports) > 30
    for kind, reasons in UMAD_NOT_ASKED.items():
        assert exports - asked[kind] == reasons, (kind, exports - asked[kind] ^ reasons)
    assert {"umad_open_port", "umad_send", "umad_recv", "umad_poll"} <= asked["exhausted"]
