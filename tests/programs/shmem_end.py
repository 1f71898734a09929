"""A processing element of an OpenSHMEM job, by the C interface of Open MPI's: puts to the right, gets from the left,
and sums by atomics. It ends with a line "PE N of M: all right"."""

import ctypes

SHMEM = ctypes.CDLL("liboshmem.so.40", mode=ctypes.RTLD_GLOBAL)
SHMEM.shmem_malloc.restype = ctypes.c_void_p
SHMEM.shmem_malloc.argtypes = [ctypes.c_size_t]
SHMEM.shmem_putmem.argtypes = SHMEM.shmem_getmem.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t,
                                                             ctypes.c_int]
SHMEM.shmem_long_atomic_fetch_add.restype = ctypes.c_long
SHMEM.shmem_long_atomic_fetch_add.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_int]
SIZES = (1, 8, 3000, 70_000)
TURNS = 10


def pattern(pe, size):
    return bytes((pe * 31 + at) % 251 for at in range(size))


def main():
    SHMEM.shmem_init()
    me, number = SHMEM.shmem_my_pe(), SHMEM.shmem_n_pes()
    right, left = (me + 1) % number, (me - 1) % number
    size = max(SIZES)
    heap, offered, total = (SHMEM.shmem_malloc(bytes_) for bytes_ in (size, size, 8))
    ctypes.memset(total, 0, 8)
    ctypes.memmove(offered, pattern(me, size), size)
    SHMEM.shmem_barrier_all()
    for size in SIZES:
        SHMEM.shmem_putmem(heap, pattern(me, size), size, right)
        SHMEM.shmem_barrier_all()
        assert ctypes.string_at(heap, size) == pattern(left, size), size
        got = ctypes.create_string_buffer(size)
        SHMEM.shmem_getmem(got, offered, size, left)
        assert got.raw == pattern(left, size), size
        SHMEM.shmem_barrier_all()
    for _ in range(TURNS):
        SHMEM.shmem_long_atomic_fetch_add(total, me + 1, 0)
    SHMEM.shmem_barrier_all()
    expected = TURNS * number * (number + 1) // 2 if me == 0 else 0
    assert ctypes.c_long.from_address(total).value == expected
    SHMEM.shmem_barrier_all()
    print(f"PE {me} of {number}: all right", flush=True)
    SHMEM.shmem_finalize()


main()
