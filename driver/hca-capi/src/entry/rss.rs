//! QPs with an indirection table (V-95, V-114): ibv_create_qp_ex with IND_TABLE and RX_HASH.

use std::sync::Arc;

use hca_dev::ShortLock;
use hca_verbs::{RssOptions, Service};

use crate::abi::*;
use crate::boundary::live::{CStruct, get, publish};
use crate::boundary::{Verb, invalid, unsupported};
use crate::objects::context::context_of;
use crate::objects::memory::PdObject;
use crate::objects::qp::{AnyQp, Inner, NO_QUEUES, QpObject};
use crate::objects::section::Section;
use crate::objects::wq::IndTableObject;

const KEY_BYTES: usize = 40;

/// The key and the fields of a program.
fn hash_of(conf: &ibv_rx_hash_conf) -> Verb<([u8; KEY_BYTES], u8)> {
    if conf.rx_hash_function != IBV_RX_HASH_FUNC_TOEPLITZ as u8 {
        return Err(unsupported("ibv_create_qp_ex: the hash is Toeplitz's"));
    }
    if usize::from(conf.rx_hash_key_len) != KEY_BYTES || conf.rx_hash_key.is_null() {
        return Err(invalid(format_args!(
            "ibv_create_qp_ex: a Toeplitz key has {KEY_BYTES} bytes"
        )));
    }
    let fields = u8::try_from(conf.rx_hash_fields_mask).map_err(|_| {
        unsupported("ibv_create_qp_ex: addresses and ports are hashed, no IPsec SPI and no inner headers")
    })?;
    let mut key = [0; KEY_BYTES];
    // SAFETY: the program says that there are so many.
    unsafe {
        conf.rx_hash_key
            .copy_to_nonoverlapping(key.as_mut_ptr(), KEY_BYTES)
    };
    Ok((key, fields))
}

/// A QP that has no number on the wire: qp_num is 0, and events name its WQs.
pub fn create(context: *mut ibv_context, attr: &mut ibv_qp_init_attr_ex) -> Verb<*mut QpObject> {
    const NEEDED: u32 = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
    if attr.comp_mask & NEEDED != NEEDED || attr.qp_type != IBV_QPT_RAW_PACKET {
        return Err(invalid(
            "ibv_create_qp_ex: an indirection table goes with a PD, RX_HASH and IBV_QPT_RAW_PACKET",
        ));
    }
    let has_flags = attr.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS != 0;
    if attr.comp_mask & !(NEEDED | IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0
        || (has_flags && attr.create_flags != 0)
    {
        return Err(unsupported(
            "ibv_create_qp_ex: a QP with an indirection table has no create_flags and nothing else",
        ));
    }
    // SAFETY: each is looked up first.
    let (owner, domain, table) = unsafe {
        (
            context_of(context)?,
            get(attr.pd.cast::<PdObject>())?,
            get(attr.rwq_ind_tbl.cast::<IndTableObject>())?,
        )
    };
    let (key, fields) = hash_of(&attr.rx_hash_conf)?;
    let options = RssOptions {
        fields,
        key,
        wq_nums: &table.wq_nums,
    };
    let qp = domain.pd.create_rss_qp(&options)?;
    attr.cap = crate::boundary::convert::cap_to_c(NO_QUEUES);
    let raw = ibv_qp_ex {
        qp_base: ibv_qp {
            context,
            qp_context: attr.qp_context,
            pd: attr.pd,
            handle: qp.handle(),
            state: IBV_QPS_RESET,
            qp_type: IBV_QPT_RAW_PACKET,
            ..Default::default()
        },
        ..Default::default()
    };
    let inner = Inner {
        qp: AnyQp::Spread {
            qp,
            _table: table.users.clone(),
        },
        section: Section::new(NO_QUEUES, Service::Raw),
    };
    publish(QpObject {
        raw: CStruct::new(raw),
        wr_flush: CStruct::new(None),
        inner: ShortLock::new(inner, domain.one_thread()),
        events: Arc::default(),
        qp_num: 0,
        is_ex: false,
        sq_sig_all: 0,
        card: owner.card.clone(),
        _domain: domain.hold(),
    })
}
