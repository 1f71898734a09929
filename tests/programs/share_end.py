"""Registers memory, and says what of it is shared with the simulator: share_end.py LIBRARY."""

import ctypes
import mmap
import os
import re
import sys

PAGE = mmap.PAGESIZE
LEN = 64 * PAGE
ACCESS = 7  # local and remote writes, remote reads


def shared_bytes(first):
    """Bytes of the memory that are pages of a file."""
    count = 0
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            start, end = (int(word, 16) for word in re.match("([0-9a-f]+)-([0-9a-f]+)", line).groups())
            if "memfd:hca-memory" in line:
                count += max(0, min(end, first + LEN) - max(start, first))
    return count


def functions(path):
    """The library's, with what they return."""
    library = ctypes.CDLL(path)
    for name in ("ibv_get_device_list", "ibv_open_device", "ibv_alloc_pd", "ibv_reg_mr"):
        getattr(library, name).restype = ctypes.c_void_p
    return library


def child_sees(first, value):
    """A child looks at a byte, and changes it: what it saw."""
    child = os.fork()
    if child == 0:
        seen = ctypes.c_ubyte.from_address(first)
        good = seen.value == value
        seen.value = value ^ 0xff
        os._exit(0 if good else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


ibv = functions(sys.argv[1])
devices = ibv.ibv_get_device_list(None)
context = ibv.ibv_open_device(ctypes.c_void_p(ctypes.c_void_p.from_address(devices).value))
domain = ibv.ibv_alloc_pd(ctypes.c_void_p(context))
memory = mmap.mmap(-1, LEN, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory[:] = data = os.urandom(LEN)
at = ctypes.addressof(ctypes.c_ubyte.from_buffer(memory))


def register(start, count):
    """A region of the memory."""
    region = ibv.ibv_reg_mr(ctypes.c_void_p(domain), ctypes.c_void_p(at + start), ctypes.c_size_t(count), ACCESS)
    assert region, ctypes.get_errno()
    return region


def deregister(region):
    """Ends it."""
    assert ibv.ibv_dereg_mr(ctypes.c_void_p(region)) == 0


whole, odd = register(0, LEN), register(PAGE + 1, 2 * PAGE)
print("registered", shared_bytes(at))
print("child", child_sees(at + 5, data[5]))
print("same", memory[:] == data)
deregister(whole)
print("once", shared_bytes(at))
deregister(odd)
print("none", shared_bytes(at))
odd = register(PAGE + 1, 2 * PAGE)
print("odd", shared_bytes(at))
deregister(odd)
print("same", memory[:] == data)
