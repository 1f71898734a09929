//! Completion queues.

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

use hca_verbs::{CqOptions, WorkCompletion};

use crate::abi::*;
use crate::boundary::{Errno, Verb, count, destroyed, invalid, pointer, status};
use crate::card::{Card, Target};
use crate::channel::{ChannelObject, Unacked};
use crate::context::{ContextObject, context_of};
use crate::live::{Kind, Object, get, lock, publish, retire};
use crate::mutex::RawMutex;
use crate::sockets::DevPtr;

/// Completions taken from the card's ring at a time.
pub const BATCH: usize = 16;

/// Completions that were taken from the ring and not yet shown: by the extended interface, which takes several at a
/// time, and by arming.
pub struct Taken {
    pub queue: VecDeque<WorkCompletion>,
    /// The one that the extended interface's readers read.
    pub current: WorkCompletion,
    /// The ring had no more when it was last looked at.
    pub drained: bool,
}

/// A completion queue, extended or not: the first fields of both structures are the same.
#[repr(C)]
pub struct CqObject {
    pub raw: ibv_cq_ex,
    pub cq: hca_verbs::Cq<DevPtr>,
    /// Events that destroy waits for.
    pub comp_events: Unacked,
    /// Events that destroy waits for.
    pub async_events: Unacked,
    /// Guards `taken`.
    pub poll_lock: RawMutex,
    pub taken: UnsafeCell<Taken>,
    channel: *mut ChannelObject,
    card: Arc<Card>,
}

impl Object for CqObject {
    const KIND: Kind = Kind::Cq;
}

/// What both create verbs ask for.
pub struct CqWish {
    pub cqe: u32,
    pub cq_context: *mut c_void,
    pub channel: *mut ibv_comp_channel,
    pub comp_vector: i64,
}

/// Makes the queue; `finish` adds what the extended interface needs.
pub fn create(
    context: *mut ibv_context,
    wish: &CqWish,
    finish: impl FnOnce(&mut ibv_cq_ex),
) -> Verb<*mut CqObject> {
    // SAFETY: as context_of says.
    let owner: &ContextObject = unsafe { context_of(context)? };
    let max = crate::query::max_cqe(&owner.hca().query_device()?);
    if wish.cqe == 0 || wish.cqe > max {
        return Err(invalid(&format!("cqe {}: must be 1 to {max}", wish.cqe)));
    }
    let comp_vector = u16::try_from(wish.comp_vector).map_err(|_| invalid("comp_vector out of range"))?;
    let channel = wish.channel.cast::<ChannelObject>();
    let used = if channel.is_null() {
        None
    } else {
        // SAFETY: looked up first.
        Some(unsafe { get(channel)? })
    };
    let options = CqOptions {
        cqe: wish.cqe,
        channel: used.map(|c| &c.channel),
        comp_vector,
    };
    let cq = owner.hca().create_cq(&options)?;
    let mut raw = ibv_cq_ex {
        context,
        channel: wish.channel,
        cq_context: wish.cq_context,
        handle: cq.cqn(),
        cqe: cq.cqe() as c_int,
        ..Default::default()
    };
    finish(&mut raw);
    let cqn = cq.cqn();
    // Arming takes all there is; its room is made now, so that it never has to be made on the data path.
    let room = if used.is_some() { cq.cqe() as usize } else { BATCH };
    let taken = Taken {
        queue: VecDeque::with_capacity(room.max(BATCH)),
        current: WorkCompletion::default(),
        drained: true,
    };
    let object = publish(Box::new(CqObject {
        raw,
        cq,
        comp_events: Unacked::default(),
        async_events: Unacked::default(),
        poll_lock: RawMutex::new(),
        taken: UnsafeCell::new(taken),
        channel,
        card: owner.card.clone(),
    }));
    if let Some(channel) = used {
        channel.add_user();
    }
    let shared = &owner.card.shared;
    let generation = shared.new_generation();
    let target = Target {
        generation,
        object: object as usize,
        context: std::ptr::from_ref(owner) as usize,
    };
    lock(&shared.targets).cqs.insert(cqn, target);
    Ok(object)
}

pub unsafe extern "C" fn create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
) -> *mut ibv_cq {
    pointer(|| {
        let cqe = u32::try_from(cqe).map_err(|_| invalid("cqe below 0"))?;
        let wish = CqWish {
            cqe,
            cq_context,
            channel,
            comp_vector: comp_vector.into(),
        };
        Ok(create(context, &wish, |_| ())?.cast())
    })
}

/// V-63. A size that the ring has already is granted and changes nothing.
pub unsafe extern "C" fn resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int {
    status(|| {
        let object = cq.cast::<CqObject>();
        // SAFETY: looked up first.
        let cq = unsafe { get(object)? };
        let max = i64::from(crate::query::max_cqe(&cq.card.shared.context.query_device()?));
        match cqe {
            cqe if cqe < 1 || i64::from(cqe) > max => Err(invalid(&format!("cqe {cqe}: must be 1 to {max}"))),
            cqe if cqe <= cq.raw.cqe => Ok(()),
            _ => {
                cq.cq.resize(cqe as u32)?;
                if !cq.channel.is_null() {
                    cq.poll_lock.with(|| {
                        let queue = &mut cq.taken().queue;
                        queue.reserve((cq.cq.cqe() as usize).saturating_sub(queue.len()));
                    });
                }
                // SAFETY: it is still there, and the program's own view of it: who reads the number while another
                // thread changes it gets one of both, as of any card's library.
                unsafe { (&raw mut (*object).raw.cqe).write_volatile(cq.cq.cqe() as c_int) };
                Ok(())
            }
        }
    })
}

