"""A cable between a card and Linux's soft-RoCE that mends the ICRC of FLUSH packets, and of nothing else.

soft-RoCE (Linux 6.2 to 6.12 at least) does not know where the payload of a FLUSH begins, and takes its ICRC over the
transport headers and then, as if they were the payload, over all of them again; and so it expects it. Nobody who
computes the ICRC as the specification says can exchange a FLUSH with it. All else of the packet is as annex A19 has it:
what remains when the sum is right is worth testing."""

import contextlib
import socket
import struct
import threading
import zlib

FLUSH, ROCE_PORT, ETHERNET, IPV4, UDP = 0x1C, 4791, 14, 20, 8


def sums(frame):
    """The ICRC of a FLUSH over IPv4 as the specification says and as soft-RoCE does; None of another frame."""
    ip, udp, rest = frame[ETHERNET:][:IPV4], frame[ETHERNET + IPV4:][:UDP], frame[ETHERNET + IPV4 + UDP:-4]
    is_roce = frame[12:14] == b"\x08\x00" and ip[9] == 17 and udp[2:4] == ROCE_PORT.to_bytes(2, "big")
    if not is_roce or rest[0] != FLUSH:
        return None
    ip, udp, covered = bytearray(ip), bytearray(udp), bytearray(rest)
    for at in (1, 8, 10, 11):     # type of service, time to live, checksum
        ip[at] = 0xFF
    udp[6:8] = b"\xff\xff"
    covered[4] = 0xFF
    right = zlib.crc32(b"\xff" * 8 + ip + udp + covered)
    return right.to_bytes(4, "little"), zlib.crc32(rest, right).to_bytes(4, "little")


class MendedCable:
    """Listens where the guest's end of the cable is, and goes on to the card's."""

    def __init__(self, guest_path, card_path):
        self.paths = guest_path, card_path
        self.mended = [0, 0]    # FLUSHes of the card, of soft-RoCE
        self.others = 0         # with another sum than expected
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(guest_path))
        self.listener.listen()
        self.ends = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                guest, _ = self.listener.accept()
                card = socket.socket(socket.AF_UNIX)
                card.connect(str(self.paths[1]))
                self.ends += [guest, card]
                for way in ((card, guest, 0), (guest, card, 1)):
                    threading.Thread(target=self._copy, args=way, daemon=True).start()

    def _copy(self, source, target, of_guest):
        with contextlib.suppress(OSError), source.makefile("rb") as stream:
            while head := stream.read(4):
                target.sendall(head + self._mend(stream.read(struct.unpack(">I", head)[0]), of_guest))
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)

    def _mend(self, frame, of_guest):
        both = sums(frame)
        if both is None:
            return frame
        if frame[-4:] != both[of_guest]:
            self.others += 1
            return frame
        self.mended[of_guest] += 1
        return frame[:-4] + both[1 - of_guest]

    def stop(self):
        """The guest's end is free again."""
        self.listener.close()
        for end in self.ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self.paths[0].unlink()
