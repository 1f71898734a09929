//! What a subnet manager's administration is asked on an InfiniBand port that has one (MGMT-3): paths, and joins of
//! multicast groups (MC-12). Every question is one datagram, and so is its answer. Without a manager the simulator's
//! tables say the same.

use std::net::IpAddr;

use hca_cm::{MAD_BYTES, Mad};

use crate::address::Gid;
use crate::gsi::Route;

/// Class of subnet administration, and its version.
const CLASS: u8 = 0x03;
const VERSION: u8 = 2;
/// An answer has this bit.
const RESPONSE: u8 = 0x80;
const GET: u8 = 0x01;
const SET: u8 = 0x02;
const DELETE: u8 = 0x15;
const PATH_RECORD: u16 = 0x35;
const MC_MEMBER_RECORD: u16 = 0x38;
/// Where component mask and record are.
const MASK: usize = 48;
const RECORD: usize = 56;
/// PathRecord: DGID, SGID, Reversible, NumbPath and P_Key say which.
const PATH_MASK: u64 = 1 << 2 | 1 << 3 | 1 << 11 | 1 << 12 | 1 << 13;
/// MCMemberRecord: MGID, PortGID and JoinState; to make a group also Q_Key, TClass, P_Key, SL and flow label.
const MEMBER_MASK: u64 = 1 | 1 << 1 | 1 << 16;
const JOIN_MASK: u64 = MEMBER_MASK | 1 << 2 | 1 << 6 | 1 << 7 | 1 << 12 | 1 << 13;
/// JoinState.
const FULL_MEMBER: u8 = 1;
const SEND_ONLY_FULL_MEMBER: u8 = 8;
/// How long an answer is waited for, and how often a question is asked again.
const TIMEOUT_NS: u64 = 1_000_000_000;
const RETRIES: u32 = 7;
/// Questions of a port that may be open.
const MAX_OPEN: usize = 1_024;

/// Who answers: LID and service level of the subnet manager, which PortInfo says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manager {
    pub lid: u16,
    pub sl: u8,
}

impl Manager {
    /// The way to it from a port.
    pub fn route(self, port_num: u8) -> Route {
        Route {
            dlid: self.lid,
            sl: self.sl,
            port_num,
            ..Route::default()
        }
    }
}

/// What an answer is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The path of an id.
    Path,
    /// A group of an id: its address, the program's number, and whether its QP receives.
    Join {
        ip: IpAddr,
        mgid: Gid,
        context: usize,
        receives: bool,
    },
}

/// What the administration says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub dlid: u16,
    pub slid: u16,
    pub sl: u8,
    pub mtu: u8,
    pub rate: u8,
    pub life_time: u8,
    pub flow_label: u32,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub qkey: u32,
}

/// A question that is asked again, and the way to whom.
pub type Again = (Route, Mad);

struct Open {
    transaction: u64,
    id: usize,
    purpose: Purpose,
    to: Route,
    mad: Mad,
    deadline_ns: u64,
    retries: u32,
}

/// The questions of a port.
pub struct Client {
    open: Vec<Open>,
    last: u64,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) << 16 | u32::from(u16_at(bytes, at + 2))
}

fn request(method: u8, attribute: u16, mask: u64) -> Mad {
    let mut mad = [0; MAD_BYTES];
    (mad[0], mad[1], mad[2], mad[3]) = (1, CLASS, VERSION, method);
    mad[16..18].copy_from_slice(&attribute.to_be_bytes());
    mad[MASK..MASK + 8].copy_from_slice(&mask.to_be_bytes());
    mad
}

/// Get of PathRecord: one path, there and back.
pub fn path_request(sgid: &Gid, dgid: &Gid, pkey: u16) -> Mad {
    let mut mad = request(GET, PATH_RECORD, PATH_MASK);
    let record = &mut mad[RECORD..];
    record[8..24].copy_from_slice(dgid);
    record[24..40].copy_from_slice(sgid);
    record[49] = 0x80 | 1;
    record[50..52].copy_from_slice(&pkey.to_be_bytes());
    mad
}

