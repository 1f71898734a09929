//! A stream's QP: messages out, messages in. Nothing here waits.

use std::ffi::c_int;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use super::config::Config;
use super::credit::{Incoming, Outgoing, Span};
use super::iomap::Iomaps;
use super::region::Region;
use super::waits::{Transport, readable};
use super::wire::{Control, GREETING_BYTES, Greeting, IOMAP_BYTES, Message, SGE_BYTES, Sge, TARGETS};
use crate::abi::*;
use crate::errno::{Call, EINVAL, Errno, last_errno, made, verb};
use crate::state::with;

/// Entries of the send queue that only messages about the flow may use.
const CONTROLS: u32 = 4;
/// What a work request was, in the upper half of its number; the lower half: bytes of the ring that it frees.
const RECEIVE: u64 = 1 << 32;
const DATA: u64 = 2 << 32;
const CONTROL: u64 = 3 << 32;
const BATCH: usize = 16;
/// Who may not send, and has heard nothing for so long, asks whether the other side is still there, as TCP does.
const PROBE_AFTER: Duration = Duration::from_secs(1);

/// Bytes of a program, piece by piece.
pub type Pieces<'a> = &'a [libc::iovec];

/// The parts of pieces that so many bytes lie in, behind those that are skipped.
pub fn each_part(
    pieces: Pieces<'_>,
    mut skip: usize,
    mut len: usize,
    mut take: impl FnMut(*const u8, usize),
) {
    for piece in pieces {
        let used = skip.min(piece.iov_len);
        skip -= used;
        let part = len.min(piece.iov_len - used);
        if part > 0 {
            take(piece.iov_base.cast::<u8>().wrapping_add(used), part);
            len -= part;
        }
    }
}

/// A stream.
pub struct Stream {
    id: *mut rdma_cm_id,
    context: *mut ibv_context,
    channel: *mut ibv_comp_channel,
    cq: *mut ibv_cq,
    qp: *mut ibv_qp,
    send: Region,
    receive: Region,
    /// The other side writes its targets here, and its mappings behind them.
    pub lists: Region,
    pub iomaps: Iomaps,
    pub out: Outgoing,
    pub incoming: Incoming,
    half: u32,
    receive_queue: u32,
    send_bytes: u32,
    /// Bytes that fit into a work request.
    pub inline: u32,
    controls: u32,
    control_place: u32,
    in_flight: u32,
    next_target: u32,
    remote: Sge,
    remote_entry: u32,
    is_swapped: bool,
    is_armed: bool,
    /// When something was last heard or asked.
    heard: Instant,
    /// Between greeting and end.
    pub is_open: bool,
    /// The program may read, or send, more.
    pub can_read: bool,
    pub can_write: bool,
    has_shut: bool,
    error: Option<Errno>,
    /// Short messages are put together here.
    scratch: Vec<u8>,
}

// SAFETY: verbs may be called from any thread, and who owns this calls one at a time.
unsafe impl Send for Stream {}

impl Stream {
    /// QP and buffers on an id whose route is known, or which was asked.
    ///
    /// # Safety
    /// A live id, bound to a card, that lives longer.
    pub unsafe fn new(id: *mut rdma_cm_id, config: &Config) -> Call<Box<Self>> {
        // SAFETY: the caller's promise.
        let (context, pd) = unsafe { ((*id).verbs, (*id).pd) };
        let mut attr = ibv_device_attr::default();
        // SAFETY: an open device.
        verb(unsafe { ibv_query_device(context, &mut attr) })?;
        let deepest = (attr.max_qp_wr.min(attr.max_cqe / 2).max(0)) as u32;
        let send_queue = config.send_queue.min(deepest);
        let receive_queue = config.receive_queue.min(deepest);
        if send_queue <= CONTROLS {
            return Err(Errno(libc::ENOMEM));
        }
        let half = config.receive_bytes / 2;
        let lists = TARGETS as usize * SGE_BYTES + usize::from(config.iomaps) * IOMAP_BYTES;
        let spare = CONTROLS as usize * SGE_BYTES;
        let remote = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
        // SAFETY: the domain is the card's, which stays open.
        let (send, receive, lists) = unsafe {
            (
                Region::new(pd, config.send_bytes as usize + spare, IBV_ACCESS_LOCAL_WRITE)?,
                Region::new(pd, 2 * half as usize, remote)?,
                Region::new(pd, lists, remote)?,
            )
        };
        let mut stream = Box::new(Self {
            id,
            context,
            channel: null_mut(),
            cq: null_mut(),
            qp: null_mut(),
            send,
            receive,
            lists,
            iomaps: Iomaps::new(config.iomaps)?,
            out: Outgoing::new(config.send_bytes, send_queue - CONTROLS),
            incoming: Incoming::new(half, receive_queue as u16),
            half,
            receive_queue,
            send_bytes: config.send_bytes,
            inline: config.inline,
            controls: CONTROLS,
            control_place: 0,
            in_flight: 0,
            next_target: 1,
            remote: Sge::default(),
            remote_entry: 1,
            is_swapped: false,
            is_armed: false,
            heard: Instant::now(),
            is_open: false,
            can_read: false,
            can_write: false,
            has_shut: false,
            error: None,
            scratch: Vec::new(),
        });
        stream.make_qp(send_queue)?;
        stream.post_receives(receive_queue)?;
        Ok(stream)
    }