pub unsafe extern "C" fn destroy_cq(raw: *mut ibv_cq) -> c_int {
    status(|| {
        let object = raw.cast::<CqObject>();
        // SAFETY: looked up first.
        let cq = unsafe { get(object)? };
        destroyed(cq.cq.destroy())?;
        let object = {
            let mut targets = lock(&cq.card.shared.targets);
            let cqn = cq.cq.cqn();
            // The card may have given the number to a new queue by now.
            if targets.cqs.get(&cqn).is_some_and(|t| t.object == object as usize) {
                targets.cqs.remove(&cqn);
            }
            object
        };
        cq.comp_events.wait();
        cq.async_events.wait();
        let cq = retire(object)?;
        if !cq.channel.is_null() {
            // SAFETY: a channel with users is not destroyed.
            unsafe { (*cq.channel).remove_user() };
        }
        Ok(())
    })
}

impl CqObject {
    /// Only with the poll lock held.
    #[allow(clippy::mut_from_ref)]
    pub fn taken(&self) -> &mut Taken {
        // SAFETY: the caller holds the lock that guards it.
        unsafe { &mut *self.taken.get() }
    }

    /// Can there be anything in `taken`?
    fn takes_ahead(&self) -> bool {
        self.raw.start_poll.is_some() || !self.channel.is_null()
    }
}

/// The completions of a QP go with it (QPS-6), those already taken from the ring too.
pub fn forget_qp(cq: &CqObject, qp_num: u32) {
    cq.poll_lock
        .with(|| cq.taken().queue.retain(|wc| wc.qp_num != qp_num));
}

fn to_c(wc: &WorkCompletion) -> ibv_wc {
    let with_inv = u32::from(wc.wc_flags) & IBV_WC_WITH_INV != 0;
    ibv_wc {
        wr_id: wc.wr_id,
        status: u8::from(wc.status).into(),
        opcode: u8::from(wc.opcode).into(),
        vendor_err: wc.vendor_err.into(),
        byte_len: wc.byte_len,
        __bindgen_anon_1: ibv_wc__bindgen_ty_1 {
            imm_data: if with_inv {
                wc.imm_data
            } else {
                wc.imm_data.to_be()
            },
        },
        qp_num: wc.qp_num,
        src_qp: wc.src_qp,
        wc_flags: wc.wc_flags.into(),
        pkey_index: wc.pkey_index,
        slid: wc.slid,
        sl: wc.sl,
        dlid_path_bits: wc.dlid_path_bits,
    }
}

/// Completions that were taken before come first.
fn poll_taken(cq: &CqObject, out: *mut ibv_wc, max: usize) -> usize {
    if !cq.takes_ahead() {
        return 0;
    }
    cq.poll_lock.with(|| {
        let queue = &mut cq.taken().queue;
        let count = queue.len().min(max);
        for (i, wc) in queue.drain(..count).enumerate() {
            // SAFETY: i < max, the program's array.
            unsafe { out.add(i).write(to_c(&wc)) };
        }
        count
    })
}

pub unsafe extern "C" fn poll_cq(raw: *mut ibv_cq, num_entries: c_int, out: *mut ibv_wc) -> c_int {
    count(|| {
        // SAFETY: the program's CQ; polling does not look it up.
        let cq = unsafe { &*raw.cast::<CqObject>() };
        let max = usize::try_from(num_entries).map_err(|_| Errno(libc::EINVAL))?;
        let mut done = poll_taken(cq, out, max);
        let mut wc = [WorkCompletion::default(); BATCH];
        while done < max {
            let room = (max - done).min(BATCH);
            let got = match cq.cq.poll_cq(&mut wc[..room]) {
                Ok(got) => got,
                Err(_) if done > 0 => break,
                Err(e) => return Err(e.into()),
            };
            for (i, wc) in wc[..got].iter().enumerate() {
                // SAFETY: done + i < max, the program's array.
                unsafe { out.add(done + i).write(to_c(wc)) };
            }
            done += got;
            if got < room {
                break;
            }
        }
        Ok(done as c_int)
    })
}

/// V-67: completions that are there do not trigger, the next new one does. The card triggers as well when it has
/// written completions that it was not told the consumption of; so they are all taken first.
pub unsafe extern "C" fn req_notify_cq(raw: *mut ibv_cq, solicited_only: c_int) -> c_int {
    status(|| {
        // SAFETY: the program's CQ; the data path does not look it up.
        let cq = unsafe { &*raw.cast::<CqObject>() };
        cq.poll_lock.with(|| {
            let queue = &mut cq.taken().queue;
            let mut wc = [WorkCompletion::default(); BATCH];
            loop {
                let room = (queue.capacity() - queue.len()).min(BATCH);
                let got = cq.cq.poll_ready(&mut wc[..room])?;
                queue.extend(&wc[..got]);
                if got < BATCH {
                    return Ok::<(), hca_verbs::Error>(());
                }
            }
        })?;
        Ok(cq.cq.req_notify(solicited_only != 0)?)
    })
}
