//! The extended polling interface: start, next, end, and readers of the current completion.

use std::ffi::{c_int, c_uint};

use hca_dev::OneThread;
use hca_verbs::WorkCompletion;

use crate::abi::*;
use crate::boundary::live::get;
use crate::boundary::{Errno, Verb, invalid, pointer, unsupported, value};
use crate::entry::cq::{CqWish, create};
use crate::objects::cq::CqObject;
use crate::objects::memory::{Hold, PdObject};

/// ibv_create_cq_wc_flags that a completion of this card can tell.
const KNOWN_FIELDS: u64 = (IBV_WC_EX_WITH_BYTE_LEN
    | IBV_WC_EX_WITH_IMM
    | IBV_WC_EX_WITH_QP_NUM
    | IBV_WC_EX_WITH_SRC_QP
    | IBV_WC_EX_WITH_SLID
    | IBV_WC_EX_WITH_SL
    | IBV_WC_EX_WITH_DLID_PATH_BITS
    | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP
    | IBV_WC_EX_WITH_FLOW_TAG
    | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) as u64;
const KNOWN_FLAGS: u32 = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;

pub unsafe extern "C" fn create_cq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    pointer(|| {
        // SAFETY: the program's structure, or NULL.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno(libc::EINVAL))?;
        if attr.wc_flags & !KNOWN_FIELDS != 0 {
            return Err(unsupported(format_args!(
                "wc_flags {:#x}: completions do not tell all of it",
                attr.wc_flags
            )));
        }
        if attr.comp_mask & !(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD) != 0 {
            return Err(unsupported("ibv_create_cq_ex: no comp_mask but FLAGS and PD"));
        }
        let (domain, mut one_thread) = if attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD == 0 {
            (None, None)
        } else {
            parent_domain(context, attr.parent_domain)?
        };
        let flags = if attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS == 0 {
            0
        } else {
            attr.flags
        };
        if flags & !KNOWN_FLAGS != 0 {
            return Err(unsupported(
                "ibv_create_cq_ex: no flag but SINGLE_THREADED and IGNORE_OVERRUN",
            ));
        }
        if flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED != 0 {
            // SAFETY: what the program says by it.
            one_thread = Some(unsafe { OneThread::promise() });
        }
        let wish = CqWish {
            cqe: attr.cqe,
            cq_context: attr.cq_context,
            channel: attr.channel,
            comp_vector: attr.comp_vector.into(),
            domain,
            one_thread,
            ignore_overrun: flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN != 0,
        };
        Ok(create(context, &wish, set_functions)?.cast())
    })
}

/// A CQ is in no protection domain: only a parent domain says something of it.
fn parent_domain(context: *mut ibv_context, pd: *mut ibv_pd) -> Verb<(Option<Hold>, Option<OneThread>)> {
    // SAFETY: looked up first.
    let domain = unsafe { get(pd.cast::<PdObject>())? };
    // SAFETY: just found.
    if domain.parent.is_none() || unsafe { (*pd).context } != context {
        return Err(invalid("ibv_create_cq_ex: no parent domain of this context"));
    }
    Ok((domain.hold(), domain.one_thread()))
}

fn set_functions(cq: &mut ibv_cq_ex) {
    cq.start_poll = Some(start_poll);
    cq.next_poll = Some(next_poll);
    cq.end_poll = Some(end_poll);
    cq.read_opcode = Some(read_opcode);
    cq.read_vendor_err = Some(read_vendor_err);
    cq.read_byte_len = Some(read_byte_len);
    cq.read_imm_data = Some(read_imm_data);
    cq.read_qp_num = Some(read_qp_num);
    cq.read_src_qp = Some(read_src_qp);
    cq.read_wc_flags = Some(read_wc_flags);
    cq.read_slid = Some(read_slid);
    cq.read_sl = Some(read_sl);
    cq.read_dlid_path_bits = Some(read_dlid_path_bits);
    cq.read_completion_ts = Some(read_completion_ts);
    cq.read_flow_tag = Some(read_flow_tag);
    cq.read_completion_wallclock_ns = Some(read_completion_wallclock_ns);
}

