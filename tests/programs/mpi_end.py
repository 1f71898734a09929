"""What a rank does: point to point and collectives, each compared with what must come out. Needs mpi4py alone."""

import sys
from array import array

from mpi4py import MPI

SIZES = (0, 1, 100, 1000, 20000)


def pattern(rank, count):
    return array("i", [(rank * 7919 + i * 31) & 0x7FFFFFFF for i in range(count)])


def ring(comm, rank, size):
    """Everybody gets what the rank before has."""
    for count in SIZES:
        got = array("i", bytes(4 * count))
        comm.Sendrecv(pattern(rank, count), (rank + 1) % size, recvbuf=got, source=(rank - 1) % size)
        assert got == pattern((rank - 1) % size, count), f"ring of {count}"


def unexpected(comm, rank, size):
    """Messages that come before anybody asks, in another order than they are asked for."""
    pairs = [(peer, tag) for peer in range(size) if peer != rank for tag in range(8)]
    sends = [comm.Isend(pattern(rank + tag, 300), peer, tag) for peer, tag in pairs]
    comm.Barrier()
    for peer, tag in reversed(pairs):
        got = array("i", bytes(1200))
        comm.Recv(got, peer, tag)
        assert got == pattern(peer + tag, 300), f"tag {tag} from {peer}"
    MPI.Request.Waitall(sends)


def collectives(comm, rank, size):
    for count in (1, 500, 10000):
        total = array("i", bytes(4 * count))
        comm.Allreduce(array("i", [rank + 1] * count), total)
        assert set(total) == {size * (size + 1) // 2}, f"allreduce of {count}"
        data = pattern(2, count) if rank == 2 % size else array("i", bytes(4 * count))
        comm.Bcast(data, 2 % size)
        assert data == pattern(2, count), f"bcast of {count}"
        everyone = array("i", bytes(4 * count * size))
        comm.Allgather(pattern(rank, count), everyone)
        assert everyone == sum((pattern(r, count) for r in range(size)), array("i")), f"allgather of {count}"
        mixed = array("i", bytes(4 * count * size))
        comm.Alltoall(sum((pattern(rank * size + r, count) for r in range(size)), array("i")), mixed)
        assert mixed == sum((pattern(r * size + rank, count) for r in range(size)), array("i")), f"alltoall of {count}"


def one_sided(comm, rank, size):
    """Puts, and sums that must come out whole."""
    memory = array("q", bytes(8 * (size + 1)))
    window = MPI.Win.Create(memory, 8, comm=comm)
    window.Fence()
    for peer in range(size):
        window.Put(array("q", [rank + 100]), peer, rank)
    window.Fence()
    for _ in range(10):
        window.Accumulate(array("q", [rank + 1]), 0, size)
    window.Fence()
    assert list(memory[:size]) == [r + 100 for r in range(size)], memory
    assert memory[size] == (10 * size * (size + 1) // 2 if rank == 0 else 0), memory
    window.Free()


def main():
    comm = MPI.COMM_WORLD
    rank, size = comm.Get_rank(), comm.Get_size()
    for part in (ring, unexpected, collectives, one_sided):
        part(comm, rank, size)
    print(f"rank {rank} of {size}: all right", flush=True)


if __name__ == "__main__":
    sys.exit(main())
