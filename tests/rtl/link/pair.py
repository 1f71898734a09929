"""Two links back to back (link_pair_bench): control from Python in steps of many cycles; the work per cycle is in the
bench's SystemVerilog."""

import logging
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge, Timer
from common import struct

WR, CTRL, ARB = struct("link_wr_t"), struct("link_ctrl_t"), struct("link_vl_arb_t")
DOWN, INIT, ARMED, ACTIVE, DEFER = 1, 2, 3, 4, 5
ROW_HIGH, ROW_LOW, ROW_SL2VL, ROW_CTRL, ROW_DSCP = 0, 64, 128, 129, 131
CREDITS, TX_FILL, RX_FILL, TX_PACKETS, TX_BLOCKS, RX_PACKETS, TX_WAIT = 16, 32, 48, 64, 80, 96, 112
ERRORS = ("symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "port_rcv_remote_phys_errors",
          "port_rcv_switch_relay_errors", "port_xmit_discards", "port_xmit_constraint_errors",
          "port_rcv_constraint_errors", "local_link_integrity_errors", "excessive_buffer_overrun_errors",
          "vl15_dropped", "fcp_sent", "fcp_received", "lpcrc_errors", "vl_mismatch")
VL15 = 15
TX_RING = 1023    # blocks that a data VL has at most, of a pool
RX_RING = 512     # blocks of a data VL, with its share of the ring of VL15, which has 16
PERIOD = 2048                 # FcpMaxCycles
OP_VLS = {1: 1, 2: 2, 4: 3, 8: 4, 15: 5}


class Pair:
    """The bench. Ports that are arrays over the sides take a pair or one value for both."""

    def __init__(self, dut, seed=1, ib=1):
        self.dut, self.seed, self.ib = dut, seed, ib
        self.rng = random.Random(seed)
        self.toggle = 0
        self.shadow = {}
        logging.getLogger("cocotb").setLevel(logging.WARNING)

    WIDTHS = dict(enable_i=16, budget_i=32, gap_i=8, stall_i=8, spell_i=8, hold_i=16, fcp_loss_i=8, fcp_flip_i=8,
                  fcp_block_i=16, data_err_i=8)

    def set(self, **values):
        """Drives ports by name, without the suffix."""
        for name, value in values.items():
            port = f"{name}_i"
            if port in self.WIDTHS:
                pair = value if isinstance(value, tuple) else (value, value)
                value = pair[0] | pair[1] << self.WIDTHS[port]
            getattr(self.dut, port).value = value

    async def start(self, state=ACTIVE, **ctrl):
        """Clock, reset, both sides configured: every VL with a weight, no limits."""
        for handle in self.dut:
            if handle._name.endswith("_i") and handle._name != "clk_i":
                handle.value = 0
        self.set(rst=1, ib=self.ib, seed=self.seed * 1000 + 77, phy_up=1, mind_open=1, min_beats=1, max_beats=66)
        self.clock = cocotb.start_soon(Clock(self.dut.clk_i, 4, unit="ns").start())
        await self.run(4)
        self.set(rst=0)
        await self.run(20)
        self.vls = int(self.dut.num_vls_o.value)
        self.data = (1 << self.vls) - 1        # mask of the data VLs
        self.tx_ring, self.rx_ring = TX_RING, RX_RING - -(-16 // self.vls)
        for side in (0, 1):
            for i in range(16):
                await self.row(side, ROW_LOW + i, ARB.pack(vl=i % self.vls, weight=33 if i < self.vls else 0))
                await self.row(side, ROW_HIGH + i, 0)
            if not self.ib:   # a priority is the top of its DSCPs, and a class of its own
                await self.row(side, ROW_SL2VL, sum(prio << 4 * prio for prio in range(8)))
                for prio in range(8):
                    await self.row(side, ROW_DSCP + prio, prio * 0x11111111)
            await self.ctrl(side, state=state, **ctrl)
        await self.run(400)
        return self

    async def run(self, cycles=1):
        """Lets the clock run; wakes at a falling edge."""
        await Timer(4 * (cycles - 1) + 1, "ns")
        await FallingEdge(self.dut.clk_i)

    async def row(self, side, row, data):
        """Writes a row of a side's link."""
        self.toggle ^= 1
        self.set(wr=WR.pack(port=side, row=row, data=data), wr_toggle=self.toggle)
        await RisingEdge(self.dut.clk_i)
        await FallingEdge(self.dut.clk_i)

    async def ctrl(self, side, **fields):
        """Changes fields of link_ctrl."""
        now = self.shadow.setdefault(side, dict(state=ACTIVE, op_vls=OP_VLS[self.vls], policy=0, limit=255, mtu=5,
                                                hoq_life=31, pfc_enable=0))
        now.update(fields)
        await self.row(side, ROW_CTRL, CTRL.pack(**now))

    def words(self, port, width=32):
        """Per side a list of the port's values: an array over VLs gives a list each, others an integer."""
        handle = getattr(self.dut, port)
        value, half = int(handle.value), len(handle) // 2
        sides = [value >> half * side & ((1 << half) - 1) for side in (0, 1)]
        if half <= width:
            return sides
        return [[side >> width * i & ((1 << width) - 1) for i in range(half // width)] for side in sides]

    async def stat(self, word):
        """A status word of both sides."""
        self.set(stat_addr=word)
        await self.run(2)
        return self.words("stat_data_o")

    async def errors(self):
        """Error counters of both sides by name."""
        both = [await self.stat(128 + i) for i in range(len(ERRORS))]
        return [dict(zip(ERRORS, column, strict=True)) for column in zip(*both, strict=True)]

    async def per_vl(self, base):
        """Status words base..base+15 of both sides."""
        both = [await self.stat(base + i) for i in range(16)]
        return [list(column) for column in zip(*both, strict=True)]

    def received(self):
        """Packets that the checkers have seen, in all."""
        return sum(sum(side) for side in self.words("packets_o"))

    async def until(self, condition, limit, what, step=200):
        """Runs until a condition holds."""
        for _ in range(0, limit, step):
            if condition():
                return
            await self.run(step)
        assert condition(), f"{what} not within {limit} cycles"

    async def drained(self, limit=200000, patience=20 * PERIOD):
        """Runs until everything sent has arrived or is known to be lost; it must never stop for long."""
        idle, last = 0, -1
        await self.run(50)
        for _ in range(0, limit, 500):
            now = self.received()
            idle = idle + 500 if now == last else 0
            last = now
            if self.words("idle_o", 1) == [1, 1] and self.quiet():
                return
            assert idle < patience, f"nothing has arrived for {idle} cycles"
            await self.run(500)
        raise AssertionError(f"still busy after {limit} cycles")

    def quiet(self):
        """No link has work."""
        return int(self.dut.busy_o.value) == 0

    def check_clean(self):
        """No packet was changed or out of order, no beat taken back."""
        assert self.words("errors_o") == [0, 0] and self.words("withdrawn_o") == [0, 0]

    async def check_whole(self, vls=None):
        """Rings empty, every credit back, on both sides, once each has told all it knows."""
        await self.run(3 * PERIOD)
        for base, want in ((TX_FILL, 0), (RX_FILL, 0), (CREDITS, self.rx_ring)):
            for side, column in enumerate(await self.per_vl(base)):
                got = [column[vl] for vl in vls or range(self.vls)]
                assert got == [want] * len(got), f"side {side}, words {base}: {got}"
