"""Prints what a program finds of cards in /sys and /dev, as JSON: files by their paths, and what else it sees."""

import json
import os
import stat
from pathlib import Path

CLASS = Path("/sys/class/infiniband")


def text(path):
    return path.read_text(encoding="ascii").removesuffix("\n")


def files(top):
    return {str(path.relative_to(top)): text(path) for path in top.rglob("*") if path.is_file()}


def pci(path):
    return {file.name: text(file) for file in path.iterdir() if file.is_file() and file.name != "config"} | {
        "config": (path / "config").read_bytes().hex()}


def device(path):
    return {"realpath": os.path.realpath(path / "device"), "subsystem": os.path.realpath(path / "subsystem"),
            "files": files(path.resolve()), "ports": sorted(os.listdir(path / "ports")), "pci": pci(path / "device"),
            "in_bus": (Path("/sys/bus/pci/devices") / Path(os.path.realpath(path / "device")).name).exists()}


def node(path):
    with path.open("r+b", buffering=0):
        return {"is_device": stat.S_ISCHR(path.stat().st_mode),
                "number": f"{os.major(path.stat().st_rdev)}:{os.minor(path.stat().st_rdev)}"}


def pseudo_terminal():
    try:
        return os.isatty(os.openpty()[1])
    except OSError as error:
        return str(error)


def verbs(path):
    return {name: text(path / name) for name in ("ibdev", "dev", "abi_version")} | {
        "device": os.path.realpath(path / "device")}


def mad(path):
    return {name: text(path / name) for name in ("ibdev", "port")} | {"device": os.path.realpath(path / "device")}


print(json.dumps({
    "cards": {path.name: device(path) for path in sorted(CLASS.glob("*"))},
    "verbs": {path.name: verbs(path) for path in Path("/sys/class/infiniband_verbs").glob("uverbs*")},
    "mads": {path.name: mad(path) for path in Path("/sys/class/infiniband_mad").glob("*[0-9]")},
    "abi": {path.parent.name: text(path) for path in Path("/sys/class").glob("infiniband*/abi_version")},
    "nodes": {path.name: node(path) for path in Path("/dev/infiniband").glob("*")},
    "classes": sorted(os.listdir("/sys/class")), "devices": sorted(os.listdir("/sys/devices")),
    "buses": sorted(os.listdir("/sys/bus/pci/devices") if Path("/sys/bus/pci/devices").is_dir() else []),
    "dev": sorted(os.listdir("/dev")), "net": sorted(os.listdir("/sys/class/net")),
    "pseudo_terminal": pseudo_terminal(), "user": os.getuid(), "group": os.getgid(),
}))
