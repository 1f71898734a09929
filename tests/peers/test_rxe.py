"""The card and Linux's soft-RoCE, each in both roles: unmodified programs, through a cable out of the simulator."""

import perftest
import pytest
from rxe import CARD_ADDRESSES, ROLES, ends

KINDS = ["IPv4", "IPv6"]
SIZES = [1, 1023, 1024, 4097, 65536, 1 << 20]
PATHS = [(kind, mtu) for kind in KINDS for mtu in (1024, 4096)]
# Each kind of address and each MTU once; all pairs of them only where a message has several packets with either.
SOME_PATHS = [("IPv4", 1024), ("IPv6", 4096)]
QUICK_BYTES = 4097
PINGPONGS = [(bytes_, *path) for bytes_ in SIZES
             for path in (PATHS if bytes_ in (QUICK_BYTES, 1 << 20) else SOME_PATHS)]
BANDWIDTHS = [(program, *path) for program in perftest.BANDWIDTH
              for path in (PATHS if program == perftest.BANDWIDTH[0] else SOME_PATHS)]
WORKS = "works afterwards"


def run(rxe, program, *options, bytes_, iterations, kind="IPv4", server="rxe", lines=None):
    words = perftest.words(program, *options, iterations=iterations, bytes_=bytes_)
    done = rxe.run_pair(words, kind, server)
    perftest.judge(done, bytes_, lines or iterations)


@pytest.mark.quick
@pytest.mark.parametrize("kind", KINDS)
def test_ping(cable, row, kind):
    row("ping", kind, "rxe -> card")
    assert " 0% packet loss" in cable.guest.check(f"ping -c 3 -i 0.2 {CARD_ADDRESSES[kind]}")


@pytest.mark.parametrize("server", ROLES)
@pytest.mark.parametrize("bytes_, kind, mtu", [
    pytest.param(*case, marks=[pytest.mark.quick] * (case[0] == QUICK_BYTES)) for case in PINGPONGS])
def test_pingpong(cable, row, bytes_, server, kind, mtu):
    row("ibv_rc_pingpong", f"-c -s {bytes_} -m {mtu}, {kind}", ends(server))
    words = perftest.words("ibv_rc_pingpong", "-c", "-m", mtu, iterations=3, bytes_=bytes_)
    done, repeated = cable.run_hasty_pair(words, kind, server)
    perftest.judge(done, bytes_, 3)
    if repeated:
        row.figure(f"{repeated} before it, whose last acknowledgement soft-RoCE did not take")


@pytest.mark.parametrize("server", ROLES)
@pytest.mark.parametrize("bytes_, kind", [pytest.param(bytes_, kind, marks=[pytest.mark.quick] * (bytes_ == 1023))
                                          for bytes_ in (1, 1023, 4096) for kind in KINDS])
def test_datagrams(cable, row, bytes_, kind, server):
    row("ibv_ud_pingpong", f"-c -s {bytes_}, {kind}", ends(server))
    run(cable, "ibv_ud_pingpong", "-c", bytes_=bytes_, iterations=50, kind=kind, server=server)


@pytest.mark.parametrize("server", ROLES)
@pytest.mark.parametrize("program", ["ib_send_bw", "ib_send_lat"])
def test_datagrams_of_perftest(cable, row, program, server):
    row(program, "-c UD -s 1024", ends(server))
    run(cable, program, "-c", "UD", bytes_=1024, iterations=20, server=server)


@pytest.mark.parametrize("server", ROLES)
@pytest.mark.parametrize("bytes_, kind", [pytest.param(bytes_, kind, marks=[pytest.mark.quick] * (bytes_ == 4097))
                                          for bytes_ in (1, 4097, 65536) for kind in KINDS])
def test_unreliable(cable, row, bytes_, kind, server):
    row("ibv_uc_pingpong", f"-c -s {bytes_}, {kind}", ends(server))
    run(cable, "ibv_uc_pingpong", "-c", bytes_=bytes_, iterations=30, kind=kind, server=server)


@pytest.mark.parametrize("server", ROLES)
@pytest.mark.parametrize("program", ["ib_send_bw", "ib_send_lat", "ib_write_bw", "ib_write_lat"])
def test_unreliable_of_perftest(cable, row, program, server):
    row(program, "-c UC -s 4096", ends(server))
    run(cable, program, "-c", "UC", bytes_=4096, iterations=20, server=server)


@pytest.mark.parametrize("server", ROLES)
def test_pingpong_with_events(cable, row, server):
    row("ibv_rc_pingpong", "-c -e", ends(server))
    run(cable, "ibv_rc_pingpong", "-c", "-e", bytes_=4096, iterations=50, server=server)


