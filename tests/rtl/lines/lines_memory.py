"""Context memory behind the ports of hca_lines, part of its bench (decision 0082)."""

from collections import deque

from lines_defs import BASE, BEAT, INDEX_BITS, LINE_BITS, REQ, RSP, WR


class MemoryPorts:
    """Reads of contexts, which may fail, and writes, each beat of which is known."""

    def answer(self):
        """The next beat of the oldest read."""
        beats = self.reads and self.reads[0][0] <= self.bench.cycle and self.draw("rsp")
        self.bench.set("rd_rsp_valid_i", bool(beats))
        if beats:
            beat = self.reads[0][1].popleft()
            self.bench.set("rd_rsp_i", beat)
            if not self.reads[0][1]:
                self.reads.popleft()

    def sample_memory(self):
        """Reads of contexts that somebody wants, behind all writes of their line; exactly the writes that are due."""
        if self.bench.get("rd_req_valid_o"):
            self.begun = True
            req = REQ.unpack(self.bench.get("rd_req_o"))
            index = (req["addr"] >> 8) - BASE
            assert req["func"] == 0 and req["len_bytes"] == 256 and req["addr"] % 256 == 0
            assert index >> INDEX_BITS == 0
            assert all((index ^ write[0]) % (1 << LINE_BITS) for write in self.writes), "read ahead of a write"
            if self.req_ready:
                self.read(index)
        if not self.bench.get("wr_valid_o"):
            assert self.write_beat == 0, "a write stops inside"
            return
        assert self.writes, "a write that nobody asked for"
        index, first, data, end = self.writes[0]
        beat = first + self.write_beat
        word = self.bench.get("wr_o")
        assert word == WR.pack(last=beat == end - 1, addr=(BASE + index) << 8 | beat << 6, strb=(1 << 64) - 1,
                               data=data >> 512 * beat & BEAT), f"beat {beat} of the context of {index:#x}"
        if self.wr_ready:
            old = self.memory.get(index, 0)
            self.memory[index] = old & ~(BEAT << 512 * beat) | data & BEAT << 512 * beat
            self.write_beat += 1
            if beat == end - 1:
                self.writes.popleft()
                self.write_beat = 0

    def read(self, index):
        """An answer, now and then one that fails."""
        data, self.read_count = self.memory.get(index, 0), self.read_count + 1
        beats = deque(RSP.pack(last=beat == 3, data=data >> 512 * beat & BEAT) for beat in range(4))
        if self.rng.random() < self.errors:
            self.bad_reads[index] += 1
            beat = self.rng.randrange(4)
            short = self.rng.random() < 0.5
            beats = deque(list(beats)[:beat] + [RSP.pack(last=short or beat == 3, err=1)]
                          + ([] if short else list(beats)[beat + 1:]))
        due = self.bench.cycle + self.rng.randint(*self.latency)
        self.reads.append((due, beats))
        assert len(self.reads) <= 64
