"""What the block tests share: struct layouts read from hca_pkg, seeded stream agents that check the
handshake law, a host memory that answers reads out of order, and the start of the simulator.

One cycle of a bench: inputs change after the rising edge; at the falling edge everything has settled and a
transfer is `valid && ready`. All agents work in that rhythm, so no test depends on simulator regions.
"""

import fcntl
import functools
import hashlib
import logging
import os
import random
import sys
from collections import deque
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
RTL = ROOT / "hw" / "rtl"
PKG = RTL / "pkg" / "hca_pkg.sv"
FEATURES_PKG = RTL / "pkg" / "hca_features_pkg.sv"
MAD_PKG = RTL / "pkg" / "hca_mad_pkg.sv"
LINK_PKG = RTL / "link" / "hca_link_pkg.sv"
RX_PKG = RTL / "responder" / "hca_rx_pkg.sv"
WIRE_PKG = RTL / "wire" / "hca_wire_pkg.sv"
SHARED = {"hca_pkg": PKG, "hca_features_pkg": FEATURES_PKG, "hca_mad_pkg": MAD_PKG, "hca_link_pkg": LINK_PKG}


# ---- Layouts -----------------------------------------------------------------------------------------


@functools.cache
def packages():
    """The shared packages, hca_rx_pkg and hca_wire_pkg as slang reads them: what owns them, and {package: members}."""
    from pyslang.driver import Driver

    driver = Driver()
    driver.addStandardArgs()
    files = " ".join(map(str, [*SHARED.values(), RX_PKG, WIRE_PKG]))
    if not (driver.parseCommandLine(f"slang +incdir+{PKG.parent} {files}") and driver.processOptions()
            and driver.parseAllSources()):
        raise RuntimeError(f"{PKG}: slang cannot read it")
    compilation = driver.createCompilation()
    return compilation, {name: list(compilation.getPackage(name)) for name in (*SHARED, "hca_rx_pkg", "hca_wire_pkg")}


@functools.cache
def layouts():
    """{struct name: (width, {field: (lsb, width)})} for every packed struct of those packages."""
    found = {}
    for member in [member for package in packages()[1].values() for member in package]:
        if "TypeAlias" not in str(member.kind):
            continue
        kind = member.targetType.type.canonicalType
        if kind.kind.name == "PackedStructType":
            found[member.name] = (kind.bitWidth, {f.name: (f.bitOffset, f.type.bitWidth) for f in kind})
    return found


class Struct:
    """Packs and unpacks one packed struct of those packages. Nested structs are plain integers."""

    def __init__(self, name):
        self.name = name
        self.width, self.fields = layouts()[name]

    def pack(self, **values):
        """Integer of the struct; fields not named are 0."""
        word = 0
        for name, value in values.items():
            lsb, width = self.fields[name]
            value = int(value)
            if value < 0 or value >> width:
                raise ValueError(f"{self.name}.{name} has {width} bits, {value:#x} does not fit")
            word |= value << lsb
        return word

    def unpack(self, word):
        """{field: integer} of a packed word."""
        return {name: (word >> lsb) & ((1 << width) - 1) for name, (lsb, width) in self.fields.items()}

    def random(self, rng, **values):
        """Packed struct with the given fields, all others random."""
        fields = {name: rng.getrandbits(width) for name, (_, width) in self.fields.items()}
        fields.update(values)
        return self.pack(**fields)


@functools.cache
def struct(name):
    """The Struct of that name."""
    return Struct(name)


@functools.cache
def constants():
    """Integer localparams of hca_pkg (limits) by name, of the default build."""
    members = [member for member in packages()[1]["hca_pkg"] if member.kind.name == "Parameter"]
    return {member.name: int(member.value.value) for member in members if member.type.isIntegral}


# ---- Bench -------------------------------------------------------------------------------------------