/// MC-12: Set of MCMemberRecord, which makes the group if it is not there.
pub fn join_request(mgid: &Gid, port_gid: &Gid, pkey: u16, qkey: u32, receives: bool) -> Mad {
    let mut mad = member(SET, JOIN_MASK, mgid, port_gid, receives);
    let record = &mut mad[RECORD..];
    record[32..36].copy_from_slice(&qkey.to_be_bytes());
    record[40..42].copy_from_slice(&pkey.to_be_bytes());
    mad
}

/// MC-13: its opposite.
pub fn leave_request(mgid: &Gid, port_gid: &Gid, receives: bool) -> Mad {
    member(DELETE, MEMBER_MASK, mgid, port_gid, receives)
}

fn member(method: u8, mask: u64, mgid: &Gid, port_gid: &Gid, receives: bool) -> Mad {
    let mut mad = request(method, MC_MEMBER_RECORD, mask);
    let record = &mut mad[RECORD..];
    record[..16].copy_from_slice(mgid);
    record[16..32].copy_from_slice(port_gid);
    record[48] = if receives {
        FULL_MEMBER
    } else {
        SEND_ONLY_FULL_MEMBER
    };
    mad
}

fn read(mad: &Mad) -> Option<Answer> {
    let record = &mad[RECORD..];
    let status = u16_at(mad, 4);
    let answer = match u16_at(mad, 16) {
        PATH_RECORD => Answer {
            dlid: u16_at(record, 40),
            slid: u16_at(record, 42),
            sl: record[53] & 15,
            mtu: record[54] & 0x3f,
            rate: record[55] & 0x3f,
            life_time: record[56] & 0x3f,
            flow_label: u32_at(record, 44) >> 8 & 0xf_ffff,
            hop_limit: record[47],
            traffic_class: record[48],
            qkey: 0,
        },
        MC_MEMBER_RECORD => Answer {
            dlid: u16_at(record, 36),
            slid: 0,
            sl: record[44] >> 4,
            mtu: record[38] & 0x3f,
            rate: record[42] & 0x3f,
            life_time: record[43] & 0x3f,
            flow_label: u32_at(record, 44) >> 8 & 0xf_ffff,
            hop_limit: record[47],
            traffic_class: record[39],
            qkey: u32_at(record, 32),
        },
        _ => return None,
    };
    (status == 0 && answer.dlid != 0).then_some(answer)
}

impl Client {
    /// `seed`: where the numbers of transactions begin, so that those of two processes differ.
    pub fn new(seed: u64) -> Self {
        Self {
            open: Vec::new(),
            last: seed & !0xffff_ffff,
        }
    }

    /// Asks; the datagram is to be sent. `None`: too much is open.
    pub fn ask(&mut self, now_ns: u64, id: usize, purpose: Purpose, to: Route, mut mad: Mad) -> Option<Mad> {
        if self.open.len() >= MAX_OPEN {
            return None;
        }
        self.number(&mut mad);
        self.open.push(Open {
            transaction: self.last,
            id,
            purpose,
            to,
            mad,
            deadline_ns: now_ns + TIMEOUT_NS,
            retries: RETRIES,
        });
        Some(mad)
    }

    /// Gives a datagram a transaction of its own.
    pub fn number(&mut self, mad: &mut Mad) {
        let low = (self.last as u32).wrapping_add(1);
        self.last = self.last & !0xffff_ffff | u64::from(low);
        mad[8..16].copy_from_slice(&self.last.to_be_bytes());
    }

    /// Does the id wait for an answer?
    pub fn waits(&self, id: usize) -> bool {
        self.open.iter().any(|open| open.id == id)
    }

    /// An id is no more.
    pub fn forget(&mut self, id: usize) {
        self.open.retain(|open| open.id != id);
    }

