//! Event channels: a queue, and a descriptor that is readable as often as there are events.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex};

use hca_exports::table::{Table, lock};

use crate::abi::*;
use crate::errno::{Call, EINVAL, Errno, last_errno};

/// A channel; the C structure is the first field.
#[repr(C)]
pub struct Channel {
    raw: rdma_event_channel,
    queue: Mutex<VecDeque<Box<EventObject>>>,
}

/// An event; the C structure is the first field.
#[repr(C)]
pub struct EventObject {
    pub raw: rdma_cm_event,
    /// Private data that the structure points to.
    pub private_data: Vec<u8>,
    /// Whose destruction waits until it is acknowledged.
    pub waits: Vec<std::sync::Arc<Unacked>>,
}

// SAFETY: the pointers are the program's to use; here they are only carried.
unsafe impl Send for EventObject {}

/// Events that a program has fetched and not acknowledged.
#[derive(Default)]
pub struct Unacked {
    count: Mutex<u32>,
    none: Condvar,
}

impl Unacked {
    pub fn add(&self) {
        *lock(&self.count) += 1;
    }

    pub fn sub(&self) {
        let mut count = lock(&self.count);
        *count -= 1;
        if *count == 0 {
            self.none.notify_all();
        }
    }

    /// CM-14: until all are acknowledged.
    pub fn wait(&self) {
        let mut count = lock(&self.count);
        while *count != 0 {
            count = self
                .none
                .wait(count)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }
}

/// Channels that the program knows by the addresses of their C structures.
static OPEN: Table<HashMap<usize, Arc<Channel>>> = Table::new();

/// The channel that a program names.
pub fn find(raw: *mut rdma_event_channel) -> Call<Arc<Channel>> {
    OPEN.lock().get(&(raw as usize)).cloned().ok_or(EINVAL)
}

/// CM-11: the program has no more use for it. Ids that are still on it, against the rules, keep it.
pub fn close(raw: *mut rdma_event_channel) {
    let gone = OPEN.lock().remove(&(raw as usize));
    drop(gone);
}

/// Does something with a new channel; it is closed if that fails.
pub fn opened<T>(f: impl FnOnce(&Arc<Channel>) -> Call<T>) -> Call<T> {
    let channel = Channel::open()?;
    f(&channel).inspect_err(|_| close(channel.raw()))
}

impl Channel {
    /// One that the program may name until it is closed.
    pub fn open() -> Call<Arc<Self>> {
        let channel = Arc::new(Self::new()?);
        let mut open = OPEN.lock();
        open.try_reserve(1).map_err(|_| Errno(libc::ENOMEM))?;
        open.insert(channel.raw() as usize, channel.clone());
        Ok(channel)
    }

    /// The C structure.
    pub fn raw(self: &Arc<Self>) -> *mut rdma_event_channel {
        Arc::as_ptr(self).cast_mut().cast()
    }

    fn new() -> Call<Self> {
        // SAFETY: no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_SEMAPHORE | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(last_errno());
        }
        Ok(Self {
            raw: rdma_event_channel { fd },
            queue: Mutex::default(),
        })
    }

    pub fn push(&self, event: Box<EventObject>) {
        lock(&self.queue).push_back(event);
        let one = 1u64.to_ne_bytes();
        // SAFETY: a live buffer of eight bytes.
        unsafe { libc::write(self.raw.fd, one.as_ptr().cast(), one.len()) };
    }

    /// Takes one from the count, if there is one; waits for it as the descriptor says.
    fn take_count(&self) -> Call<()> {
        let mut count = [0u8; 8];
        loop {
            // SAFETY: a live buffer of eight bytes.
            let got = unsafe { libc::read(self.raw.fd, count.as_mut_ptr().cast(), count.len()) };
            if got == 8 {
                return Ok(());
            }
            let errno = last_errno();
            if errno != Errno(libc::EINTR) {
                return Err(errno);
            }
        }
    }

    /// The next event (CM-57).
    pub fn next(&self) -> Call<Box<EventObject>> {
        loop {
            self.take_count()?;
            // An event may have been taken back since.
            if let Some(event) = lock(&self.queue).pop_front() {
                event.waits.iter().for_each(|unacked| unacked.add());
                return Ok(event);
            }
        }
    }

    /// Takes back the events that meet a condition.
    #[allow(clippy::vec_box, reason = "programs know events by their addresses")]
    pub fn take_back(&self, is_meant: impl Fn(&EventObject) -> bool) -> Vec<Box<EventObject>> {
        let mut queue = lock(&self.queue);
        let (taken, left): (Vec<_>, Vec<_>) = queue.drain(..).partition(|event| is_meant(event));
        queue.extend(left);
        for _ in &taken {
            let mut poll = libc::pollfd {
                fd: self.raw.fd,
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: a live pollfd.
            if unsafe { libc::poll(&mut poll, 1, 0) } == 1 {
                let _ = self.take_count();
            }
        }
        taken
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: nobody else closes it.
        unsafe { libc::close(self.raw.fd) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(status: i32) -> Box<EventObject> {
        Box::new(EventObject {
            raw: rdma_cm_event {
                status,
                ..Default::default()
            },
            private_data: Vec::new(),
            waits: Vec::new(),
        })
    }

    /// CM-11: a channel is closed once, and by its own address alone.
    #[test]
    fn channels_are_known_until_they_are_closed() {
        let channel = Channel::open().unwrap();
        let raw = channel.raw();
        assert!(find(raw).is_ok_and(|found| Arc::ptr_eq(&found, &channel)));
        close(raw);
        close(raw);
        assert_eq!(find(raw).err(), Some(EINVAL));
        assert_eq!(find(std::ptr::null_mut()).err(), Some(EINVAL));
        // Whoever still has it still hears of what is told.
        channel.push(event(7));
        assert_eq!(channel.next().unwrap().raw.status, 7);
    }

    /// CM-10: the descriptor polls as often as there are events, and can be set not to block.
    #[test]
    fn events_come_in_order_and_can_be_taken_back() {
        let channel = Channel::new().unwrap();
        for status in 0..4 {
            channel.push(event(status));
        }
        assert_eq!(channel.take_back(|event| event.raw.status % 2 == 1).len(), 2);
        assert_eq!(channel.next().unwrap().raw.status, 0);
        assert_eq!(channel.next().unwrap().raw.status, 2);
        // SAFETY: a live descriptor.
        unsafe { libc::fcntl(channel.raw.fd, libc::F_SETFL, libc::O_NONBLOCK) };
        assert_eq!(channel.next().err(), Some(Errno(libc::EAGAIN)));
    }
}