class Bench:
    """Clock, reset, and the agents of one DUT. Ports are read and written as integers, by slices."""

    def __init__(self, dut, seed):
        self.dut = dut
        self.rng = random.Random(seed)
        self.agents = []
        self.cycle = 0
        self._driven = {}
        self._dirty = set()
        self._seen = {}
        self._handles = {}
        self._readers = {}
        self._falling = self._rising = None
        logging.getLogger("cocotb").setLevel(logging.WARNING)

    def set(self, port, value, lsb=0, width=None):
        """Drives a port, or `width` bits of it from `lsb`."""
        old = self._driven.get(port, 0)
        if width is None:
            new = int(value)
        else:
            mask = ((1 << width) - 1) << lsb
            new = (old & ~mask) | (int(value) << lsb)
        if new != old or port not in self._driven:
            self._driven[port] = new
            self._dirty.add(port)

    def get(self, port, lsb=0, width=None):
        """Reads a port as it stands at the falling edge."""
        value = self._seen.get(port)
        if value is None:
            value = self._seen[port] = self._read(port)
        return value if width is None else (value >> lsb) & ((1 << width) - 1)

    def _read(self, port):
        reader = self._readers.get(port)
        if reader is None:
            # Not `int(handle.value)`: what cocotb makes on the way took a quarter of a test's time.
            handle = self._handle(port)
            raw = handle._handle
            narrow = len(handle) < 32
            reader = raw.get_signal_val_long if narrow else lambda: int(raw.get_signal_val_binstr(), 2)
            self._readers[port] = reader
        return reader()

    def _handle(self, port):
        handle = self._handles.get(port)
        if handle is None:
            handle = self._handles[port] = getattr(self.dut, port)
        return handle

    def _flush(self):
        for port in self._dirty:
            self._handle(port).value = self._driven[port]
        self._dirty.clear()

    async def start(self):
        """Starts the clock and resets (where there is a reset); every input port begins at 0."""
        import cocotb
        from cocotb.clock import Clock
        from cocotb.triggers import FallingEdge, RisingEdge

        self._falling, self._rising = FallingEdge(self.dut.clk_i), RisingEdge(self.dut.clk_i)
        inputs = [handle for handle in self.dut if handle._name.endswith("_i")]
        # The clocks of a block's parts are one (hca_part_clock).
        clocks = [handle for handle in inputs if handle._name.startswith("clk_")]
        for handle in inputs:
            if handle not in clocks:
                self.set(handle._name, 0)
        resets = hasattr(self.dut, "rst_i")
        if resets:
            self.set("rst_i", 1)
        self._flush()
        for clock in clocks:
            cocotb.start_soon(Clock(clock, 4, unit="ns").start())
        for _ in range(3):
            await self._rising
        if resets:
            self.set("rst_i", 0)
        return self

    async def step(self, cycles=1):
        """Runs cycles: agents drive, everything settles, agents look."""
        for _ in range(cycles):
            for agent in self.agents:
                agent.drive()
            if self._dirty:
                self._flush()
            await self._falling
            self._seen.clear()
            for agent in self.agents:
                agent.sample()
            await self._rising
            self.cycle += 1

    async def until(self, condition, limit=20000, what="condition"):
        """Steps until the condition holds; fails after `limit` cycles."""
        for _ in range(limit):
            if condition():
                return
            await self.step()
        raise AssertionError(f"{what} did not come true within {limit} cycles")


