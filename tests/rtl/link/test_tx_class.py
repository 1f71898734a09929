"""hca_tx_class: the ring of each packet that leaves, against what its bytes say."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, simulate, struct

MAC, CLASS, PORTS = struct("mac_t"), struct("eth_class_t"), 2
IP = {4: b"\x08\x00", 6: b"\x86\xdd"}


def frame(rng, tagged, kind, pcp, dscp):
    """The first 64 bytes of a frame; kind: 4, 6, or 0 for an EtherType that is neither. All else is random."""
    ethertype = IP.get(kind) or bytes((rng.randrange(0x88, 0x90), rng.randrange(256)))
    tag = b"\x81\x00" + bytes((pcp << 5 | rng.randrange(32), rng.randrange(256))) if tagged else b""
    traffic_class = dscp << 2 | rng.randrange(4)
    if kind == 4:
        head = bytes((0x45, traffic_class))
    elif kind == 6:
        head = bytes((0x60 | traffic_class >> 4, (traffic_class & 15) << 4 | rng.randrange(16)))
    else:
        head = b""
    data = rng.randbytes(12) + tag + ethertype + head
    return data + rng.randbytes(64 - len(data))


@cocotb.test()
async def rings(dut):
    """VL-8, IEEE 802.1Q 8.6.6: LRH.VL on InfiniBand; on Ethernet the class of the priority that the port trusts, of
    priority 0 where a frame does not say it. A beat that is not taken changes nothing."""
    bench = Bench(dut, 1)
    await bench.start()
    rng, ring = bench.rng, None
    for number in range(4000):
        if number % 40 == 0:
            ib = [rng.randrange(4) == 0 for _ in range(PORTS)]
            trust_pcp = [rng.randrange(2) for _ in range(PORTS)]
            prio_of = [[rng.randrange(8) for _ in range(64)] for _ in range(PORTS)]
            sl2vl = [[rng.randrange(16) for _ in range(16)] for _ in range(PORTS)]
            bench.set("ib_i", sum(bit << port for port, bit in enumerate(ib)))
            for port in range(PORTS):
                dscps = sum(prio << 3 * dscp for dscp, prio in enumerate(prio_of[port]))
                word = CLASS.pack(trust_pcp=trust_pcp[port], dscp=dscps)
                bench.set("class_i", word, port * CLASS.width, CLASS.width)
                bench.set("sl2vl_i", sum(vl << 4 * sl for sl, vl in enumerate(sl2vl[port])), 64 * port, 64)
        port, pcp, dscp = rng.randrange(PORTS), rng.randrange(8), rng.randrange(64)
        tagged, kind, take = rng.randrange(2), rng.choice((0, 4, 6)), ring is None or rng.randrange(4) > 0
        data = frame(rng, tagged, kind, pcp, dscp)
        bench.set("port_i", port)
        bench.set("mac_i", MAC.pack(last=1, len_bytes=64, data=int.from_bytes(data, "little")))
        bench.set("take_i", take)
        await bench.step(2)
        if take:
            said = (tagged and pcp) if trust_pcp[port] else (kind and prio_of[port][dscp])
            ring = data[0] >> 4 if ib[port] else sl2vl[port][said]
        assert bench.get("vl_o") == ring, (number, port, tagged, kind, pcp, dscp)


def test_tx_class():
    simulate("hca_tx_class", __name__)