@pytest.mark.parametrize("server", ROLES)
@pytest.mark.parametrize("program, kind, mtu", BANDWIDTHS)
def test_bandwidth(cable, row, program, server, kind, mtu):
    row(program, f"-s 65536 -m {mtu}, {kind}", ends(server))
    run(cable, program, "-m", mtu, bytes_=65536, iterations=10, kind=kind, server=server)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("server", ROLES)
@pytest.mark.parametrize("program", perftest.LATENCY)
def test_latency(cable, row, program, server, kind):
    row(program, f"-s 64, {kind}", ends(server))
    run(cable, program, bytes_=64, iterations=20, kind=kind, server=server)


@pytest.mark.parametrize("server", ROLES)
@pytest.mark.parametrize("program", perftest.BANDWIDTH)
def test_four_qps(cable, row, program, server):
    row(program, "-q 4 -s 8192", ends(server))
    run(cable, program, "-q", 4, bytes_=8192, iterations=10, lines=40, server=server)


@pytest.mark.parametrize("server", ROLES)
@pytest.mark.parametrize("program", perftest.BANDWIDTH)
def test_both_ways(cable, row, program, server):
    row(program, "-b -s 8192", ends(server))
    run(cable, program, "-b", bytes_=8192, iterations=10, server=server)


@pytest.mark.parametrize("server", ROLES)
@pytest.mark.parametrize("program", ["ib_read_bw", "ib_send_bw"])
def test_bandwidth_with_events(cable, row, program, server):
    row(program, "-e -s 8192", ends(server))
    run(cable, program, "-e", bytes_=8192, iterations=10, server=server)


ACCESS = "remote access error"
CASES = ["write-rkey", "read-rkey", "write-length", "read-length", "write-before", "write-rights", "read-rights",
         "add-rkey", "swap-behind", "add-rights"]
# Too long for the receive that is posted: rxe takes that for a failure of its own.
TOO_LONG = {"card": ("remote invalid request error", "local length error"),
            "rxe": ("remote operation error", "local qp operation error")}


def run_wrong(cable, case, server):
    """What client and server say, in small letters. Both must work afterwards."""
    done = cable.run_pair(lambda device, gid: ["wrong_requests", "-d", device, "-x", gid, "-c", case], server=server)
    said = [end.text.lower().splitlines() for end in done]
    assert [end.code for end in done] == [0, 0] and said[0][1:] == said[1][1:] == [WORKS], done
    return said[1][0], said[0][0]


@pytest.mark.parametrize("server", ROLES)
@pytest.mark.parametrize("case", [pytest.param(name, marks=[pytest.mark.quick] * (name == CASES[0])) for name in CASES])
def test_wrong_requests(cable, row, case, server):
    row("wrong_requests", f"-c {case}", ends(server))
    client, said = run_wrong(cable, case, server)
    assert client == f"client: {ACCESS}"
    assert said in ("server: nothing received", "server: work request flushed error")
    row.result(f"client gets '{ACCESS}'; works afterwards")


def test_misaligned_atomic(cable, row):
    """The other way round soft-RoCE refuses to post it."""
    row("wrong_requests", "-c add-misaligned", ends("rxe"))
    client, said = run_wrong(cable, "add-misaligned", "rxe")
    assert client == "client: remote invalid request error"
    assert said in ("server: nothing received", "server: work request flushed error")
    row.result("client gets 'remote invalid request error'; works afterwards")


@pytest.mark.parametrize("operation", ["FETCH_AND_ADD", "CMP_AND_SWAP"])
@pytest.mark.parametrize("server", ROLES)
@pytest.mark.parametrize("program", ["ib_atomic_bw", "ib_atomic_lat"])
def test_atomics(cable, row, program, server, operation):
    row(program, f"-A {operation}", ends(server))
    run(cable, program, "-A", operation, bytes_=8, iterations=50, server=server)


LEASES = {"rxe": ["type-1-unbound", "type-2-locally", "type-2-by-send"]}
LEASES["card"] = [*LEASES["rxe"], "type-1-behind", "type-1-before", "type-2-behind", "type-2-rights"]
"""By who has the window. soft-RoCE holds nobody to a window's bounds, only to its region's, and once it has refused a
right, freeing the window takes it a minute."""


@pytest.mark.parametrize("case, server", [
    pytest.param(case, server, marks=[pytest.mark.quick] * (case == "type-2-by-send"))
    for server in ROLES for case in LEASES[server]])
