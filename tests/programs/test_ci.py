"""`hca run --pair` in continuous integration: what it says of programs that fail or hang, and clients whom the
simulator may not trace."""

import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from cards import LIMIT_S, TICK_S, WITH_US, free_port, listens
from pairs import run_pair

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


@pytest.mark.quick
def test_who_hung_and_where_it_stood(hca):
    words = ["ibv_rc_pingpong", "-g", "1", "-n", "1000000"]
    done = run_pair(hca, words, [*words, "localhost"], "--timeout", "8s", "--json", "-")
    assert done.returncode == 124, done
    said = [line for line in done.stderr.splitlines() if line.startswith("hca: ")]
    assert said[0].startswith("hca: server and client killed: not ended within --timeout 8s"), said
    assert any("client: ibv_rc_pingpong (process" in line and "last completion at" in line for line in said), said
    document = json.loads(done.stdout)
    qps = [qp for session in document["sessions"] for qp in session["qps"]]
    assert any(qp["sent"]["messages"] > 0 and qp["last_packet_ns"] for qp in qps), qps


@pytest.mark.quick
def test_a_failure_leaves_waveforms_of_its_time(hca, tmp_path):
    words = ["sh", "-c", 'ibv_rc_pingpong -g 1 -n 5 "$@" && exit 3', "-"]
    kept = tmp_path / "kept"
    done = run_pair(hca, words, [*words, "localhost"], "--keep", kept)
    assert done.returncode == 3, done
    document = json.loads((kept / "report.json").read_text(encoding="utf-8"))
    qps = [qp for session in document["sessions"] for qp in session["qps"]]
    last_ns = max(qp["last_packet_ns"] for qp in qps)
    for card in ("card0", "card1"):
        wave = (kept / "again" / f"{card}.fst").read_bytes()
        first_ps, last_ps = (int.from_bytes(wave[at:at + 8], "big") for at in (9, 17))
        assert first_ps < 1000 * last_ns and last_ps > first_ps, (first_ps, last_ps, last_ns)


@pytest.mark.quick
def test_a_simulator_that_may_trace_nobody(hca):
    """Another user, in a process namespace of its own: to it the clients are not even there. The card reaches their
    memory all the same."""
    folder = Path(tempfile.mkdtemp(prefix="hca-"))
    folder.chmod(0o777)
    sockets = folder / "cards"
    # Who becomes another user is no longer ended with its parent: so that comes first.
    apart = [*NOBODY, "unshare", "--user", "--map-current-user", "--pid", "--fork", "--kill-child", "--mount-proc"]
    simulator = subprocess.Popen([*apart, hca, "sim", "--dir", sockets], stdout=subprocess.PIPE, text=True)
    try:
        assert str(sockets) in simulator.stdout.readline()
        run = [str(hca), "run", "--dir", str(sockets)]
        port = free_port()
        words = ["ibv_rc_pingpong", "-g", "1", "-n", "20", "-c", "-p", str(port)]
        server = subprocess.Popen([*WITH_US, *run, "--card", "0", "--", *words])
        while not listens(port):
            assert server.poll() is None
            time.sleep(TICK_S)
        done = subprocess.run([*run, "--card", "1", "--", *words, "localhost"], timeout=LIMIT_S, check=False)
        assert (server.wait(LIMIT_S), done.returncode) == (0, 0)
    finally:
        simulator.kill()
        simulator.wait()
        shutil.rmtree(folder)