    fn make_qp(&mut self, send_queue: u32) -> Call<()> {
        // SAFETY: an open device; what fails is taken down again with this stream.
        unsafe {
            self.channel = made(ibv_create_comp_channel(self.context))?;
            if libc::fcntl((*self.channel).fd, libc::F_SETFL, libc::O_NONBLOCK) < 0 {
                return Err(last_errno());
            }
            let entries = (send_queue + self.receive_queue) as c_int;
            self.cq = made(ibv_create_cq(self.context, entries, null_mut(), self.channel, 0))?;
        }
        let mut attr = ibv_qp_init_attr {
            send_cq: self.cq,
            recv_cq: self.cq,
            cap: ibv_qp_cap {
                max_send_wr: send_queue,
                max_recv_wr: self.receive_queue,
                max_send_sge: 2,
                max_recv_sge: 1,
                max_inline_data: self.inline,
            },
            qp_type: IBV_QPT_RC,
            sq_sig_all: 1,
            ..Default::default()
        };
        let id = self.id;
        with(id, |cm, at| {
            cm.create_qp(at, (null_mut(), null_mut()), &mut attr)?;
            // Who is disconnected hears of it by what it waits for: completions.
            cm.id(at)?.is_rsocket = true;
            Ok(())
        })?;
        // SAFETY: a live id, which has a QP now.
        self.qp = unsafe { (*id).qp };
        self.inline = attr.cap.max_inline_data;
        Ok(())
    }

    /// What this side says of itself.
    pub fn greeting(&self) -> [u8; GREETING_BYTES] {
        Greeting {
            is_big_endian: cfg!(target_endian = "big"),
            credits: self.receive_queue as u16,
            iomaps: Some(self.iomaps.capacity()),
            targets: Sge {
                addr: self.lists.addr(),
                key: self.lists.rkey(),
                length: TARGETS,
            },
            buffer: Sge {
                addr: self.receive.addr(),
                key: self.receive.rkey(),
                length: self.half,
            },
        }
        .emit()
    }

    /// The other side's greeting.
    pub fn meet(&mut self, peer: &Greeting) {
        self.remote = peer.targets;
        self.is_swapped = peer.is_big_endian != cfg!(target_endian = "big");
        self.out.begin(peer.credits, peer.buffer);
        let behind = u64::from(peer.targets.length) * SGE_BYTES as u64;
        self.iomaps.meet(
            Sge {
                addr: peer.targets.addr.wrapping_add(behind),
                ..peer.targets
            },
            peer.iomaps.unwrap_or(0),
        );
    }

    /// Data may go from now on.
    pub fn open(&mut self) {
        (self.is_open, self.can_read, self.can_write) = (true, true, true);
        self.grant();
    }

    /// Waits for leave to send, with nothing under way whose failure would tell that nobody is there to give it.
    fn is_held_up(&self) -> bool {
        self.is_open && self.can_write && self.in_flight == 0 && !self.out.is_ready()
    }

    /// A peer that was killed says nothing: a message that it cannot acknowledge finds that out.
    fn probe(&mut self, has_heard: bool) {
        let is_time = self.is_held_up() && self.can_control() && self.heard.elapsed() >= PROBE_AFTER;
        if has_heard || is_time {
            self.heard = Instant::now();
        }
        if is_time {
            // Where it fails the stream has ended.
            let _ = self.say(Control::Keepalive);
        }
    }