def test_windows_and_invalidations(cable, row, case, server):
    """MEM-11, MEM-12, MEM-16, OP-11: the server's end has the window, the client's is refused."""
    row("lent_memory", f"-c {case}", ends(server))
    done = cable.run_pair(lambda device, gid: ["lent_memory", "-d", device, "-x", gid, "-c", case], server=server)
    assert [end.code for end in done] == [0, 0], done
    assert [end.text.lower().splitlines() for end in done] == [
        [WORKS], ["through the window: success", f"refused: {ACCESS}", WORKS]]
    row.result(f"client gets '{ACCESS}'; works afterwards")


WRITTEN = {"good": "success", "torn": "success", "rkey": ACCESS, "rights": ACCESS, "behind": ACCESS,
           "misaligned": "remote invalid request error"}


@pytest.mark.parametrize("server", ROLES)
@pytest.mark.parametrize("case", [pytest.param(name, marks=[pytest.mark.quick] * (name == "good")) for name in WRITTEN])
def test_atomic_writes(cable, row, case, server):
    """Eight bytes at once: what soft-RoCE means by it, and what it refuses."""
    row("atomic_writes", f"-c {case}", ends(server))
    done = cable.run_pair(lambda device, gid: ["atomic_writes", "-d", device, "-x", gid, "-c", case], server=server)
    assert [end.code for end in done] == [0, 0], done
    assert [end.text.lower().splitlines() for end in done] == [[WORKS], [f"client: {WRITTEN[case]}", WORKS]]
    row.result(f"client gets '{WRITTEN[case]}'; works afterwards")


@pytest.fixture
def mended(rxe):
    """soft-RoCE, and the cable to it; what a test has left behind is ended."""
    yield rxe, rxe.plug_mended()
    rxe.end_all()


FLUSHED = {"good": "success", "region": "success", "nothing": "success", "many": "success", "rkey": ACCESS,
           "rights": ACCESS, "rights-region": ACCESS, "behind": ACCESS, "persistent": ACCESS}
# Who has no persistent memory refuses: soft-RoCE by another name, for its QP has not the right either.
FLUSHED_BY_RXE = {**FLUSHED, "persistent": "remote invalid request error"}


@pytest.mark.parametrize("server", ROLES)
@pytest.mark.parametrize("case", [pytest.param(name, marks=[pytest.mark.quick] * (name == "good")) for name in FLUSHED])
def test_flushes(mended, row, case, server):
    """Global visibility: what soft-RoCE means by it, and what it refuses. Its ICRC of a FLUSH is not the one of the
    specification (flush_sums.py): if there are others than that, this test is not needed any more."""
    row("flushes", f"-c {case}, ICRCs mended", ends(server))
    rxe, mending = mended
    status = (FLUSHED_BY_RXE if server == "rxe" else FLUSHED)[case]
    before = list(mending.mended)
    done = rxe.run_pair(lambda device, gid: ["flushes", "-d", device, "-x", gid, "-c", case], server=server)
    assert [end.code for end in done] == [0, 0], done
    assert [end.text.lower().splitlines() for end in done] == [[WORKS], [f"client: {status}", WORKS]]
    of_client = 0 if server == "rxe" else 1
    assert mending.others == 0 and mending.mended[of_client] - before[of_client] >= 2
    row.result(f"client gets '{status}'; works afterwards")


@pytest.mark.parametrize("server", ROLES)
@pytest.mark.parametrize("kind", KINDS)
def test_shared_receive_queue(cable, row, kind, server):
    """Four QPs at each end, each end's with one queue of receives: the data compared."""
    row("ibv_srq_pingpong", f"-c -q 4, {kind}", ends(server))
    words = perftest.words("ibv_srq_pingpong", "-c", "-q", 4, iterations=10, bytes_=2049)
    done, repeated = cable.run_hasty_pair(words, kind, server)
    perftest.judge(done, 2049, 10)
    if repeated:
        row.figure(f"{repeated} before it, whose last acknowledgement soft-RoCE did not take")


@pytest.mark.parametrize("server", ROLES)
@pytest.mark.parametrize("program", ["ib_send_bw", "ib_send_lat"])
def test_shared_receive_queue_of_perftest(cable, row, program, server):
    row(program, "--use-srq -q 4 -s 4096" if program.endswith("bw") else "--use-srq -s 4096", ends(server))
    many = ["-q", 4] if program.endswith("bw") else []
    run(cable, program, "--use-srq", *many, bytes_=4096, iterations=20, lines=80 if many else None, server=server)


