"""A guest under QEMU, and programs in it."""

import base64
import itertools
import json
import os
import re
import select
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from cards import WITH_US, Done, free_port

# Emulation, which works everywhere. HCA_GUEST_ACCEL=kvm is ten times faster where /dev/kvm is usable.
ACCEL = os.environ.get("HCA_GUEST_ACCEL", "tcg,thread=multi")
MEMORY_MIB = 512
START_S = 600  # a very busy machine with two cores; 5 s are usual
LIMIT_S = 120  # for a program
ANSWER_S = 60
GATEWAY = "10.0.2.2"
"""In a guest: the machine that it runs on, whose TCP ports it reaches."""
PORTS = 8
# A guest that this machine lets wait is no broken one: no look at its clocks.
QUIET = "no_timer_check nowatchdog"
DEAD = re.compile(r"Kernel panic|Oops:|BUG: |general protection fault")
TAIL_LINES = 30


class GuestError(AssertionError):
    """A guest is gone, stuck or broken."""


class Job:
    """A program under way in a guest. The same words as of a program on a simulated card (cards.Program)."""

    def __init__(self, guest, name, words):
        self.guest, self.name, self.words = guest, name, words
        self.pid = self.code = None

    @property
    def text(self):
        return (self.guest.share / self.name).read_text(encoding="utf-8", errors="replace")

    def ended(self, within_s=0):
        return self.guest.wait(lambda: self.code is not None, within_s)

    def signal(self, name):
        """To the shell and all that it has started. Names as kill has them: KILL, STOP."""
        self.guest.wait(lambda: self.pid is not None, ANSWER_S)
        if self.code is None:
            self.guest.order("kill", self.pid, name)

    def done(self, limit_s=LIMIT_S):
        """Waits for its end. One that does not end is killed: the test has failed."""
        if not self.ended(limit_s):
            self.signal("KILL")
            self.ended(ANSWER_S)
            raise self.guest.error(f"{self.words!r} had not ended after {limit_s} s and has printed\n{self.text}")
        return Done([self.words], self.code, self.text)

    def kill(self):
        self.signal("KILL")
        return self.done()

    def prints(self, pattern, limit_s=LIMIT_S):
        """Waits for a line."""
        return self.wait_until(lambda: re.search(pattern, self.text), f"it printed {pattern!r}", limit_s)

    def wait_until(self, condition, what, limit_s=LIMIT_S):
        """Until the condition holds. The program must still run then."""
        end = time.monotonic() + limit_s
        while not (found := condition()):
            if self.ended(0.05) and not (found := condition()):
                raise self.guest.error(f"{self.words!r} ended before {what}, with {self.code}: {self.text}")
            if found:
                break
            if time.monotonic() > end:
                raise self.guest.error(f"not after {limit_s} s: {what}; {self.words!r} has printed\n{self.text}")
        return found


