"""Guests with simulated cards in their slots, behind a vIOMMU and the kernel's VFIO."""

import itertools
import json

from cards import UNCALIBRATED, Simulator
from guest import GATEWAY, LIMIT_S
from initramfs import OURS

# Calls of the kernel and of QEMU's server ask for time: a register read of a guest waits for the simulation.
MEMORY_MIB = 512
TRIES = 5
USE = f"export PATH=/{OURS}/bin:$PATH LD_LIBRARY_PATH=/{OURS}/lib;"


class Slots:
    """A guest, and a simulator's cards in its slots: the first one is 0000:01:00.0. A card's number here is that of the
    slot."""

    def __init__(self, boot, name, sockets, memory_mib=MEMORY_MIB, prepare=True):
        devices = ["-device", "intel-iommu,caching-mode=on,intremap=on"]
        for number, socket in enumerate(sockets):
            card = {"driver": "vfio-user-pci", "id": f"card{number}", "bus": f"slot{number}",
                    "socket": {"type": "unix", "path": str(socket)}}
            devices += ["-device", f"pcie-root-port,id=slot{number},chassis={number + 1},slot={number + 1}",
                        "-device", json.dumps(card)]
        self.guest = boot(name, *devices, memory_mib=memory_mib, cmdline="intel_iommu=on")
        self.addresses = [f"0000:{number + 1:02x}:00.0" for number in range(len(sockets))]
        self.local_ports = itertools.cycle(range(20_000, 30_000))
        if prepare:
            self.bind()

    def bind(self, *options):
        return self.check(f"hca bind {' '.join([*options, *self.addresses])}")

    def reset(self):
        """The whole guest, as by the button."""
        self.guest.reset()
        self.bind()

    def line(self, words, card=None, before=""):
        choice = "" if card is None else f"export HCA_VFIO={self.addresses[card]};"
        return f"{USE} {choice} {before} exec {' '.join(map(str, words))}"

    def start(self, words, card=None, before=""):
        """A program with our library, on a card or on all. `before`: what the shell does first."""
        return self.guest.start(self.line(words, card, before))

    def run(self, *words, card=None, before="", limit_s=LIMIT_S):
        return self.start(words, card, before).done(limit_s)

    def check(self, command, limit_s=LIMIT_S):
        """A line for the shell that must succeed."""
        return self.guest.check(f"{USE} {command}", limit_s)

    def start_pair(self, server, client=None):
        """Both ends of a program of two in this guest, on cards 0 and 1; they talk through its loopback device."""
        port = next(self.local_ports)
        first = self.start([*server, "-p", port], 0)
        self.guest.wait_listens(first, port)
        return first, self.start([*(client or server), "-p", port, "127.0.0.1"], 1)

    def pair(self, server, client=None, limit_s=LIMIT_S):
        return ends(lambda: self.start_pair(server, client), limit_s)


def start_between(server, client, words):
    """Both ends of a program, the server in one guest, the client in the other one."""
    port = next(server.guest.ports)
    first = server.start([*words, "-p", port], 0)
    server.guest.wait_listens(first, port)
    return first, client.start([*words, "-p", port, GATEWAY], 0)


def ends(start, limit_s=LIMIT_S):
    """Both ends of a pair, ended. perftest gives up when other work blurs the clocks that it compares: again then."""
    for _ in range(TRIES):
        found = [job.done(limit_s) for job in start()]
        if not any(UNCALIBRATED in done.text for done in found):
            break
    return found


def two_cards(hca, **options):
    words = [f"--{name}={value}" for name, value in options.items()]
    return Simulator(hca, "--cards=2", *words)