def test_soft_roce_has_no_xrc(cable, row):
    """The one service of ours that it cannot be a peer of: if this fails it can."""
    row("ibv_devinfo", "-v", "rxe")
    assert "XRC" not in cable.guest.check("ibv_devinfo -d rxe0 -v")
    ours = cable.sim.start(0, "ibv_devinfo", "-d", "hca0", "-v").done(60)
    assert ours.code == 0 and "XRC" in ours.text, ours
    row.result("soft-RoCE has no XRC")


@pytest.mark.parametrize("server", ROLES)
def test_too_long_for_the_receive(cable, row, server):
    row("wrong_requests", "-c send-length", ends(server))
    client, receive = TOO_LONG[server]
    assert run_wrong(cable, "send-length", server) == (f"client: {client}", f"server: {receive}")
    row.result(f"client gets '{client}'; works afterwards")


FAULTS = {"0.1 %": "loss=0.001", "1 %": "loss=0.01", "reorder": "reorder=0.02,delay_ns=2000"}


@pytest.fixture
def model_cable(rxe):
    """The card is the reference model behind the same registers, fast."""
    rxe.plug(model=True)
    yield rxe
    rxe.end_all()


MODEL_PROGRAMS = [
    ("ibv_uc_pingpong", ("-c", "-m", 1024), 4097),
    ("ibv_ud_pingpong", ("-c",), 1023),
    ("ib_write_bw", ("-m", 1024), 65536),
    ("ib_read_bw", ("-m", 1024), 65536),
    ("ib_send_bw", ("-m", 1024), 65536),
    ("ib_send_lat", ("-c", "UD"), 1024),
    ("ib_write_lat", ("-c", "UC"), 64),
    ("ib_atomic_bw", ("-A", "FETCH_AND_ADD"), 8),
]


@pytest.mark.quick
@pytest.mark.parametrize("server", ROLES)
def test_model_pingpong(model_cable, row, server):
    row("ibv_rc_pingpong", "-c -s 4097 -m 1024, card of the model", ends(server))
    words = perftest.words("ibv_rc_pingpong", "-c", "-m", 1024, iterations=20, bytes_=4097)
    done, _ = model_cable.run_hasty_pair(words, "IPv4", server)
    perftest.judge(done, 4097, 20)


@pytest.mark.parametrize("server", ROLES)
@pytest.mark.parametrize("program, options, bytes_", [
    pytest.param(*case, id=case[0], marks=[pytest.mark.quick] * (not case[0].endswith("_lat")))
    for case in MODEL_PROGRAMS])
def test_model(model_cable, row, program, options, bytes_, server):
    row(program, " ".join(map(str, [*options, "-s", bytes_])) + ", card of the model", ends(server))
    run(model_cable, program, *options, bytes_=bytes_, iterations=20, server=server)


@pytest.mark.parametrize("server", ROLES)
@pytest.mark.parametrize("case", CASES)
def test_model_wrong_requests(model_cable, row, case, server):
    row("wrong_requests", f"-c {case}, card of the model", ends(server))
    client, said = run_wrong(model_cable, case, server)
    assert client == f"client: {ACCESS}"
    assert said in ("server: nothing received", "server: work request flushed error")


@pytest.mark.parametrize("server", ROLES)
def test_model_loss(rxe, row, server):
    row("ibv_rc_pingpong", "-c -s 65536 -m 1024, 1 %, card of the model", ends(server))
    rxe.plug(model=True, faults=FAULTS["1 %"])
    run(rxe, "ibv_rc_pingpong", "-c", "-m", 1024, bytes_=65536, iterations=30, server=server)
    run(rxe, "ib_write_bw", "-m", 1024, bytes_=65536, iterations=15, server=server)
    rxe.end_all()


@pytest.mark.parametrize("server", ROLES)
@pytest.mark.parametrize("faults", [pytest.param(FAULTS[name], id=name) for name in FAULTS])
def test_faults_of_the_cable(rxe, row, faults, server):
    """Enough packets that some are hit: messages of 64 KiB, 64 packets each, there and back, compared byte by byte."""
    row("ibv_rc_pingpong", f"-c -s 65536 -m 1024, {faults}", ends(server))
    rxe.plug(faults=faults)
    run(rxe, "ibv_rc_pingpong", "-c", "-m", 1024, bytes_=65536, iterations=30, server=server)
    for program in ("ib_write_bw", "ib_read_bw"):
        run(rxe, program, "-m", 1024, bytes_=65536, iterations=15, server=server)
    rxe.end_all()