class Guest:
    """A machine of one processor with Linux. It lives until stop(), and outlives no run."""

    def __init__(self, guests, initramfs, name, *devices, memory_mib=MEMORY_MIB, cmdline=""):
        self.name = name
        self.folder = Path(tempfile.mkdtemp(prefix="hca-"))  # names of sockets must be short
        self.share = self.folder / "share"
        self.share.mkdir()
        self.console = self.folder / "console.log"
        self.console.touch()
        self.ports = itertools.cycle([free_port() for _ in range(PORTS)])
        """TCP ports of this machine that lead into the guest, with the same numbers."""
        self.jobs, self.numbers = {}, itertools.count(1)
        self.ready, self.unread = 0, b""
        listeners = {name: self._listen(name) for name in ("agent", "monitor")}
        command = self._command(guests, initramfs, devices, memory_mib, cmdline)
        with (self.folder / "qemu.log").open("w") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.death = os.pidfd_open(self.process.pid)
        self.agent, self.monitor = (self._accept(listeners[name]) for name in ("agent", "monitor"))
        self.events = []
        self._greet()
        self.wait_ready()

    def _command(self, guests, initramfs, devices, memory_mib, cmdline):
        root = guests / "qemu"
        libraries = root / "usr/lib/x86_64-linux-gnu"
        kernel = next((guests / "kernel/boot").glob("vmlinuz-*"))
        ports = {next(self.ports) for _ in range(PORTS)}
        tcp = ",".join(["user,id=tcp,ipv6=off", *(f"hostfwd=tcp:127.0.0.1:{port}-:{port}" for port in ports)])
        return [
            *WITH_US, "env", f"QEMU_MODULE_DIR={libraries}/qemu",
            libraries / "ld-linux-x86-64.so.2", "--library-path", f"{libraries}:{root}/usr/lib",
            root / "usr/bin/qemu-system-x86_64", "-L", root / "usr/share/qemu", "-L", root / "usr/share/seabios",
            "-L", root / "usr/lib/ipxe/qemu",
            "-name", self.name, "-accel", ACCEL, "-M", "q35,kernel-irqchip=split,memory-backend=ram", "-cpu", "max",
            "-smp", "1", "-nodefaults", "-no-user-config", "-display", "none", "-m", str(memory_mib),
            "-object", f"memory-backend-memfd,id=ram,size={memory_mib}M,share=on",
            "-serial", f"file:{self.console}", "-qmp", f"unix:{self.folder}/monitor",
            "-kernel", kernel, "-initrd", initramfs, "-append", f"console=ttyS0 panic=-1 quiet {QUIET} {cmdline}",
            "-chardev", f"socket,id=agent,path={self.folder}/agent",
            "-device", "virtio-serial-pci", "-device", "virtserialport,chardev=agent,name=agent",
            "-virtfs", f"local,path={self.share},mount_tag=host,security_model=none",
            "-netdev", tcp, "-device", "virtio-net-pci,netdev=tcp,mac=52:54:00:00:01:01",
            *devices]

    def _listen(self, name):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.folder / name))
        listener.listen(1)
        return listener

    def _accept(self, listener):
        with listener:
            if not self._readable(listener, START_S):
                raise self.error("QEMU did not start")
            return listener.accept()[0]

    # ---- What comes from the guest

    def error(self, what):
        """An exception that tells what the guest and QEMU have said at last."""
        log = (self.folder / "qemu.log").read_text(encoding="utf-8", errors="replace")
        console = self.console.read_text(encoding="utf-8", errors="replace").splitlines()
        failure = next((number for number, line in enumerate(console) if DEAD.search(line)), len(console))
        console = console[max(0, failure - TAIL_LINES):failure + TAIL_LINES]
        state = f"QEMU ended with {self.process.returncode}" if self.process.poll() is not None else "QEMU runs"
        return GuestError("\n".join([f"guest {self.name}: {what}", f"{state}: {log}", "console:", *console]))

    def _readable(self, file, within_s):
        """Something to read, or nothing within that time; a QEMU that has ended is an error."""
        found, _, _ = select.select([file, self.death], [], [], max(0, within_s))
        if file in found:
            return True
        if self.death in found:
            self.process.wait()
            raise self.error("QEMU has ended")
        return False

    def _lines(self, within_s):
        """What the guest has answered meanwhile."""
        if not self._readable(self.agent, within_s):
            return []
        data = self.agent.recv(65536)
        if not data:
            self.process.wait(ANSWER_S)
            raise self.error("QEMU has ended")
        *lines, self.unread = (self.unread + data).split(b"\n")
        return [line.decode().split() for line in lines]

    def wait(self, condition, within_s):
        """Until the condition on jobs holds, at most that long."""
        end = time.monotonic() + within_s
        while not condition():
            left = end - time.monotonic()
            lines = self._lines(min(left, 1))
            if not lines and DEAD.search(self.console.read_text(encoding="utf-8", errors="replace")):
                raise self.error("its kernel has failed")
            for word, *rest in lines:
                if word == "hello":
                    self.ready += 1
                elif word == "started":
                    self.jobs[rest[0]].pid = int(rest[1])
                elif word == "ended":
                    self.jobs[rest[0]].code = int(rest[1])
            if self.ready > 1:
                raise self.error("it has started anew by itself")
            if left <= 0:
                return condition()
        return True

    def wait_ready(self):
        if not self.wait(lambda: self.ready, START_S):
            raise self.error(f"not ready after {START_S} s")

    # ---- What is asked of it

    def order(self, *words):
        self.agent.sendall(" ".join(map(str, words)).encode() + b"\n")

    def start(self, command):
        """A line for the guest's shell. The shell and what it starts are a process group of their own."""
        name = str(next(self.numbers))
        self.jobs[name] = job = Job(self, name, command)
        (self.share / name).touch()
        self.order("run", name, base64.b64encode(command.encode()).decode())
        return job

    def run(self, command, limit_s=LIMIT_S):
        return self.start(command).done(limit_s)

    def kill_all(self):
        """Whatever still runs."""
        for job in self.jobs.values():
            if job.code is None:
                job.kill()

    def check(self, command, limit_s=LIMIT_S):
        """Runs what must succeed; what it has printed."""
        done = self.run(command, limit_s)
        assert done.code == 0, f"guest {self.name}: {done}"
        return done.text

    def wait_listens(self, job, port):
        """Until somebody in the guest accepts TCP connections on the port."""
        entry = f" [0-9A-F]*:{port:04X} 0*:0000 0A "
        loop = f"until grep -q '{entry}' /proc/net/tcp /proc/net/tcp6; do usleep 20000; done"
        looking = self.start(loop)
        try:
            self.wait(lambda: looking.code is not None or job.code is not None, LIMIT_S)
            if looking.code is None:
                raise self.error(f"{job.words!r} does not listen on port {port}: {job.code}, {job.text}")
        finally:
            looking.kill()

    # ---- QEMU's own

    def _message(self, within_s):
        line = b""
        while not line.endswith(b"\n"):
            if not self._readable(self.monitor, within_s):
                raise self.error(f"QEMU's monitor says nothing for {within_s} s")
            byte = self.monitor.recv(1)
            if not byte:
                self.process.wait(ANSWER_S)
                raise self.error("QEMU has ended")
            line += byte
        return json.loads(line)

    def _greet(self):
        assert "QMP" in self._message(START_S)
        self.command("qmp_capabilities")

    def command(self, name, **arguments):
        """A command of QEMU's monitor, and its answer."""
        self.monitor.sendall(json.dumps({"execute": name, "arguments": arguments}).encode())
        while "return" not in (answer := self._message(ANSWER_S)):
            if "error" in answer:
                raise self.error(f"{name}: {answer['error']['desc']}")
            self.events.append(answer)
        return answer["return"]

    def wait_event(self, name, within_s=ANSWER_S):
        """Of QEMU's monitor: one that has come already, or the next one."""
        end = time.monotonic() + within_s
        while (event := next((event for event in self.events if event["event"] == name), None)) is None:
            self.events.append(self._message(end - time.monotonic()))
        self.events.remove(event)
        return event

    def reset(self):
        """As by the button: nothing in the guest gets a last word."""
        self.ready = 0
        self.command("system_reset")
        for job in self.jobs.values():
            if job.code is None:
                job.code = -1
        self.wait_ready()

    def stop(self, keep=None):
        """Ends it; `keep`: folder for its console."""
        if self.death is None:
            return
        self.process.kill()
        self.process.wait()
        os.close(self.death)
        self.death = None
        self.agent.close()
        self.monitor.close()
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.console, keep / f"{self.name}.log")
        shutil.rmtree(self.folder)
