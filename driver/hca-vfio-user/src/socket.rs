//! Whole messages over a UNIX socket, with descriptors. Either end may wait for the other, or never do.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::header::{Command, HEADER_BYTES, Header};

/// Longest payload of a message.
pub const MAX_PAYLOAD_BYTES: usize = 64 * 1024;
/// Most descriptors of a message.
pub const MAX_FDS: usize = 64;

/// Of asm-generic/socket.h.
const SO_PEERPIDFD: libc::c_int = 77;

/// `CMSG_SPACE` of [`MAX_FDS`] descriptors, in words so that the buffer is aligned.
const CONTROL_WORDS: usize = (size_of::<libc::cmsghdr>() + MAX_FDS * size_of::<RawFd>()) / 8 + 2;

/// A message as it came.
#[derive(Debug)]
pub struct Message {
    /// Header.
    pub header: Header,
    /// What follows it.
    pub payload: Vec<u8>,
    /// Descriptors that came with it.
    pub fds: Vec<OwnedFd>,
}

/// What has come of the next message.
#[derive(Debug, Default)]
struct Partial {
    head: [u8; HEADER_BYTES],
    payload: Vec<u8>,
    got: usize,
    fds: Vec<OwnedFd>,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    partial: Partial,
}

impl Connection {
    /// Takes a connected socket over.
    pub fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            partial: Partial::default(),
        }
    }

    /// A second handle on the same socket, to send by. What has come of a message stays with the first.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.stream.try_clone().map(Self::new)
    }

    /// The socket, to wait for.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Bounds how long [`Connection::receive`] may wait.
    pub fn set_receive_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(timeout)
    }

    /// Ends the connection for both sides and all handles.
    pub fn shutdown(&self) {
        // It may be gone already; then there is nothing left to do.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }

    /// Process id of the peer when it connected (or listened).
    pub fn peer_pid(&self) -> io::Result<i32> {
        // SAFETY: an all-zero ucred is valid; the kernel writes at most `len` bytes.
        let (mut cred, mut len) = (
            unsafe { zeroed::<libc::ucred>() },
            size_of::<libc::ucred>() as libc::socklen_t,
        );
        let fd = self.stream.as_raw_fd();
        // SAFETY: as above.
        let result = unsafe {
            libc::getsockopt(
                fd,
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut cred).cast(),
                &mut len,
            )
        };
        if result == 0 {
            Ok(cred.pid)
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// The peer itself, which an id does not name for good. A kernel older than 6.5 opens it by that id.
    pub fn peer_pidfd(&self) -> io::Result<OwnedFd> {
        let (mut fd, mut len) = (-1, size_of::<RawFd>() as libc::socklen_t);
        let socket = self.stream.as_raw_fd();
        // SAFETY: the kernel writes at most `len` bytes.
        let result = unsafe {
            libc::getsockopt(
                socket,
                libc::SOL_SOCKET,
                SO_PEERPIDFD,
                (&raw mut fd).cast(),
                &mut len,
            )
        };
        if result != 0 {
            let pid = self.peer_pid()?;
            // SAFETY: a plain system call; the result is checked.
            fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as RawFd;
        }
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: new, and nobody else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Sends a command.
    pub fn send_command(
        &self,
        id: u16,
        command: Command,
        payload: &[u8],
        fds: &[BorrowedFd<'_>],
        wants_reply: bool,
    ) -> io::Result<()> {
        self.send(
            &Header::command(id, command, payload.len(), wants_reply),
            payload,
            fds,
        )
    }

    /// Sends the answer to a command; `errno` 0 is success.
    pub fn send_reply(
        &self,
        to: &Header,
        payload: &[u8],
        fds: &[BorrowedFd<'_>],
        errno: u32,
    ) -> io::Result<()> {
        self.send(&Header::reply(to, payload.len(), errno), payload, fds)
    }

    fn send(&self, header: &Header, payload: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        check_count(fds)?;
        if payload.len() > MAX_PAYLOAD_BYTES {
            let text = format!(
                "a payload of {} bytes: at most {MAX_PAYLOAD_BYTES}",
                payload.len()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let bytes = [&header.encode()[..], payload].concat();
        let mut sent = self.send_once(&bytes, fds, 0)?;
        while sent < bytes.len() {
            sent += self.send_once(&bytes[sent..], &[], 0)?;
        }
        Ok(())
    }

    /// Sends what the socket takes at once of a message or of the rest of one; never waits. The descriptors go with the
    /// first byte. Returns how many bytes went, which may be none.
    pub fn try_send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
        check_count(fds)?;
        let mut sent = 0;
        while sent < bytes.len() {
            let fds = if sent == 0 { fds } else { &[] };
            match self.send_once(&bytes[sent..], fds, libc::MSG_DONTWAIT) {
                Ok(more) => sent += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }

    fn send_once(&self, bytes: &[u8], fds: &[BorrowedFd<'_>], flags: i32) -> io::Result<usize> {
        let mut control = [0u64; CONTROL_WORDS];
        let mut iov = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        // SAFETY: an all-zero msghdr is valid.
        let mut msg: libc::msghdr = unsafe { zeroed() };
        msg.msg_iov = &mut iov;
        msg.msg_iovlen = 1;
        if !fds.is_empty() {
            let fd_bytes = std::mem::size_of_val(fds) as u32;
            msg.msg_control = control.as_mut_ptr().cast();
            // SAFETY: `control` has room for MAX_FDS descriptors, checked by the caller; CMSG_FIRSTHDR points
            // into it.
            unsafe {
                msg.msg_controllen = libc::CMSG_SPACE(fd_bytes) as usize;
                let cmsg = libc::CMSG_FIRSTHDR(&msg);
                (*cmsg).cmsg_level = libc::SOL_SOCKET;
                (*cmsg).cmsg_type = libc::SCM_RIGHTS;
                (*cmsg).cmsg_len = libc::CMSG_LEN(fd_bytes) as usize;
                let data = libc::CMSG_DATA(cmsg).cast::<RawFd>();
                for (i, fd) in fds.iter().enumerate() {
                    data.add(i).write_unaligned(fd.as_raw_fd());
                }
            }
        }
        loop {
            // SAFETY: msg points at live buffers.
            let sent = unsafe { libc::sendmsg(self.stream.as_raw_fd(), &msg, libc::MSG_NOSIGNAL | flags) };
            if sent >= 0 {
                return Ok(sent as usize);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    /// Waits for the next message. An end of the stream, also in the middle of a message, is `UnexpectedEof`; a length
    /// or a number of descriptors beyond the limits is `InvalidData`.
    pub fn receive(&mut self) -> io::Result<Message> {
        loop {
            if let Some(message) = self.receive_some(0)? {
                return Ok(message);
            }
        }
    }

    /// The next message, if all of it has come; never waits. Errors are those of [`Connection::receive`].
    pub fn try_receive(&mut self) -> io::Result<Option<Message>> {
        loop {
            match self.receive_some(libc::MSG_DONTWAIT) {
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                result => return result,
            }
        }
    }

    /// Receives once. None: the message goes on.
    fn receive_some(&mut self, flags: i32) -> io::Result<Option<Message>> {
        let Partial {
            head,
            payload,
            got,
            fds,
        } = &mut self.partial;
        let rest = match *got {
            got if got < HEADER_BYTES => &mut head[got..],
            got => &mut payload[got - HEADER_BYTES..],
        };
        *got += receive_once(&self.stream, rest, fds, flags)?;
        if fds.len() > MAX_FDS {
            let text = format!("message with more than {MAX_FDS} descriptors");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        if *got < HEADER_BYTES {
            return Ok(None);
        }
        let header = Header::decode(head);
        if *got == HEADER_BYTES {
            payload.resize(payload_bytes(&header)?, 0);
        }
        if *got < HEADER_BYTES + payload.len() {
            return Ok(None);
        }
        let Partial { payload, fds, .. } = std::mem::take(&mut self.partial);
        Ok(Some(Message { header, payload, fds }))
    }
}

fn check_count(fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    if fds.len() > MAX_FDS {
        let text = format!("{} descriptors in a message: at most {MAX_FDS}", fds.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(())
}

/// Length of what follows a header.
fn payload_bytes(header: &Header) -> io::Result<usize> {
    let length = (header.size_bytes as usize).checked_sub(HEADER_BYTES);
    length.filter(|n| *n <= MAX_PAYLOAD_BYTES).ok_or_else(|| {
        let text = format!(
            "message of {} bytes: must be {HEADER_BYTES} to {}",
            header.size_bytes,
            HEADER_BYTES + MAX_PAYLOAD_BYTES
        );
        io::Error::new(io::ErrorKind::InvalidData, text)
    })
}

fn receive_once(
    stream: &UnixStream,
    bytes: &mut [u8],
    fds: &mut Vec<OwnedFd>,
    flags: i32,
) -> io::Result<usize> {
    let mut control = [0u64; CONTROL_WORDS];
    let mut iov = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: an all-zero msghdr is valid.
    let mut msg: libc::msghdr = unsafe { zeroed() };
    msg.msg_iov = &mut iov;
    msg.msg_iovlen = 1;
    msg.msg_control = control.as_mut_ptr().cast();
    msg.msg_controllen = size_of_val(&control);
    let got = loop {
        // SAFETY: msg points at live buffers of the lengths it names.
        let got = unsafe { libc::recvmsg(stream.as_raw_fd(), &mut msg, libc::MSG_CMSG_CLOEXEC | flags) };
        if got >= 0 {
            break got as usize;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    };
    collect_fds(&msg, fds);
    if msg.msg_flags & libc::MSG_CTRUNC != 0 {
        // More than there is room for here, or than this process may have: which of them are missing nobody knows.
        let text = "descriptors of a message were lost";
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    if got == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(got)
}

/// Takes the descriptors out of a received control message; each is owned from here on.
fn collect_fds(msg: &libc::msghdr, fds: &mut Vec<OwnedFd>) {
    // SAFETY: msg was filled by recvmsg, so its control headers lie in a live buffer and their lengths are
    // right; every descriptor in an SCM_RIGHTS message is new and ours.
    unsafe {
        let mut cmsg = libc::CMSG_FIRSTHDR(msg);
        while !cmsg.is_null() {
            if (*cmsg).cmsg_level == libc::SOL_SOCKET && (*cmsg).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*cmsg).cmsg_len - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(cmsg).cast::<RawFd>();
                for i in 0..bytes / size_of::<RawFd>() {
                    fds.push(OwnedFd::from_raw_fd(data.add(i).read_unaligned()));
                }
            }
            cmsg = libc::CMSG_NXTHDR(msg, cmsg);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Seek, Write};
    use std::os::fd::AsFd;

    #[test]
    fn messages_and_descriptors_arrive_whole() {
        let (a, b) = UnixStream::pair().unwrap();
        let (a, mut b) = (Connection::new(a), Connection::new(b));
        let shared = hca_dev::SharedMem::new("fd-test", 4096).unwrap();
        let payload: Vec<u8> = (0..MAX_PAYLOAD_BYTES).map(|i| i as u8).collect();
        let sender = std::thread::spawn(move || {
            a.send_command(
                7,
                Command::DmaMap,
                &[1, 2, 3],
                &[shared.fd().unwrap(), a.stream.as_fd()],
                true,
            )
            .unwrap();
            a.send_command(8, Command::RegionWrite, &payload, &[], false)
                .unwrap();
            (a, payload)
        });
        let first = b.receive().unwrap();
        assert_eq!(
            (first.header.id, first.payload.as_slice(), first.fds.len()),
            (7, &[1, 2, 3][..], 2)
        );
        let mut file = File::from(first.fds.into_iter().next().unwrap());
        file.write_all(b"x").unwrap();
        file.rewind().unwrap();
        let second = b.receive().unwrap();
        let (a, payload) = sender.join().unwrap();
        assert!(!second.header.wants_reply() && second.payload == payload && second.fds.is_empty());
        assert_eq!(a.peer_pid().unwrap(), std::process::id() as i32);
        drop(a);
        assert_eq!(b.receive().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_message_in_pieces_is_whole_at_its_end_and_nobody_waits_for_it() {
        let (mut a, b) = UnixStream::pair().unwrap();
        let mut b = Connection::new(b);
        let bytes = [
            &Header::command(5, Command::RegionRead, 3, true).encode()[..],
            &[7, 8, 9],
        ]
        .concat();
        for byte in &bytes {
            assert!(b.try_receive().unwrap().is_none());
            a.write_all(&[*byte]).unwrap();
        }
        assert_eq!(b.try_receive().unwrap().unwrap().payload, [7, 8, 9]);
        // And a send goes as far as there is room.
        let (a, block) = (Connection::new(a), vec![0; 1 << 20]);
        let sent = a.try_send(&block, &[]).unwrap();
        assert!(0 < sent && sent < block.len());
        assert_eq!(a.try_send(&block, &[]).unwrap(), 0);
        drop(b);
        assert!(a.try_send(&block, &[]).is_err());
    }

    #[test]
    fn descriptors_beyond_the_limit_are_refused() {
        for (each, messages) in [(80, 1), (40, 2)] {
            let (a, b) = UnixStream::pair().unwrap();
            let (sender, mut b) = (Connection::new(a), Connection::new(b));
            let head = Header::command(5, Command::DmaMap, 0, true).encode();
            let fds: Vec<_> = (0..each).map(|_| sender.stream.as_fd()).collect();
            let half = HEADER_BYTES / messages;
            for part in head.chunks(half) {
                // A byte with as many descriptors as the sender likes, from a sender that keeps no limit.
                send_with_any_number_of_fds(&sender.stream, part, &fds);
            }
            assert_eq!(
                b.receive().unwrap_err().kind(),
                io::ErrorKind::InvalidData,
                "{each} {messages}"
            );
        }
    }

    fn send_with_any_number_of_fds(stream: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
        let mut control = [0u64; 128];
        let mut iov = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        // SAFETY: an all-zero msghdr is valid; `control` has room for 253 descriptors, the most the kernel takes.
        unsafe {
            let mut msg: libc::msghdr = zeroed();
            (msg.msg_iov, msg.msg_iovlen) = (&mut iov, 1);
            msg.msg_control = control.as_mut_ptr().cast();
            let fd_bytes = size_of_val(fds) as u32;
            msg.msg_controllen = libc::CMSG_SPACE(fd_bytes) as usize;
            let cmsg = libc::CMSG_FIRSTHDR(&msg);
            (*cmsg).cmsg_level = libc::SOL_SOCKET;
            (*cmsg).cmsg_type = libc::SCM_RIGHTS;
            (*cmsg).cmsg_len = libc::CMSG_LEN(fd_bytes) as usize;
            for (i, fd) in fds.iter().enumerate() {
                let data = libc::CMSG_DATA(cmsg).cast::<RawFd>();
                data.add(i).write_unaligned(fd.as_raw_fd());
            }
            let sent = libc::sendmsg(stream.as_raw_fd(), &msg, libc::MSG_NOSIGNAL);
            assert_eq!(sent, bytes.len() as isize);
        }
    }

    #[test]
    fn absurd_sizes_are_refused() {
        for size in [0u32, 15, 16 + MAX_PAYLOAD_BYTES as u32 + 1, u32::MAX] {
            let (mut a, b) = UnixStream::pair().unwrap();
            let mut bytes = [0u8; 16];
            bytes[4..8].copy_from_slice(&size.to_le_bytes());
            a.write_all(&bytes).unwrap();
            assert_eq!(
                Connection::new(b).receive().unwrap_err().kind(),
                io::ErrorKind::InvalidData
            );
        }
    }
}