    fn post_receives(&self, count: u32) -> Call<()> {
        let mut left = count as usize;
        while left > 0 {
            let mut chain: [ibv_recv_wr; BATCH] = std::array::from_fn(|_| ibv_recv_wr {
                wr_id: RECEIVE,
                ..Default::default()
            });
            let batch = left.min(BATCH);
            for at in 1..batch {
                chain[at - 1].next = &raw mut chain[at];
            }
            let mut bad = null_mut();
            // SAFETY: a live QP, and work requests that live as long as the call.
            verb(unsafe {
                let post = (*self.context).ops.post_recv.ok_or(EINVAL)?;
                post(self.qp, chain.as_mut_ptr(), &mut bad)
            })?;
            left -= batch;
        }
        Ok(())
    }

    /// Posts a WRITE; with a message it takes a receive of the other side.
    fn post(
        &mut self,
        kind: u64,
        sges: &mut [ibv_sge],
        inline: bool,
        to: (u64, u32),
        message: Option<Message>,
    ) -> Call<()> {
        let mut wr = ibv_send_wr {
            wr_id: kind,
            sg_list: sges.as_mut_ptr(),
            num_sge: sges.len() as c_int,
            opcode: if message.is_some() {
                IBV_WR_RDMA_WRITE_WITH_IMM
            } else {
                IBV_WR_RDMA_WRITE
            },
            send_flags: if inline { IBV_SEND_INLINE } else { 0 },
            ..Default::default()
        };
        wr.__bindgen_anon_1.imm_data = message.map_or(0, |message| message.encode().to_be());
        wr.wr.rdma.remote_addr = to.0;
        wr.wr.rdma.rkey = to.1;
        let mut bad = null_mut();
        // SAFETY: a live QP; memory of the ring is not written before the completion.
        let code = unsafe {
            let post = (*self.context).ops.post_send.ok_or(EINVAL)?;
            post(self.qp, &mut wr, &mut bad)
        };
        match verb(code) {
            Ok(()) => {
                self.in_flight += 1;
                Ok(())
            }
            Err(errno) => {
                self.fail(errno);
                Err(errno)
            }
        }
    }

