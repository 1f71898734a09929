"""A rank of a job of MPICH, by its C interface, for there is no binding of Debian's: messages of all sizes around a
ring, and what collectives give. It ends with a line "rank N of M: all right"."""

import ctypes

# Handles of mpi.h, which are integers.
WORLD, INT, BYTE, SUM, MAX = (ctypes.c_int(value) for value in
                              (0x44000000, 0x4C000405, 0x4C00010D, 0x58000003, 0x58000001))
IGNORE = ctypes.c_void_p(1)  # MPI_STATUS_IGNORE
COUNT = 1000
MPI = ctypes.CDLL("libmpich.so.12")


def asked(call):
    value = ctypes.c_int(-1)
    assert call(WORLD, ctypes.byref(value)) == 0
    return value.value


def around(rank, ranks):
    """To the right, from the left."""
    for size in (0, 1, 64, 3000, 70000, 1 << 20):
        sent = bytes((rank + at) % 251 for at in range(size))
        got = ctypes.create_string_buffer(size + 1)
        code = MPI.MPI_Sendrecv(sent, size, BYTE, (rank + 1) % ranks, 7, got, size, BYTE, (rank - 1) % ranks, 7, WORLD,
                                IGNORE)
        assert code == 0
        assert got.raw[:size] == bytes(((rank - 1) % ranks + at) % 251 for at in range(size)), size


def together(rank, ranks):
    """Everybody's numbers."""
    mine = (ctypes.c_int * COUNT)(*range(rank, rank + COUNT))
    all_of = (ctypes.c_int * COUNT)()
    for kind, expect in ((SUM, lambda at: sum(range(ranks)) + ranks * at), (MAX, lambda at: ranks - 1 + at)):
        assert MPI.MPI_Allreduce(mine, all_of, COUNT, INT, kind, WORLD) == 0
        assert list(all_of) == [expect(at) for at in range(COUNT)]
    gathered = (ctypes.c_int * (COUNT * ranks))()
    assert MPI.MPI_Allgather(mine, COUNT, INT, gathered, COUNT, INT, WORLD) == 0
    assert list(gathered) == [other + at for other in range(ranks) for at in range(COUNT)]
    one = (ctypes.c_int * COUNT)(*(mine if rank == 1 else [0] * COUNT))
    assert MPI.MPI_Bcast(one, COUNT, INT, 1, WORLD) == 0
    assert list(one) == list(range(1, 1 + COUNT))
    sent = (ctypes.c_int * ranks)(*(100 * rank + other for other in range(ranks)))
    got = (ctypes.c_int * ranks)()
    assert MPI.MPI_Alltoall(sent, 1, INT, got, 1, INT, WORLD) == 0
    assert list(got) == [100 * other + rank for other in range(ranks)]


def main():
    assert MPI.MPI_Init(None, None) == 0
    rank, ranks = asked(MPI.MPI_Comm_rank), asked(MPI.MPI_Comm_size)
    around(rank, ranks)
    together(rank, ranks)
    assert MPI.MPI_Barrier(WORLD) == 0
    print(f"rank {rank} of {ranks}: all right", flush=True)
    MPI.MPI_Finalize()


main()
