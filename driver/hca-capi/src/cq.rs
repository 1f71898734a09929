//! Completion queues.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use hca_verbs::{CqOptions, WorkCompletion};

use crate::abi::*;
use crate::boundary::{Errno, Verb, count, destroyed, invalid, pointer, status};
use crate::card::{Card, Place};
use crate::channel::{ChannelObject, Unacked};
use crate::context::{ContextObject, context_of};
use crate::live::{CStruct, Kind, Object, get, lock, publish, retire};
use crate::mutex::SectionMutex;
use crate::sockets::DevPtr;

/// Completions taken at a time.
const BATCH: usize = 16;

/// A completion queue, extended or not: the first fields of both structures are the same.
#[repr(C)]
pub struct CqObject {
    pub raw: CStruct<ibv_cq_ex>,
    pub cq: hca_verbs::Cq<DevPtr>,
    /// Events that destroy waits for.
    pub comp_events: Arc<Unacked>,
    /// Events that destroy waits for.
    pub async_events: Arc<Unacked>,
    /// The extended interface: what its readers read, from start to end of a section.
    pub current: SectionMutex<WorkCompletion>,
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
        let found = unsafe { get(channel)? };
        // SAFETY: it was just found.
        if unsafe { (*wish.channel).context } != context {
            return Err(invalid("the channel of a CQ must be of its context"));
        }
        Some(found)
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
    let object = publish(Box::new(CqObject {
        raw: CStruct::new(raw),
        cq,
        comp_events: Arc::default(),
        async_events: Arc::default(),
        current: SectionMutex::new(WorkCompletion::default()),
        channel,
        card: owner.card.clone(),
    }));
    if let Some(channel) = used {
        channel.add_user();
    }
    let shared = &owner.card.shared;
    let generation = shared.new_generation();
    let target = Place {
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
        // SAFETY: looked up first.
        let cq = unsafe { get(cq.cast::<CqObject>())? };
        let max = i64::from(crate::query::max_cqe(&cq.card.shared.context.query_device()?));
        match cqe {
            cqe if cqe < 1 || i64::from(cqe) > max => Err(invalid(&format!("cqe {cqe}: must be 1 to {max}"))),
            cqe if cqe as u32 == cq.cq.cqe() => Ok(()),
            _ => {
                cq.cq.resize(cqe as u32)?;
                // SAFETY: it is still there, and the program's own view of it: who reads the number while another
                // thread changes it gets one of both, as of any card's library.
                unsafe { (&raw mut (*cq.raw.as_ptr()).cqe).write_volatile(cq.cq.cqe() as c_int) };
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

pub unsafe extern "C" fn poll_cq(raw: *mut ibv_cq, num_entries: c_int, out: *mut ibv_wc) -> c_int {
    count(|| {
        // SAFETY: the program's CQ; polling does not look it up.
        let cq = unsafe { &*raw.cast::<CqObject>() };
        let max = usize::try_from(num_entries).map_err(|_| Errno(libc::EINVAL))?;
        let mut done = 0;
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

/// V-67, V-70.
pub unsafe extern "C" fn req_notify_cq(raw: *mut ibv_cq, solicited_only: c_int) -> c_int {
    status(|| {
        // SAFETY: the program's CQ; the data path does not look it up.
        let cq = unsafe { &*raw.cast::<CqObject>() };
        Ok(cq.cq.req_notify(solicited_only != 0)?)
    })
}