    /// Posts bytes of the program, through the ring where they are too many for the work request.
    ///
    /// # Safety
    /// The pieces are the program's, and have as many bytes behind those that are skipped.
    pub unsafe fn post_bytes(
        &mut self,
        from: Pieces<'_>,
        skip: usize,
        len: u32,
        span: Option<Span>,
        to: (u64, u32),
        message: Option<Message>,
    ) -> Call<()> {
        let Some(span) = span else {
            let mut bytes = std::mem::take(&mut self.scratch);
            bytes.clear();
            each_part(from, skip, len as usize, |part, len| {
                // SAFETY: the caller's promise.
                bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(part, len) });
            });
            let mut sge = [ibv_sge {
                addr: bytes.as_ptr() as u64,
                length: len,
                lkey: 0,
            }];
            let done = self.post(DATA, &mut sge, true, to, message);
            self.scratch = bytes;
            return done;
        };
        let (addr, lkey) = (self.send.addr(), self.send.lkey());
        for (at, skip, len) in [
            (span.at, skip, span.first),
            (0, skip + span.first as usize, span.second),
        ] {
            let mut at = at as usize;
            each_part(from, skip, len as usize, |part, len| {
                // SAFETY: the caller's promise, and a place inside the ring.
                unsafe { self.send.write(at, part, len) };
                at += len;
            });
        }
        let mut sges = [(u64::from(span.at), span.first), (0, span.second)].map(|(at, length)| ibv_sge {
            addr: addr + at,
            length,
            lkey,
        });
        let count = if span.second > 0 { 2 } else { 1 };
        self.post(
            DATA | u64::from(span.len()),
            &mut sges[..count],
            false,
            to,
            message,
        )
    }

    /// Copies what has come to the program.
    ///
    /// # Safety
    /// `to` has room for as many bytes.
    pub unsafe fn copy_out(&mut self, to: *mut u8, len: usize, keeps: bool) -> usize {
        let span = self.incoming.peek(len.min(u32::MAX as usize) as u32);
        // SAFETY: the caller's promise, and places inside the buffer.
        unsafe {
            self.receive.read(span.at as usize, to, span.first as usize);
            self.receive
                .read(0, to.add(span.first as usize), span.second as usize);
        }
        if !keeps {
            self.incoming.consume(span.len());
        }
        span.len() as usize
    }

    /// Is there an entry of the send queue for a message about the flow?
    pub fn can_control(&self) -> bool {
        self.controls > 0
    }

    /// Says something of the connection.
    pub fn say(&mut self, control: Control) -> Call<()> {
        self.controls -= 1;
        self.post(CONTROL, &mut [], false, (0, 0), Some(Message::Control(control)))
    }

    /// Tells the other side what it may send.
    pub fn grant(&mut self) {
        while self.is_open && self.can_control() && self.incoming.wants_grant() {
            self.controls -= 1;
            let grant = self.incoming.grant();
            let message = Some(Message::Credits(grant.limit));
            let sent = match grant.target {
                None => self.post(CONTROL, &mut [], false, (0, 0), message),
                Some(at) => self.post_target(at, message),
            };
            if sent.is_err() {
                return;
            }
        }
    }

    fn post_target(&mut self, at: u32, message: Option<Message>) -> Call<()> {
        let target = Sge {
            addr: self.receive.addr() + u64::from(at),
            key: self.receive.rkey(),
            length: self.half,
        };
        let bytes = target.to_host(self.is_swapped);
        let to = self
            .remote
            .addr
            .wrapping_add(u64::from(self.remote_entry) * SGE_BYTES as u64);
        let key = self.remote.key;
        self.remote_entry = (self.remote_entry + 1) % self.remote.length;
        let inline = self.inline as usize >= SGE_BYTES;
        let mut sge = ibv_sge {
            addr: bytes.as_ptr() as u64,
            length: SGE_BYTES as u32,
            lkey: 0,
        };
        if !inline {
            // As many places as there can be such messages on their way.
            let place = self.send_bytes as usize + self.control_place as usize * SGE_BYTES;
            self.control_place = (self.control_place + 1) % CONTROLS;
            self.send.set(place, bytes);
            (sge.addr, sge.lkey) = (self.send.addr() + place as u64, self.send.lkey());
        }
        self.post(CONTROL, &mut [sge], inline, (to, key), message)
    }

    fn on_sent(&mut self, wc: &ibv_wc) {
        self.in_flight -= 1;
        let in_ring = wc.wr_id as u32;
        match wc.wr_id - u64::from(in_ring) {
            CONTROL => self.controls += 1,
            _ => self.out.done(in_ring),
        }
        if wc.status != IBV_WC_SUCCESS {
            self.fail(Errno(libc::ECONNRESET));
        }
    }

    /// True: the receive is used up.
    fn on_receive(&mut self, wc: &ibv_wc) -> bool {
        if wc.status != IBV_WC_SUCCESS {
            self.fail(Errno(libc::ECONNRESET));
            return false;
        }
        // SAFETY: any bits are immediate data.
        let word = u32::from_be(unsafe { wc.__bindgen_anon_1.imm_data });
        let has_word = wc.wc_flags & IBV_WC_WITH_IMM != 0;
        let is_right = match Message::decode(word).filter(|_| has_word) {
            Some(Message::Data(len)) => !self.is_open || self.incoming.arrived(len),
            Some(Message::Credits(limit)) => {
                self.out.set_limit(limit);
                wc.byte_len < SGE_BYTES as u32 || self.take_target()
            }
            Some(Message::Iomap(index)) => {
                // It is counted as a message where it comes from, and there is nothing in it to read.
                self.incoming.count_read();
                self.iomaps.learn(&self.lists, index)
            }
            Some(Message::Control(Control::Keepalive)) => true,
            Some(Message::Control(Control::Disconnect)) => {
                self.close();
                true
            }
            Some(Message::Control(Control::Shutdown)) => {
                self.can_read = false;
                if !self.can_write {
                    self.close();
                }
                true
            }
            None => false,
        };
        if !is_right {
            // Not what rsockets say: nothing that follows can be trusted.
            self.fail(Errno(libc::EPROTO));
        }
        true
    }

    /// The entry that the other side has just written.
    fn take_target(&mut self) -> bool {
        let at = self.next_target as usize * SGE_BYTES;
        self.next_target = (self.next_target + 1) % TARGETS;
        self.out.add_target(Sge::from_host(&self.lists.get(at)))
    }

    /// Nothing more will be sent or taken.
    pub fn close(&mut self) {
        (self.is_open, self.can_read, self.can_write) = (false, false, false);
    }

    /// It has ended otherwise than by word.
    pub fn fail(&mut self, errno: Errno) {
        if self.is_open {
            self.close();
            self.error = Some(errno);
            let _ = with(self.id, |cm, at| {
                cm.id(at)?.make_failed();
                Ok(())
            });
        }
    }

    /// What went wrong, once.
    pub fn take_error(&mut self) -> Option<Errno> {
        self.error.take()
    }

    pub fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// Why nothing can be sent.
    pub fn send_error(&mut self) -> Errno {
        let otherwise = if self.has_shut {
            libc::EPIPE
        } else {
            libc::ECONNRESET
        };
        self.take_error().unwrap_or(Errno(otherwise))
    }

    /// Takes rights away; what is to be said of it.
    pub fn shut(&mut self, reads: bool, writes: bool) -> Option<Control> {
        if !self.is_open {
            return None;
        }
        let was_writing = self.can_write;
        self.can_read &= !reads;
        self.can_write &= !writes;
        self.has_shut |= writes;
        match (self.can_read, self.can_write) {
            (false, false) => Some(Control::Disconnect),
            (true, false) if was_writing => Some(Control::Shutdown),
            _ => None,
        }
    }

    /// Has all that was sent arrived, or can none of it any more?
    pub fn is_drained(&self) -> bool {
        self.in_flight == 0 || !self.is_open
    }

    pub fn is_swapped(&self) -> bool {
        self.is_swapped
    }

    pub fn pd(&self) -> *mut ibv_pd {
        // SAFETY: the id lives longer.
        unsafe { (*self.id).pd }
    }
}

