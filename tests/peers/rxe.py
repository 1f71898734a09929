"""A guest whose soft-RoCE is the peer of a simulated card."""

import itertools
import os
import shutil
import tempfile
from pathlib import Path

from cards import Simulator, free_port, listens
from flush_sums import MendedCable
from guest import GATEWAY, LIMIT_S
from renumbered import renumbers

MAC = "02:00:0a:00:00:02"
ADDRESSES = {"IPv4": "10.0.0.2/24", "IPv6": "fd00::2/64"}
# How a GID begins in sysfs.
GIDS = {"IPv4": "0000:0000:0000:0000:0000:ffff:", "IPv6": "fd00:"}
CARD_GIDS = {"IPv4": 1, "IPv6": 2}
CARD_ADDRESSES = {"IPv4": "10.0.0.1", "IPv6": "fd00::1"}
RXE_ADDRESSES = {kind: address.split("/")[0] for kind, address in ADDRESSES.items()}
MTU = 4200
"""Of the cable in bytes: RoCE packets of 4096 bytes with all headers."""
TRIES = 5
AFTER_S = 5
"""That rxe's end may live on when the card's end is done: 70 times a pingpong's time-out."""


ROLES = ["rxe", "card"]
"""Where a program's server runs."""


def ends(server):
    return "card -> rxe" if server == "rxe" else "rxe -> card"


def awaits_connections(pid):
    """Does librdmacm say that a program on a card listens?"""
    for link in Path("/proc", str(pid), "fd").iterdir():
        try:
            if os.readlink(link).endswith("-listening"):
                return True
        except OSError:
            continue  # closed meanwhile
    return False


