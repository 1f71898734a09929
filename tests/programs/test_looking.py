"""What a person can see of a run: its packets, and its waveform."""

import re
import subprocess

import pytest
from cards import Simulator
from test_pingpong import assert_exchanged, packets

FST_HEADER = 0  # type of an FST file's first block


@pytest.mark.quick
def test_packets_and_waveform(hca, row, tmp_path):
    row("hca sim", "--pcap, --trace")
    capture, traces = tmp_path / "link.pcap", tmp_path / "traces"
    sim = Simulator(hca, "--pcap", capture, "--trace", "--trace-dir", traces)
    words = ["-c", "-n", 2]
    try:
        assert_exchanged(sim.pair(["ibv_rc_pingpong", "-g", 1, *words]), words)
    finally:
        sim.stop()
    done = subprocess.run([hca, "pcap", "check", capture], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False)
    sends = re.findall(r"^RC SEND \w+ +(\d+)", done.stdout, re.MULTILINE)
    assert done.returncode == 0 and sum(map(int, sends)) >= 2 * packets(words), done
    for card in (0, 1):
        wave = (traces / f"card{card}.fst").read_bytes()
        assert len(wave) > 100_000 and wave[0] == FST_HEADER
