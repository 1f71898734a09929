"""The root file system of a guest, all in memory: a cpio archive of Debian's packages and of programs from here."""

import fcntl
import hashlib
import lzma
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIBRARIES = "usr/lib/x86_64-linux-gnu"
LOADER = "ld-linux-x86-64.so.2"
MACHINE_LOADER = Path("/lib64", LOADER)
OURS = "opt/hca"
"""Where programs of this machine are, in bin and lib."""

PROGRAMS = """
    dash busybox kmod ip rdma lspci setpci ping ss
    ibv_devices ibv_devinfo ibv_rc_pingpong ibv_uc_pingpong ibv_ud_pingpong ibv_srq_pingpong
    rping rdma_server rdma_client ucmatose udaddy rstream riostream rcopy
    ib_send_bw ib_send_lat ib_write_bw ib_write_lat ib_read_bw ib_read_lat ib_atomic_bw ib_atomic_lat
""".split()
KMOD = "insmod lsmod modprobe rmmod depmod modinfo".split()
MODULES = """
    virtio_pci virtio_net virtio_console 9p 9pnet_virtio rdma_rxe ib_uverbs rdma_ucm vfio_pci vfio_iommu_type1
    shpchp dummy
""".split()
# Loaded by a name that no dependency tells.
MODULES += "crc32_generic crc32c_generic crc32c_intel crc32_cryptoapi failover net_failover".split()
LINKS = {"bin": "usr/bin", "sbin": "usr/bin", "usr/sbin": "bin", "lib": "usr/lib", "lib64": "usr/lib64"}
FOLDERS = ["dev", "proc", "sys", "tmp", "run", "host", "root"]
# The C library is the guest's: an older machine's programs run with it.
OF_THE_GUEST = re.compile(r"(ld-linux|libc|libm|libdl|librt|libpthread|libresolv)[-.]")


class Archive:
    """Entries by name; the format is the kernel's "newc". All belong to root."""

    def __init__(self):
        self.entries = {}

    def folder(self, name):
        for parent in [*reversed(Path(name).parents[:-1] if name else []), Path(name)]:
            self.entries.setdefault(str(parent), (stat.S_IFDIR | 0o755, b""))

    def put(self, name, data, mode=0o644):
        self.folder(str(Path(name).parent))
        self.entries[name] = (stat.S_IFREG | mode, data)

    def copy(self, name, source):
        self.put(name, Path(source).read_bytes(), 0o755 if os.access(source, os.X_OK) else 0o644)

    def link(self, name, target):
        self.folder(str(Path(name).parent))
        self.entries[name] = (stat.S_IFLNK | 0o777, target.encode())

    def write(self, file):
        def put(number, name, mode, data, device=(0, 0)):
            path = name.encode() + b"\0"
            fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(path), 0)
            head = b"070701" + b"".join(b"%08X" % field for field in fields) + path
            file.write(head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4))

        names = [name for name in self.entries if name != "."]
        for number, name in enumerate(sorted(names), start=2):
            put(number, name, *self.entries[name])
        put(0, "dev/console", stat.S_IFCHR | 0o600, b"", (5, 1))
        put(0, "TRAILER!!!", 0, b"")


def needed(program, loader, folders=()):
    """Shared libraries that the loader finds for a program."""
    found = ["--library-path", ":".join(map(str, folders))] if folders else []
    text = subprocess.run([loader, *found, "--list", program], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False).stdout
    missing = re.findall(r"(\S+) => not found", text)
    assert not missing, f"{program} needs {', '.join(missing)}, which this machine does not have"
    return {Path(path) for path in re.findall(r"=> (/\S+)", text)}


def modules(root):
    """{path below the kernel's module folder: content} of the modules and all that they ask for."""
    found = {path.name.split(".")[0].replace("-", "_"): path for path in root.rglob("*.ko*")}
    chosen = {}
    waiting = [name.replace("-", "_") for name in MODULES]
    while waiting:
        name = waiting.pop()
        if name in chosen or name not in found:  # built in
            continue
        path = found[name]
        data = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
        chosen[name] = (str(path.relative_to(root)).removesuffix(".xz"), data)
        for words in re.findall(rb"\0(?:depends|softdep)=([^\0]*)", data):
            words = re.sub(r"\b(pre|post):", " ", words.decode()).replace(",", " ")
            waiting += [word.replace("-", "_") for word in words.split()]
    return dict(chosen.values())


