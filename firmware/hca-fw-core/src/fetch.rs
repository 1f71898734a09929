//! What of a command's body is read: a mailbox word takes seven cycles, and most bodies are short.

use core::ops::Range;

use crate::Bus;
use crate::hal::Hal;
use hca_abi::{ModifyQpCmd, QpAttr, qp_attr};

/// Bytes of a command's body.
pub(crate) const BODY_BYTES: usize = 248;
const WORD_BYTES: usize = 4;
/// Where the attributes of MODIFY_QP begin in its body: behind QPN and mask.
const ATTR_OFFSET: usize = BODY_BYTES_OF_MODIFY_QP - QpAttr::BYTES;
const BODY_BYTES_OF_MODIFY_QP: usize = ModifyQpCmd::USED;

/// Words of the attributes that count with each bit of the mask. Made when this is compiled: names are slow to compare.
const WORDS_OF_BIT: [u64; u32::BITS as usize] = {
    let mut words_of = [0; u32::BITS as usize];
    let mut at = 0;
    while at < QpAttr::TABLE.fields.len() {
        let field = &QpAttr::TABLE.fields[at];
        let (first, last) = (field.lsb() / 32, (field.lsb() + field.width - 1) / 32);
        let mut bit = 0;
        while bit < words_of.len() {
            if counts_with(field.name) >> bit & 1 == 1 {
                words_of[bit] |= (2 << last) - (1 << first);
            }
            bit += 1;
        }
        at += 1;
    }
    words_of
};

/// The bits of the mask of MODIFY_QP any of which makes a field count.
const fn counts_with(field: &str) -> u32 {
    match field.as_bytes() {
        b"qp_state" => qp_attr::STATE,
        b"cur_qp_state" => qp_attr::CUR_STATE,
        b"path_mtu" => qp_attr::PATH_MTU,
        b"path_mig_state" => qp_attr::PATH_MIG_STATE,
        b"qkey" => qp_attr::QKEY,
        b"rq_psn" => qp_attr::RQ_PSN,
        b"sq_psn" => qp_attr::SQ_PSN,
        b"dest_qp_num" => qp_attr::DEST_QPN,
        b"qp_access_flags" => qp_attr::ACCESS_FLAGS,
        b"max_send_wr" | b"max_recv_wr" | b"max_send_sge" | b"max_recv_sge" | b"max_inline_data" => {
            qp_attr::CAP
        }
        b"ah_attr" | b"udp_src_port" => qp_attr::AV,
        b"alt_ah_attr" | b"alt_pkey_index" | b"alt_port_num" | b"alt_timeout" => qp_attr::ALT_PATH,
        b"pkey_index" => qp_attr::PKEY_INDEX,
        b"en_sqd_async_notify" => qp_attr::EN_SQD_ASYNC_NOTIFY,
        // Query only.
        b"sq_draining" => 0,
        b"max_rd_atomic" => qp_attr::MAX_QP_RD_ATOMIC,
        b"max_dest_rd_atomic" => qp_attr::MAX_DEST_RD_ATOMIC,
        b"min_rnr_timer" => qp_attr::MIN_RNR_TIMER,
        b"port_num" => qp_attr::PORT,
        b"timeout" => qp_attr::TIMEOUT,
        b"retry_cnt" => qp_attr::RETRY_CNT,
        b"rnr_retry" => qp_attr::RNR_RETRY,
        b"rate_limit" => qp_attr::RATE_LIMIT,
        _ => u32::MAX,
    }
}

/// Words of the attributes in which a field counts, one bit each.
fn attr_words(mask: u32) -> u64 {
    let counting = WORDS_OF_BIT.iter().enumerate();
    let counting = counting.filter(|(bit, _)| mask >> bit & 1 == 1);
    counting.fold(0, |all, (_, words)| all | words)
}

/// Reads words of a body to their place in it.
fn read_words<B: Bus>(hal: &mut Hal<B>, area: u32, body: &mut [u8; BODY_BYTES], words: Range<usize>) {
    let bytes = words.start * WORD_BYTES..words.end * WORD_BYTES;
    let offset = area + bytes.start as u32;
    if let Some(out) = body.get_mut(bytes) {
        hal.mailbox_read(offset, out);
    }
}

/// The first bytes of the body in the mailbox, a multiple of 4; zero behind them.
#[inline(never)]
pub(crate) fn read_body<B: Bus>(hal: &mut Hal<B>, area: u32, bytes: usize, body: &mut [u8; BODY_BYTES]) {
    *body = [0; BODY_BYTES];
    read_words(hal, area, body, 0..bytes / WORD_BYTES);
}

/// Of MODIFY_QP's body QPN and mask, and the attributes that count by the mask.
#[inline(never)]
pub(crate) fn read_modify_qp<B: Bus>(hal: &mut Hal<B>, area: u32, cmd: &mut ModifyQpCmd) {
    read_body(hal, area, ATTR_OFFSET, &mut cmd.0);
    let (mut left, mut word) = (attr_words(cmd.attr_mask()), ATTR_OFFSET / WORD_BYTES);
    while left != 0 {
        if left & 1 == 1 {
            read_words(hal, area, &mut cmd.0, word..word + 1);
        }
        (left, word) = (left >> 1, word + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every bit of the mask makes the fields that its own line in the table names count, and no others.
    #[test]
    fn fields_count_as_the_mask_says() {
        for flag in qp_attr::TABLE.flags {
            let mask = 1 << flag.bit;
            let names = flag.doc.trim().trim_end_matches('.').split(", ");
            for field in QpAttr::TABLE.fields {
                let mut listed = names.clone().any(|name| name == field.name);
                listed |= flag.name == "AV" && field.name == "udp_src_port";
                assert_eq!(
                    mask & counts_with(field.name) != 0,
                    listed,
                    "{}, {}",
                    flag.name,
                    field.name
                );
            }
        }
        assert_eq!(attr_words(0), 0);
        assert_eq!(attr_words(u32::MAX).count_ones() as usize, QpAttr::BYTES / 4 - 8);
    }
}