impl Transport for Stream {
    fn process(&mut self) -> bool {
        let mut changed = false;
        loop {
            let mut found = [ibv_wc::default(); BATCH];
            // SAFETY: a live CQ, and room for as many completions.
            let count = unsafe {
                match (*self.context).ops.poll_cq {
                    Some(poll) => poll(self.cq, BATCH as c_int, found.as_mut_ptr()),
                    None => -1,
                }
            };
            let Ok(count) = usize::try_from(count) else {
                self.fail(Errno(libc::EIO));
                return true;
            };
            let mut taken = 0;
            for wc in &found[..count] {
                if wc.wr_id & !u64::from(u32::MAX) == RECEIVE {
                    taken += u32::from(self.on_receive(wc));
                } else {
                    self.on_sent(wc);
                }
            }
            changed |= count > 0;
            if taken > 0
                && self.is_open
                && let Err(errno) = self.post_receives(taken)
            {
                self.fail(errno);
            }
            if count < BATCH {
                break;
            }
        }
        self.grant();
        self.probe(changed);
        changed
    }

    fn look_again(&self) -> Option<Instant> {
        self.is_held_up().then(|| self.heard + PROBE_AFTER)
    }

    fn arm(&mut self) -> bool {
        if self.is_armed {
            return false;
        }
        // SAFETY: a live CQ. If it cannot be armed, the card is gone, and polling says so.
        let code = unsafe {
            (*self.context)
                .ops
                .req_notify_cq
                .map_or(0, |notify| notify(self.cq, 0))
        };
        if code != 0 {
            self.fail(Errno(libc::EIO));
        }
        self.is_armed = true;
        true
    }

    fn disarm(&mut self) {
        let (mut cq, mut cookie) = (null_mut(), null_mut());
        // SAFETY: a live channel that does not block; each event is acknowledged once.
        while unsafe { ibv_get_cq_event(self.channel, &mut cq, &mut cookie) } == 0 {
            // SAFETY: as above.
            unsafe { ibv_ack_cq_events(self.cq, 1) };
            self.is_armed = false;
        }
    }

    fn polls(&self) -> Vec<libc::pollfd> {
        // SAFETY: live as long as this.
        vec![readable(unsafe { (*self.channel).fd })]
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = with(self.id, |cm, at| cm.destroy_qp(at));
        self.iomaps.clear();
        // SAFETY: made here; nobody uses them any more.
        unsafe {
            if !self.cq.is_null() {
                ibv_destroy_cq(self.cq);
            }
            if !self.channel.is_null() {
                ibv_destroy_comp_channel(self.channel);
            }
        }
    }
}