def add_modules(archive, kernel, user, folder):
    """The modules, and their list as depmod writes it."""
    root = next((kernel / "usr/lib/modules").iterdir())
    place = Path("usr/lib/modules", root.name)
    scratch = folder / "modules"
    for path, data in modules(root).items():
        file = scratch / "lib/modules" / root.name / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    for path in root.glob("modules.*"):
        if path.name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
            shutil.copy(path, scratch / "lib/modules" / root.name)
    libraries = user / LIBRARIES
    subprocess.run([libraries / LOADER, "--library-path", libraries, "--argv0", "depmod", user / "usr/bin/kmod", "-b",
                    scratch, root.name], check=True)
    for path in sorted((scratch / "lib/modules" / root.name).rglob("*")):
        if path.is_file():
            archive.copy(str(place / path.relative_to(scratch / "lib/modules" / root.name)), path)
    shutil.rmtree(scratch)


def base(guests, folder):
    """What all guests have."""
    archive = Archive()
    user = guests / "user"
    libraries = user / LIBRARIES
    for name in FOLDERS:
        archive.folder(name)
    for name, target in LINKS.items():
        archive.link(name, target)
    files = {libraries / "libgcc_s.so.1"}
    for name in PROGRAMS:
        path = next(path for path in (user / "usr/bin" / name, user / "usr/sbin" / name) if path.exists())
        archive.copy(f"usr/bin/{name}", path)
        files |= needed(path, libraries / LOADER, [libraries, libraries / "systemd"])
    for path in (libraries / "libibverbs").glob("librxe-*.so"):
        archive.copy(f"{LIBRARIES}/libibverbs/{path.name}", path)
        files |= needed(path, libraries / LOADER, [libraries])
    for path in files:
        archive.copy(f"{LIBRARIES}/{path.name}", path)
    archive.copy(f"usr/lib64/{LOADER}", libraries / LOADER)
    archive.copy("etc/libibverbs.d/rxe.driver", user / "etc/libibverbs.d/rxe.driver")
    archive.copy("usr/share/misc/pci.ids", user / "usr/share/misc/pci.ids")
    for name in KMOD:
        archive.link(f"usr/bin/{name}", "kmod")
    archive.link("usr/bin/sh", "dash")
    archive.put("etc/passwd", b"root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/tmp:/bin/sh\n")
    archive.put("etc/group", b"root:x:0:\nnogroup:x:65534:\n")
    archive.put("etc/hosts", b"127.0.0.1 localhost\n")
    archive.put("init", (HERE / "init.sh").read_bytes(), 0o755)
    add_modules(archive, guests / "kernel", user, folder)
    return archive


def cached_base(guests, cache):
    """The file with it: made anew only when something that it is made of has changed."""
    sources = [guests / "versions", Path(__file__), HERE / "init.sh"]
    key = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    path = cache / f"base-{key}.cpio"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of runs side by side one makes it
        if not path.is_file():
            for old in cache.glob("base-*.cpio"):
                old.unlink()
            new = path.with_name("new")
            with new.open("wb") as file:
                base(guests, cache).write(file)
            new.rename(path)
    return path


def with_programs(guests, cache, destination, programs, libraries, own=()):
    """An archive of the base and programs of this machine: they are in /opt/hca/bin, what they load in /opt/hca/lib.
    `libraries`: {name: file}, instead of what the machine has under these names. `own`: programs for the libraries of
    the guest, too, in /opt/hca/own."""
    archive = Archive()
    for program in own:
        archive.copy(f"{OURS}/own/{Path(program).name}", program)
    files = {}
    for program in programs:
        archive.copy(f"{OURS}/bin/{Path(program).name}", program)
        files |= {path.name: path for path in needed(program, MACHINE_LOADER)}
    for path in libraries.values():
        files |= {path.name: path for path in needed(path, MACHINE_LOADER)}
    for name, path in (files | libraries).items():
        if not OF_THE_GUEST.match(name):
            archive.copy(f"{OURS}/lib/{name}", path)
    with destination.open("wb") as file:
        file.write(cached_base(guests, cache).read_bytes())
        archive.write(file)
    return destination