class Source:
    """Drives a stream. `index` picks one stream of a port that is an array. `rate`: chance per idle cycle
    to offer the next word. Signals: <name>_valid_i, <name>_ready_o, <name>_i (or `payload` ports)."""

    def __init__(self, bench, name, kind=None, index=0, rate=1.0, payload=None):
        self.bench, self.name, self.index, self.rate = bench, name, index, rate
        self.payload = payload or [(f"{name}_i", struct(kind).width if kind else None)]
        self.queue = deque()
        self.offered = False
        self.shown = None     # valid as it was driven last
        self.taken = []       # cycles of acceptance
        self.on_accept = None
        bench.agents.append(self)

    def put(self, *words):
        """Queues words; a stream of several payload ports takes one tuple per transfer."""
        self.queue.extend(words)

    def idle(self):
        """Everything queued has been accepted."""
        return not self.queue

    def drive(self):
        """Offers the next word, now and then."""
        bench = self.bench
        if not self.offered and self.queue and bench.rng.random() < self.rate:
            self.offered = True
            words = self.queue[0] if isinstance(self.queue[0], tuple) else (self.queue[0],)
            for (port, width), word in zip(self.payload, words, strict=True):
                if width is None:
                    bench.set(port, word)
                else:
                    bench.set(port, word, self.index * width, width)
        if self.offered is not self.shown:
            self.shown = self.offered
            bench.set(f"{self.name}_valid_i", self.offered, self.index, 1)

    def sample(self):
        """Takes the word off the queue when it was accepted."""
        if self.offered and self.bench.get(f"{self.name}_ready_o", self.index, 1):
            word = self.queue.popleft()
            self.offered = False
            self.taken.append(self.bench.cycle)
            if self.on_accept:
                self.on_accept(word)


class Sink:
    """Accepts a stream and checks its law: an offered word stays, unchanged, until it is accepted.
    `rate`: chance of ready per cycle. Words are kept in `got` (tuples if there are several payload ports)."""

    def __init__(self, bench, name, index=0, width=None, rate=1.0, payload=None, on_word=None):
        self.bench, self.name, self.index, self.rate = bench, name, index, rate
        self.payload = payload or [(f"{name}_o", width)]
        self.on_word = on_word
        self.got = []
        self.when = []
        self.ready = False
        self.held = None
        bench.agents.append(self)

    def drive(self):
        """Chooses ready, blind to valid."""
        self.ready = self.bench.rng.random() < self.rate
        self.bench.set(f"{self.name}_ready_i", self.ready, self.index, 1)

    def sample(self):
        """Looks at the stream."""
        if not self.bench.get(f"{self.name}_valid_o", self.index, 1):
            assert self.held is None, f"{self.name}: valid was withdrawn"
            return
        words = tuple(self.bench.get(port) if width is None else
                      self.bench.get(port, self.index * width, width) for port, width in self.payload)
        word = words if len(words) > 1 else words[0]
        assert self.held is None or self.held == word, f"{self.name}: payload changed while stalled"
        self.held = None if self.ready else word
        if self.ready:
            self.got.append(word)
            self.when.append(self.bench.cycle)
            if self.on_word:
                self.on_word(word)


# ---- Host memory -------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=65536)
def host_line(func, line):
    """The 64 bytes of a line of host memory, as an integer; the same for ever."""
    digest = hashlib.blake2b(f"{func}:{line}".encode(), digest_size=64).digest()
    return int.from_bytes(digest, "little")


def host_bytes(func, addr, count):
    """Bytes of host memory."""
    first, last = addr // 64, (addr + max(count, 1) - 1) // 64
    data = b"".join(host_line(func, line).to_bytes(64, "little") for line in range(first, last + 1))
    return data[addr % 64:addr % 64 + count]


