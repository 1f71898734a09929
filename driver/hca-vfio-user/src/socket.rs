//! Whole messages over a UNIX socket, with descriptors.

use std::io::{self, Read};
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::protocol::{Command, HEADER_BYTES, Header};

/// Longest payload of a message.
pub const MAX_PAYLOAD_BYTES: usize = 64 * 1024;
/// Most descriptors of a message.
pub const MAX_FDS: usize = 64;

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

/// One end of a connection.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
}

impl Connection {
    /// Takes a connected socket over.
    pub fn new(stream: UnixStream) -> Self {
        Self { stream }
    }

    /// A second handle on the same socket.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            stream: self.stream.try_clone()?,
        })
    }

    /// Bounds how long a send may wait for a peer that does not read.
    pub fn set_send_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.stream.set_write_timeout(Some(timeout))
    }

    /// Bounds how long a receive may wait.
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
        if payload.len() > MAX_PAYLOAD_BYTES || fds.len() > MAX_FDS {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "message or descriptor list too long",
            ));
        }
        let bytes = [&header.encode()[..], payload].concat();
        let mut sent = self.send_once(&bytes, fds)?;
        while sent < bytes.len() {
            sent += self.send_once(&bytes[sent..], &[])?;
        }
        Ok(())
    }

    fn send_once(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
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
            let sent = unsafe { libc::sendmsg(self.stream.as_raw_fd(), &msg, libc::MSG_NOSIGNAL) };
            if sent >= 0 {
                return Ok(sent as usize);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    /// Waits for the next message. An end of the stream, also in the middle of a message, is `UnexpectedEof`.
    pub fn receive(&mut self) -> io::Result<Message> {
        let mut head = [0u8; HEADER_BYTES];
        let mut fds = Vec::new();
        let mut got = 0;
        while got < HEADER_BYTES {
            got += self.receive_once(&mut head[got..], &mut fds)?;
        }
        let header = Header::decode(&head);
        let payload_bytes = (header.size_bytes as usize).checked_sub(HEADER_BYTES);
        let Some(payload_bytes) = payload_bytes.filter(|n| *n <= MAX_PAYLOAD_BYTES) else {
            let text = format!(
                "message of {} bytes: must be 16 to {}",
                header.size_bytes,
                16 + MAX_PAYLOAD_BYTES
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        };
        let mut payload = vec![0; payload_bytes];
        (&self.stream).read_exact(&mut payload)?;
        Ok(Message { header, payload, fds })
    }

    fn receive_once(&self, bytes: &mut [u8], fds: &mut Vec<OwnedFd>) -> io::Result<usize> {
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
            let got = unsafe { libc::recvmsg(self.stream.as_raw_fd(), &mut msg, libc::MSG_CMSG_CLOEXEC) };
            if got >= 0 {
                break got as usize;
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        };
        collect_fds(&msg, fds);
        if got == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(got)
    }
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
                &[shared.fd(), a.stream.as_fd()],
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