/// Moves to the next completion: 0, ENOENT, or an errno. An empty poll gives the processor away only where a section
/// would begin: one that is open has others waiting for its end.
///
/// # Safety
/// This thread has opened the section.
unsafe fn advance(cq: &CqObject, is_first: bool) -> c_int {
    let result = value(|| {
        let mut wc = [WorkCompletion::default()];
        let got = if is_first {
            cq.cq.poll_cq(&mut wc)
        } else {
            cq.cq.poll_ready(&mut wc)
        };
        Some(match got {
            Ok(1) => {
                let [wc] = wc;
                let raw = cq.raw.as_ptr();
                // SAFETY: these two fields are the section's, which the caller vouches for.
                unsafe {
                    (*raw).wr_id = wc.wr_id;
                    (*raw).status = u8::from(wc.status).into();
                    cq.current.inside(|current| *current = wc);
                }
                0
            }
            Ok(_) => libc::ENOENT,
            Err(e) => e.errno(),
        })
    });
    result.unwrap_or(libc::EIO)
}

/// V-60: 0 opens a section, which only end_poll closes; anything else opens none.
unsafe extern "C" fn start_poll(raw: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int {
    // SAFETY: the program's structure, or NULL.
    if unsafe { attr.as_ref() }.is_some_and(|attr| attr.comp_mask != 0) {
        return libc::EINVAL;
    }
    // SAFETY: the program's CQ.
    let cq = unsafe { &*raw.cast::<CqObject>() };
    cq.current.open();
    // SAFETY: opened just now.
    unsafe {
        let result = advance(cq, true);
        if result != 0 {
            cq.current.close();
        }
        result
    }
}

unsafe extern "C" fn next_poll(raw: *mut ibv_cq_ex) -> c_int {
    // SAFETY: the program's CQ, in a section that start_poll has opened.
    unsafe { advance(&*raw.cast::<CqObject>(), false) }
}

unsafe extern "C" fn end_poll(raw: *mut ibv_cq_ex) {
    // SAFETY: the program's CQ, in a section that start_poll has opened.
    unsafe { (*raw.cast::<CqObject>()).current.close() };
}

fn current(raw: *mut ibv_cq_ex) -> WorkCompletion {
    // SAFETY: the program's CQ, in a section that start_poll has opened.
    unsafe { (*raw.cast::<CqObject>()).current.inside(|current| *current) }
}

unsafe extern "C" fn read_opcode(raw: *mut ibv_cq_ex) -> ibv_wc_opcode {
    u8::from(current(raw).opcode).into()
}

unsafe extern "C" fn read_vendor_err(raw: *mut ibv_cq_ex) -> u32 {
    current(raw).vendor_err.into()
}

unsafe extern "C" fn read_byte_len(raw: *mut ibv_cq_ex) -> u32 {
    current(raw).byte_len
}

/// Immediate data in network byte order, or an invalidated key as a number.
unsafe extern "C" fn read_imm_data(raw: *mut ibv_cq_ex) -> __be32 {
    let wc = current(raw);
    if u32::from(wc.wc_flags) & IBV_WC_WITH_INV != 0 {
        wc.imm_data
    } else {
        wc.imm_data.to_be()
    }
}

unsafe extern "C" fn read_flow_tag(raw: *mut ibv_cq_ex) -> u32 {
    current(raw).flow_tag()
}

unsafe extern "C" fn read_qp_num(raw: *mut ibv_cq_ex) -> u32 {
    current(raw).qp_num
}

unsafe extern "C" fn read_src_qp(raw: *mut ibv_cq_ex) -> u32 {
    current(raw).src_qp
}

unsafe extern "C" fn read_wc_flags(raw: *mut ibv_cq_ex) -> c_uint {
    current(raw).wc_flags.into()
}

unsafe extern "C" fn read_slid(raw: *mut ibv_cq_ex) -> u32 {
    current(raw).slid.into()
}

unsafe extern "C" fn read_sl(raw: *mut ibv_cq_ex) -> u8 {
    current(raw).sl
}

unsafe extern "C" fn read_dlid_path_bits(raw: *mut ibv_cq_ex) -> u8 {
    current(raw).dlid_path_bits
}

unsafe extern "C" fn read_completion_ts(raw: *mut ibv_cq_ex) -> u64 {
    current(raw).timestamp
}

/// 0 if the card is gone: nobody knows its clock's rate then.
unsafe extern "C" fn read_completion_wallclock_ns(raw: *mut ibv_cq_ex) -> u64 {
    let timestamp = current(raw).timestamp;
    // SAFETY: the program's CQ, in a section that start_poll has opened.
    let card = unsafe { &(*raw.cast::<CqObject>()).card };
    card.shared.context.wall_clock_ns(timestamp).unwrap_or(0)
}