class Rxe:
    """The guest, and the simulator at the other end of its cable. There may be one after the other: the cable is
    plugged in again by itself."""

    def __init__(self, boot, hca, programs, name="rxe"):
        self.hca = hca
        self.programs = {path.name: path for path in programs}
        """Ours: on this machine a file, in the guest on its PATH."""
        self.folder = Path(tempfile.mkdtemp(prefix="hca-"))
        self.socket = self.folder / "cable"
        self.sim = self.options = self.mending = None
        self.captures = itertools.count()
        self.plug()
        self.guest = boot(
            name, "-netdev",
            f"stream,id=cable,server=off,addr.type=unix,addr.path={self.socket},reconnect-ms=100", "-device",
            f"virtio-net-pci,netdev=cable,mac={MAC},csum=off,gso=off,guest_csum=off,host_tso4=off")
        addresses = "; ".join(f"ip address add {address} dev cable nodad" for address in ADDRESSES.values())
        self.guest.check(f"""
            set -e
            modprobe rdma_rxe; modprobe rdma_ucm
            for interface in /sys/class/net/*; do
              [ $(cat $interface/address) != {MAC} ] || ip link set ${{interface##*/}} name cable
            done
            ip link set cable mtu {MTU} up; {addresses}
            rdma link add rxe0 type rxe netdev cable""")
        self.gids = {kind: self._gid(start) for kind, start in GIDS.items()}

    def _gid(self, start):
        """The kernel lists it some time after the address has been given."""
        files = "/sys/class/infiniband/rxe0/ports/1/gids/*"
        found = self.guest.check(f"until grep -l ^{start} {files} 2>/dev/null; do usleep 20000; done")
        return int(found.rsplit("/", 1)[1])

    def plug(self, **options):
        """A simulator with such a cable: plug(faults="loss=0.01"), or with such a card: plug(model=True). The one that
        is there already if it has it."""
        words = tuple(f"--{name}" if value is True else f"--{name}={value}" for name, value in sorted(options.items()))
        if self.mending is not None:
            self.mending.stop()
            self.mending = None
        if self.sim is not None and (self.options != words or not self.sim.running()):
            self.sim.stop()
            self.sim = None
        if self.sim is None:
            self.sim = Simulator(self.hca, "--cards=1", f"--peer=card0={self.socket}", *words)
            self.options = words
        return self.sim

    def plug_mended(self):
        """A simulator with a cable that mends the ICRC of FLUSHes: the cable."""
        if self.mending is None:
            self.sim.stop()
            card = self.folder / "card"
            self.sim, self.options = Simulator(self.hca, "--cards=1", f"--peer=card0={card}"), None
            self.mending = MendedCable(self.socket, card)
        return self.mending

    def pair(self, words, kind="IPv4", server="rxe", live=False):
        """Starts both ends of a program of two: (server, client). `words`: a function of device and GID index."""
        card, rxe = words("hca0", CARD_GIDS[kind]), words("rxe0", self.gids[kind])
        card[0] = self.programs.get(card[0], card[0])
        if server == "rxe":
            port = next(self.guest.ports)
            first = self.guest.start(" ".join(map(str, [*rxe, "-p", port])))
            self.guest.wait_listens(first, port)
            return first, self.sim.start(0, *card, "-p", port, "127.0.0.1", live=live)
        port = free_port()
        first = self.sim.start(0, *card, "-p", port, live=live)
        first.wait_until(lambda: listens(port), f"it listened on port {port}")
        return first, self.guest.start(" ".join(map(str, [*rxe, "-p", port, GATEWAY])))

    def connect(self, words, server="rxe", kind="IPv4"):
        """Starts both ends of a program that connects by the connection manager: (server, client). `words`: a function
        of the end's name ("server" or "client") and of both ends' addresses, the server's first."""
        addresses = {"rxe": RXE_ADDRESSES[kind], "card": CARD_ADDRESSES[kind]}
        client = "card" if server == "rxe" else "rxe"
        of = {name: list(map(str, words(name, addresses[server], addresses[client]))) for name in ("server", "client")}
        if server == "rxe":
            first = self.guest.start(" ".join(of["server"]))
            self._wait_guest_listens(first)
            return first, self.sim.start(0, *of["client"])
        first = self.sim.start(0, *of["server"])
        first.wait_until(lambda: awaits_connections(first.pid), "it listened for connections")
        return first, self.guest.start(" ".join(of["client"]))

    def _wait_guest_listens(self, job):
        looking = self.guest.start("until rdma resource show cm_id | grep -q LISTEN; do usleep 20000; done")
        self.guest.wait(lambda: looking.code is not None or job.code is not None, LIMIT_S)
        looking.kill()
        assert job.code is None, f"it ended before it listened: {job.text}"

    def run_connected(self, words, server="rxe", kind="IPv4", limit_s=LIMIT_S):
        """Both ends to their ends: (server, client)."""
        return self._run(*self.connect(words, server, kind), limit_s)

    def run_captured(self, words, server="rxe"):
        """As run_connected, for a program that keeps more on its way than the card, as simulated here, acknowledges in
        rxe's time: (ends, runs that were repeated). What rxe then sends anew it may give other numbers
        (renumbered.py), which the card must refuse: such a run is repeated if the capture proves it."""
        for repeated in range(TRIES):
            capture = self.folder / f"{next(self.captures)}.pcap"
            self.plug(pcap=capture)
            done = self.run_connected(words, server)
            if all(end.code == 0 for end in done) or not renumbers(capture, RXE_ADDRESSES["IPv4"]):
                break
        return done, repeated

    def run_pair(self, words, kind="IPv4", server="rxe", limit_s=LIMIT_S):
        """Both ends to their ends: (server, client)."""
        return self._run(*self.pair(words, kind, server), limit_s)

    @staticmethod
    def _run(first, second, limit_s):
        done = second.done(limit_s)
        if done.code != 0 and not first.ended(30):
            return first.kill(), done
        return first.done(limit_s), done

    def run_hasty_pair(self, words, kind, server):
        """As run_pair, for a program that gives rxe less time than the card, as simulated here, needs for a message:
        (ends, runs that were repeated). rxe then begins the message anew, and takes no acknowledgement of it before it
        has sent its first packet again. If the one it does not take is that of the program's last message, the card's
        end has all that it waited for and goes, and rxe repeats to nobody for ever."""
        for repeated in range(TRIES):
            sent, counted = self.sim.sent(0)[0], self.counters()
            ends = self.pair(words, kind, server)
            ours, theirs = ends[::-1] if server == "rxe" else ends
            code = ours.done(LIMIT_S).code
            if theirs.ended(AFTER_S) or code != 0 or not self.acknowledged(sent, counted):
                break
            theirs.kill()
        return [end.done(0) if end.ended() else end.kill() for end in ends], repeated

    def acknowledged(self, sent, counted):
        """Whether rxe has repeated something since, and has received every packet that the card has sent."""
        now = self.counters()
        since = {name: now[name] - counted[name] for name in now}
        return since["completer_retry_err"] > 0 and since["rcvd_pkts"] == self.sim.sent(0)[0] - sent

    def end_all(self):
        """Programs that still run."""
        self.guest.kill_all()
        for program in self.sim.programs:
            if not program.ended():
                program.kill()

    def counters(self):
        """What rxe has counted."""
        text = self.guest.check("grep . /sys/class/infiniband/rxe0/ports/1/hw_counters/*")
        lines = [line.rsplit("/", 1)[1].split(":") for line in text.splitlines()]
        return {name: int(value) for name, value in lines if name != "lifespan"}

    def stop(self):
        self.guest.stop()
        self.sim.stop()
        if self.mending is not None:
            self.mending.stop()
        shutil.rmtree(self.folder)
