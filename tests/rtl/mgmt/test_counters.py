"""hca_counters: every counter of a port against what was shown to it, in the order of the contract."""

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
import pytest
from common import Bench, simulate, struct
from hca_abi import STRUCTS
from hca_abi import BthOpcode as Op

NAMES = {name: offset // 64 for name, (offset, width) in STRUCTS["query_counters_result"]["fields"].items()
         if width == 64}
STROBES = {"pkey_viol": "pkey_violations", "qkey_viol": "qkey_violations", "bad_source": "bad_sources",
           "dup": "duplicate_requests", "timeout": "ack_timeouts", "rewind": "retransmitted_packets",
           "marked": "np_ecn_marked_roce_packets", "cnp": "rp_cnp_handled",
           "qp1_drop": "qp1_drops", "stray": "stray_packets", "dry": "datagrams_without_receive"}
ENDS = {"good": "rx_packets", "icrc_err": "rx_crc_errors", "vcrc_err": "rx_crc_errors",
        "dropped": "rx_buffer_drops", "malformed": "rx_drops"}
TURNS = 32
RNR, NAK, SEQUENCE = 0x20, 0x60, 0x60


def kinds_of(syndrome, way):
    """Counters of an answer, sent or received."""
    if syndrome >> 5 & 3 == RNR >> 5:
        return [f"rnr_naks_{way}"]
    if syndrome >> 5 & 3 != NAK >> 5:
        return []
    return [f"naks_{way}"] + ["out_of_sequence"] * (way == "sent" and syndrome == SEQUENCE)


def draw(bench, port, ports):
    """One cycle of random inputs; returns what it adds."""
    rng, adds = bench.rng, Counter()

    def strobe(name, here=True):
        on = rng.random() < 0.5
        bench.set(name, on)
        return on and here

    def place():
        return rng.randrange(ports)

    lengths = [rng.randint(1, 64) for _ in range(2)]
    bench.set("tx_len_i", lengths[0])
    bench.set("rx_len_i", lengths[1])
    ends = strobe("tx_last_i")
    if strobe("tx_beat_i"):
        adds.update(tx_bytes=lengths[0], tx_packets=ends)
    if strobe("rx_beat_i"):
        adds.update(rx_bytes=lengths[1])
    syndromes, at = [rng.choice([0x1F, RNR | rng.randrange(32), NAK | rng.randrange(6)]) for _ in range(2)], place()
    bench.set("ack_syndrome_i", syndromes[0])
    bench.set("ack_port_i", at)
    if strobe("ack_sent_i", at == port):
        adds.update(kinds_of(syndromes[0], "sent"))
    at = place()
    bench.set("cnp_port_i", at)
    if strobe("cnp_sent_i", at == port):
        adds.update(["np_cnp_sent"])
    at = place()
    bench.set("sniff_port_i", at)
    if strobe("sniff_lost_i", at == port):
        adds.update(["sniffer_drops"])
    at, opcode = place(), rng.choice([Op.RC_ACKNOWLEDGE, Op.RC_READ_RESPONSE_ONLY])
    bench.set("rxd_i", struct("rxd_t").random(rng, port=at, opcode=opcode, aeth_syndrome=syndromes[1]))
    if strobe("rxd_take_i", at == port and opcode == Op.RC_ACKNOWLEDGE):
        adds.update(kinds_of(syndromes[1], "received"))
    ends = rng.choice([None, *ENDS])
    bench.set("rx_ended_i", struct("rx_ended_t").pack(**{ends: 1} if ends else {}))
    adds.update([ENDS[ends]] if ends else [])
    found, at = {name: rng.randrange(2) for name in STROBES}, place()
    bench.set("rx_i", struct("rx_strobes_t").pack(port=at, **found))
    adds.update(STROBES[name] for name, on in found.items() if on and at == port)
    return adds


async def rows(bench):
    """All counters, by name."""
    found = {}
    for name, index in NAMES.items():
        bench.set("row_i", index)
        await bench.step()
        found[name] = bench.get("row_o")
    return found


@cocotb.test()
async def every_counter(dut):
    """KEY-14, KEY-23: violations among them; strobes of the other port count for nothing, several in a cycle all do."""
    bench = Bench(dut, 3)
    await bench.start()
    await bench.step(TURNS + 1)
    port, total = int(dut.Port.value), Counter()
    for _ in range(60):
        for _ in range(40):
            total.update(draw(bench, port, 2))
            await bench.step()
        for name in ("tx_beat_i", "rx_beat_i", "ack_sent_i", "cnp_sent_i", "sniff_lost_i", "rxd_take_i",
                     "rx_i", "rx_ended_i"):
            bench.set(name, 0)
        await bench.step(TURNS + 2)
        assert await rows(bench) == {name: total[name] for name in NAMES}
    assert all(total[name] for name in NAMES)


@cocotb.test()
async def all_at_once(dut):
    """Everything in every cycle, for many turns: none is lost, and a read is at most a turn of all behind."""
    bench = Bench(dut, 4)
    await bench.start()
    await bench.step(TURNS + 1)
    bench.set("tx_len_i", 64)
    bench.set("tx_beat_i", 1)
    bench.set("tx_last_i", 1)
    bench.set("rx_ended_i", struct("rx_ended_t").pack(good=1))
    for begun in range(1, 300):
        await bench.step()
        bench.set("row_i", NAMES["tx_bytes"])
        await bench.step()
        assert 0 <= 2 * begun - bench.get("row_o") // 64 <= TURNS + 2
    for name in ("tx_beat_i", "rx_ended_i"):
        bench.set(name, 0)
    await bench.step(TURNS + 2)
    found = await rows(bench)
    assert found["tx_bytes"] == 64 * found["tx_packets"] and found["rx_packets"] == found["tx_packets"]


@pytest.mark.parametrize("port", (0, 1))
def test_counters(port):
    simulate("hca_counters", __name__, {"Port": port})