class HostReads:
    """Answers DMA reads: each after its own random latency, beats of different tags interleaved, tags in any
    order. Checks the rules of the read port. `prefix` names the response ports (<prefix>_valid_i, ...)."""

    def __init__(self, bench, prefix, latency=(20, 60), rate=1.0, interleave=True, bad=()):
        self.bench, self.prefix, self.rate = bench, prefix, rate
        self.latency, self.interleave, self.bad = latency, interleave, set(bad)
        self.waiting = {}   # tag: [due cycle, func, next line, lines left, serial number]
        self.requests = 0
        self.current = None
        bench.agents.append(self)

    def request(self, tag, word):
        """A request of the DUT."""
        req = struct("dma_rd_req_t").unpack(word)
        addr, count = req["addr"], req["len_bytes"]
        legal = 1 <= count <= 512 and addr // 512 == (addr + count - 1) // 512
        assert legal, f"illegal read {addr:#x}+{count}"
        assert tag not in self.waiting, f"tag {tag} is in use"
        lines = (addr + count - 1) // 64 - addr // 64 + 1
        due = self.bench.cycle + self.bench.rng.randint(*self.latency)
        self.waiting[tag] = [due, req["func"], addr // 64, lines, self.requests]
        self.requests += 1

    def answered(self):
        """Requests answered completely, counted from the first one without a gap."""
        return min((entry[4] for entry in self.waiting.values()), default=self.requests)

    def drive(self):
        """Sends one beat of one of the requests that are due."""
        bench = self.bench
        due = [tag for tag, entry in self.waiting.items() if entry[0] <= bench.cycle]
        if not due or bench.rng.random() >= self.rate:
            bench.set(f"{self.prefix}_valid_i", 0)
            return
        tag = self.current
        if self.interleave or tag not in due:
            tag = bench.rng.choice(due) if self.interleave else due[0]
        self.current = tag
        entry = self.waiting[tag]
        _, func, line, left, _ = entry
        err = line in self.bad
        last = err or left == 1
        data = 0 if err else host_line(func, line)
        bench.set(f"{self.prefix}_valid_i", 1)
        bench.set(f"{self.prefix}_tag_i", tag)
        bench.set(f"{self.prefix}_i", struct("dma_rd_rsp_t").pack(last=last, err=err, data=data))
        if last:
            del self.waiting[tag]
        else:
            entry[2], entry[3] = line + 1, left - 1

    def sample(self):
        """Nothing to see: responses are never back-pressured."""


# ---- Run ---------------------------------------------------------------------------------------------


def simulate(top, module, parameters=None, tests=None, source=None, memories=()):
    """Builds RTL module `top` and runs the cocotb tests of Python module `module` (in the caller's folder),
    or those whose name matches the regular expression `tests`. `source`: the file of a `top` that is not RTL but
    a bench around it. Verilator finds the modules below `top` by their file names. `memories`: modules whose `mem`
    the tests reach into; all else that they touch are ports and parameters of `top`."""
    from cocotb_tools.runner import get_results
    from model import MODELS, Runner

    folders = sorted(folder for folder in RTL.rglob("*") if folder.is_dir())
    suffix = "".join(f"_{key}{value}" for key, value in (parameters or {}).items())
    build = MODELS / f"{top}{suffix}"
    args = ["-Wno-fatal", "-Wno-lint", "-Wno-style", "--assert", "--x-initial", "unique", "-O3"]
    if source:
        folders.append(source.parent)
        args += ["--timing"]  # a bench may make its own clock
    else:
        source = next(folder / f"{top}.sv" for folder in folders if (folder / f"{top}.sv").is_file())
    for folder in folders:
        args += ["-y", str(folder)]
    # Packages of the block's folder (a bench's too), of those below it, and of those between it and hw/rtl.
    above = [folder for folder in source.parent.parents if RTL in folder.parents]
    shared = list(SHARED.values())
    packages = {*source.parent.rglob("*_pkg.sv"), *(p for f in above for p in f.glob("hca_*_pkg.sv"))}
    packages = shared + sorted(packages - set(shared))
    build.mkdir(parents=True, exist_ok=True)
    runner = Runner(memories)
    # Two test files of one block share its model: one at a time, whatever process they run in.
    with open(build.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        runner.build(sources=[*packages, source], includes=[PKG.parent], hdl_toplevel=top, build_dir=build,
                     build_args=args, parameters=parameters or {}, always=True, timescale=("1ns", "1ps"))
        here = Path(sys.modules[module].__file__).parent if module in sys.modules else Path.cwd()
        python_path = os.pathsep.join([str(Path(__file__).parent), str(here)])
        results = runner.test(hdl_toplevel=top, test_module=module, build_dir=build, test_filter=tests,
                              results_xml=str(build / "results.xml"), extra_env={"PYTHONPATH": python_path},
                              plusargs=["+verilator+rand+reset+2", "+verilator+seed+1"])
    ran, failed = get_results(results)
    assert ran > 0 and failed == 0, f"{top}: {failed} of {ran} tests failed"