    /// Takes a datagram that is an answer: for whom, for what, and what it says; `Some(None)` at the end: a refusal.
    pub fn receive(&mut self, mad: &Mad) -> Option<(usize, Purpose, Option<Answer>)> {
        let is_answer = (mad[1], mad[2]) == (CLASS, VERSION) && mad[3] & RESPONSE != 0;
        let transaction = u64::from(u32_at(mad, 8)) << 32 | u64::from(u32_at(mad, 12));
        let is_of = |open: &Open| open.transaction == transaction && open.mad[16..18] == mad[16..18];
        let at = self.open.iter().position(is_of).filter(|_| is_answer)?;
        let open = self.open.swap_remove(at);
        Some((open.id, open.purpose, read(mad)))
    }

    /// When [`Client::expire`] has something to do.
    pub fn deadline_ns(&self) -> Option<u64> {
        self.open.iter().map(|open| open.deadline_ns).min()
    }

    /// What is to be asked again, and who has asked often enough.
    pub fn expire(&mut self, now_ns: u64) -> (Vec<Again>, Vec<(usize, Purpose)>) {
        let (mut again, mut over) = (Vec::new(), Vec::new());
        self.open.retain_mut(|open| {
            if open.deadline_ns > now_ns {
                return true;
            }
            if open.retries == 0 {
                over.push((open.id, open.purpose.clone()));
                return false;
            }
            open.retries -= 1;
            open.deadline_ns = now_ns + TIMEOUT_NS;
            again.push((open.to.clone(), open.mad));
            true
        });
        (again, over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(mad: &Mad, status: u16, dlid: u16) -> Mad {
        let mut mad = *mad;
        mad[3] |= RESPONSE;
        mad[4..6].copy_from_slice(&status.to_be_bytes());
        mad[RECORD + 40..RECORD + 42].copy_from_slice(&dlid.to_be_bytes());
        (mad[RECORD + 53], mad[RECORD + 54]) = (0x23, 0x85);
        mad
    }

    fn asked(client: &mut Client, id: usize) -> Mad {
        let mad = path_request(&[1; 16], &[2; 16], 0xffff);
        client.ask(0, id, Purpose::Path, Route::default(), mad).unwrap()
    }

    /// MGMT-3: an answer goes to who has asked; what nobody has asked for, and what comes twice, to nobody.
    #[test]
    fn answers_find_their_questions() {
        let mut client = Client::new(0x1234_5678_9abc_def0);
        let (first, second) = (asked(&mut client, 1), asked(&mut client, 2));
        let (id, _, found) = client.receive(&answer(&second, 0, 7)).unwrap();
        let found = found.unwrap();
        assert_eq!((id, found.dlid, found.sl, found.mtu), (2, 7, 3, 5));
        assert!(client.receive(&answer(&second, 0, 7)).is_none());
        assert!(client.receive(&first).is_none(), "a question");
        let (id, _, found) = client.receive(&answer(&first, 0x300, 7)).unwrap();
        assert_eq!((id, found), (1, None), "refused");
        assert!(client.receive(&[0xff; MAD_BYTES]).is_none());
    }

    #[test]
    fn questions_are_asked_again_and_given_up() {
        let mut client = Client::new(0);
        let mad = asked(&mut client, 1);
        asked(&mut client, 2);
        client.forget(2);
        let mut now_ns = 0;
        for _ in 0..RETRIES {
            now_ns = client.deadline_ns().unwrap();
            assert!(client.expire(now_ns - 1).0.is_empty());
            assert_eq!(client.expire(now_ns).0, [(Route::default(), mad)]);
        }
        assert!(client.waits(1) && !client.waits(2));
        let (again, over) = client.expire(now_ns + TIMEOUT_NS);
        assert_eq!((again.len(), over), (0, vec![(1, Purpose::Path)]));
        assert_eq!(client.deadline_ns(), None);
    }
}
