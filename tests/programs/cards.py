"""Simulators with their cards, and unmodified programs on them."""

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

# A program that has not ended by then never will. Generous: the machine may be shared.
LIMIT_S = 600
TICK_S = 0.02  # between two looks at something that another process does
LISTEN = "0A"
# perftest compares the processor's clock with the system's, and gives up when other work on the machine blurs that.
UNCALIBRATED = "Can't produce a report"
TRIES = 5
# Nothing outlives the run, however it ends.
WITH_US = ["setpriv", "--pdeathsig", "KILL"]
PORTS = random.Random(os.getpid()).sample(range(10_000, 30_000), 20_000)  # below those the kernel gives to clients


def free_port():
    """A TCP port that nobody uses, and that this process has not given out before."""
    while True:
        port = PORTS.pop()
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
                return port
            except OSError:
                continue


def listens(port):
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTEN and int(fields[1].rsplit(":", 1)[1], 16) == port:
                return True
    return False


def listens_by_cm(pid):
    """Does a process listen by our connection manager? It has a file open that says so (registry.rs)."""
    for link in Path("/proc", str(pid), "fd").iterdir():
        try:
            if os.readlink(link).endswith("-listening"):
                return True
        except FileNotFoundError:
            continue  # closed meanwhile
    return False


@dataclass
class Done:
    """A program that has ended."""

    words: list
    code: int
    text: str
    """What it has printed, standard output and standard error in one."""

    def __str__(self):
        return f"{' '.join(self.words)}: exit code {self.code}\n{self.text}"


class Program:
    """A program under way. Its output goes to a file: it never waits for a reader."""

    def __init__(self, command, words, environment, folder):
        self.words = [str(word) for word in words]
        self.output = tempfile.NamedTemporaryFile(dir=folder, prefix="output-", delete=False)
        self.process = subprocess.Popen([*WITH_US, *command, *self.words], stdin=subprocess.DEVNULL, stdout=self.output,
                                        stderr=subprocess.STDOUT, env=environment)

    @property
    def text(self):
        return Path(self.output.name).read_text(encoding="utf-8", errors="replace")

    @property
    def pid(self):
        """`hca run` becomes the program: this is its own."""
        return self.process.pid

    def ended(self, within_s=0):
        try:
            self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def wait_until(self, condition, what):
        """Until the condition holds. The program must still run then."""
        end = time.monotonic() + LIMIT_S
        while not condition():
            assert not self.ended(TICK_S) or condition(), f"ended before {what}: {self.done()}"
            assert time.monotonic() < end, f"not after {LIMIT_S} s: {what}; {self.words} has printed\n{self.text}"

    def prints(self, pattern):
        """Waits for a line."""
        self.wait_until(lambda: re.search(pattern, self.text), f"it printed {pattern!r}")
        return re.search(pattern, self.text)

    def done(self, limit_s=LIMIT_S):
        """Waits for its end. One that does not end is killed, and its exit code says so."""
        if not self.ended(limit_s):
            self.process.kill()
            self.process.wait()
        self.output.close()
        return Done(self.words, self.process.returncode, self.text)

    def kill(self):
        self.process.kill()
        return self.done()

    def signal(self, number):
        self.process.send_signal(number)


class Simulator:
    """`hca sim` in a folder of its own."""

    def __init__(self, hca, *options):
        self.hca = hca
        # Names of sockets must be short: not below pytest's folders.
        self.folder = Path(tempfile.mkdtemp(prefix="hca-"))
        self.sockets = self.folder / "cards"
        self.programs = []
        self.messages = self.folder / "messages"
        with self.messages.open("w") as messages:
            self.process = subprocess.Popen([*WITH_US, hca, "sim", "--dir", self.sockets, *map(str, options)],
                                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=messages,
                                            text=True)
        line = self.process.stdout.readline()
        assert str(self.sockets) in line, f"hca sim said {line!r}, {self.messages.read_text()!r}"

    def start(self, card, *words, live=False, options=()):
        """A program on a card; `live`: it prints line by line, as on a terminal; `options` of hca run."""
        choice = [] if card is None else ["--card", str(card)]
        unbuffered = ["stdbuf", "-oL"] if live else []
        command = [self.hca, "run", "--dir", self.sockets, *choice, *options, "--", *unbuffered]
        program = Program(command, words, os.environ, self.folder)
        self.programs.append(program)
        return program

    def run(self, card, *words, options=()):
        return self.start(card, *words, options=options).done()

    def start_pair(self, server, client=None, cards=(0, 1), live=False):
        """Both ends of a program of two, on a port of their own; the client gets the server's words by default."""
        port = free_port()
        first = self.start(cards[0], *server, "-p", port, live=live)
        first.wait_until(lambda: listens(port), f"it listened on port {port}")
        second = self.start(cards[1], *(client or server), "-p", port, "localhost", live=live)
        return first, second

    def pair(self, server, client=None, cards=(0, 1)):
        for _ in range(TRIES):
            ends = [program.done() for program in self.start_pair(server, client, cards)]
            if not any(UNCALIBRATED in done.text for done in ends):
                break
        return ends

    def info(self, card=None):
        """What the cards say, or what one says. One function of each must be free."""
        choice = [] if card is None else ["--card", str(card)]
        text = subprocess.run([self.hca, "info", "--json", "--dir", self.sockets, *choice], check=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=LIMIT_S).stdout
        cards = [json.loads(line) for line in text.splitlines()]
        return cards if card is None else cards[0]

    def sent(self, *cards):
        """Packets that each of the cards has sent so far."""
        return [self.info(card)["ports"][0]["tx_packets"] for card in cards]

    def running(self):
        return self.process.poll() is None

    def wait_says(self, pattern):
        """Until it has said so on standard error."""
        end = time.monotonic() + LIMIT_S
        while not re.search(pattern, text := self.messages.read_text(encoding="utf-8")):
            assert time.monotonic() < end, f"hca sim has not said {pattern!r} but {text!r}"
            time.sleep(TICK_S)

    def held(self):
        """Memory of clients that the simulator has mapped, or holds a descriptor of."""
        process = Path("/proc", str(self.process.pid))
        lines = (process / "maps").read_text(encoding="utf-8").splitlines()
        names = [line.split(maxsplit=5)[5] for line in lines if "/memfd:" in line]
        for link in (process / "fd").iterdir():
            try:
                names.append(os.readlink(link))
            except FileNotFoundError:
                continue  # closed meanwhile
        return [name for name in names if "/memfd:" in name or re.fullmatch(r"/proc/\d+/mem", name)]

    def wait_holds_nothing(self, *but):
        """Until nothing of a client is left, besides what is named so."""
        end = time.monotonic() + LIMIT_S
        while held := [name for name in self.held() if not any(word in name for word in but)]:
            assert time.monotonic() < end, f"the simulator still has {held}"
            time.sleep(TICK_S)

    def stop(self):
        """Ends what still runs. The simulator itself must end in order."""
        for program in self.programs:
            if not program.ended():
                program.kill()
        if self.running():
            self.process.send_signal(signal.SIGINT)
        rest, _ = self.process.communicate(timeout=LIMIT_S)
        sys.stderr.write(self.messages.read_text(encoding="utf-8"))  # pytest shows it where the test has failed
        shutil.rmtree(self.folder)
        assert self.process.returncode == 0 and "stopped after" in rest, (self.process.returncode, rest)
