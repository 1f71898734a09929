//! QPs that get a copy each of the same datagram: those for QP1 or QP0 of a port, and members of multicast groups. The
//! hardware walks lists of rows (`group_row`); here is what is in them, and how they are changed: a row that is in no
//! list is written first, then the one that leads to it.

use crate::hal::Hal;
use crate::neighbours::is_ipv4;
use crate::pool::IdPool;
use crate::table::Table;
use crate::{Bus, CmdResult, Control, Quotas};
use hca_abi::{
    AdminStatus, GROUP_HASH_HEADS, GROUP_HEADS, GROUP_ROWS, GROUP_SMI_HEADS, GroupRow, McastCmd, Service,
};

const ROWS: usize = GROUP_ROWS as usize;
const MEMBERS: u32 = GROUP_ROWS - GROUP_HEADS;
/// QPs that a multicast group can have of one function.
pub(crate) const MAX_QPS_PER_GROUP: u32 = 16;

/// What a member gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// Datagrams for QP1 of a port, from 0.
    Gsi(u8),
    /// Those for its QP0.
    Smi(u8),
    /// Those for a multicast group that come through a port, from 0.
    Multicast(u8, [u8; 16]),
}

impl Of {
    /// The head of its list.
    fn head(&self) -> u16 {
        match self {
            Self::Gsi(port) => u16::from(*port),
            Self::Smi(port) => GROUP_SMI_HEADS as u16 + u16::from(*port),
            Self::Multicast(_, mgid) => GROUP_HASH_HEADS as u16 + hash(mgid),
        }
    }
}

/// The exclusive or of the 6-bit pieces of an MGID, as hardware computes it.
fn hash(mgid: &[u8; 16]) -> u16 {
    let mut bits = u128::from_le_bytes(*mgid);
    let mut hash = 0;
    while bits != 0 {
        hash ^= (bits & 63) as u16;
        bits >>= 6;
    }
    hash
}

/// A QP, and what it gets. In a free row QP 0, which no QP has: all zero, so that it takes no room in the image.
#[derive(Clone, Copy)]
#[repr(Rust, packed)]
struct Member {
    qpn: u32,
    of: Of,
}

const NOBODY: Member = Member {
    qpn: 0,
    of: Of::Gsi(0),
};

/// All lists.
pub(crate) struct Groups {
    ids: IdPool<{ MEMBERS.div_ceil(32) as usize }>,
    /// Of each row the next in its list; 0: none.
    next: Table<u16, ROWS>,
    /// Of the rows behind the heads.
    members: [Member; MEMBERS as usize],
}

impl Groups {
    pub const fn new(quotas: Quotas) -> Self {
        Self {
            ids: IdPool::new(MEMBERS, 0, quotas),
            next: Table::new([0; ROWS]),
            members: [NOBODY; MEMBERS as usize],
        }
    }

    /// Divides them anew, before any is used.
    pub fn share_out(&mut self, quotas: Quotas) {
        self.ids.share_out(MEMBERS, 0, quotas);
    }

    /// Memberships that a function can have.
    pub const fn limit(&self, func: u8) -> u32 {
        self.ids.limit(func)
    }

    /// Who is in a row; in a head and in a free one nobody.
    fn member(&self, at: u16) -> Option<Member> {
        let place = usize::from(at).checked_sub(GROUP_HEADS as usize)?;
        self.members.get(place).copied().filter(|member| member.qpn != 0)
    }

    fn set_member(&mut self, at: u16, member: Member) {
        let place = usize::from(at).wrapping_sub(GROUP_HEADS as usize);
        if let Some(slot) = self.members.get_mut(place) {
            *slot = member;
        }
    }

    fn write<B: Bus>(&self, hal: &mut Hal<B>, at: u16) {
        let mut row = GroupRow::new();
        row.set_next(self.next[usize::from(at)]);
        if let Some(Member { qpn, of }) = self.member(at) {
            row.set_valid(true);
            row.set_qpn(qpn);
            match of {
                Of::Gsi(port) | Of::Smi(port) => row.set_port(port),
                Of::Multicast(port, mgid) => {
                    row.set_is_multicast(true);
                    row.set_port(port);
                    row.set_mgid(mgid);
                }
            }
        }
        hal.group_row(at, &row);
    }

    /// The members of a list, with their rows.
    fn list(&self, head: u16) -> impl Iterator<Item = (u16, u32, Of)> + '_ {
        let next = |at: u16| Some(self.next[usize::from(at)]).filter(|next| *next != 0);
        core::iter::successors(next(head), move |at| next(*at)).filter_map(|at| {
            let Member { qpn, of } = self.member(at)?;
            Some((at, qpn, of))
        })
    }

    fn has(&self, qpn: u32, of: Of) -> bool {
        self.list(of.head())
            .any(|(_, member, its)| (member, its) == (qpn, of))
    }

    fn join<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, qpn: u32, of: Of) -> CmdResult {
        let id = self.ids.alloc(func);
        let at = (id.ok_or((AdminStatus::NoResources, self.limit(func)))? + GROUP_HEADS) as u16;
        let head = of.head();
        self.set_member(at, Member { qpn, of });
        self.next[usize::from(at)] = self.next[usize::from(head)];
        self.write(hal, at);
        self.next[usize::from(head)] = at;
        self.write(hal, head);
        Ok(())
    }

    /// Takes a row out of its list.
    fn leave<B: Bus>(&mut self, hal: &mut Hal<B>, at: u16, of: Of) {
        let mut before = of.head();
        while self.next[usize::from(before)] != at {
            before = self.next[usize::from(before)];
            if before == 0 {
                return;
            }
        }
        self.next[usize::from(before)] = self.next[usize::from(at)];
        self.write(hal, before);
        self.set_member(at, NOBODY);
        self.ids.free(u32::from(at).wrapping_sub(GROUP_HEADS));
    }

    fn members_of(&self, qpn: u32) -> impl Iterator<Item = (u16, Of)> + '_ {
        self.ids.used().filter_map(move |id| {
            let at = (id + GROUP_HEADS) as u16;
            let Member { qpn: member, of } = self.member(at)?;
            (member == qpn).then_some((at, of))
        })
    }

    /// Is the QP a member of a multicast group?
    pub fn is_attached(&self, qpn: u32) -> bool {
        self.members_of(qpn)
            .any(|(_, of)| matches!(of, Of::Multicast(..)))
    }

    /// The QP is in no list any more.
    pub fn leave_all<B: Bus>(&mut self, hal: &mut Hal<B>, qpn: u32) {
        loop {
            let next = self.members_of(qpn).next();
            let Some((at, of)) = next else { return };
            self.leave(hal, at, of);
        }
    }

    /// Can the QP be QP1 or QP0 of a port for its function? There is one for each.
    pub fn check_place(&self, func: u8, qpn: u32, of: Of) -> CmdResult {
        let own = self.ids.of(func);
        let is_own = |at: u16| own.contains(&(u32::from(at).wrapping_sub(GROUP_HEADS)));
        let mut others = self
            .list(of.head())
            .filter(|(at, member, _)| is_own(*at) && *member != qpn);
        if let Some((_, other, _)) = others.next() {
            return Err((AdminStatus::InUse, other));
        }
        let has_room = self.has(qpn, of) || own.into_iter().any(|id| !self.ids.contains(id));
        has_room
            .then_some(())
            .ok_or((AdminStatus::NoResources, self.limit(func)))
    }

    /// The QP is this one of a port, and no other; none at all without. [`Groups::check_place`] has said that it can.
    pub fn place<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, qpn: u32, wanted: Option<Of>) {
        if wanted.is_some_and(|of| self.has(qpn, of)) {
            return;
        }
        self.leave_all(hal, qpn);
        if let Some(of) = wanted {
            // There is room: a row was free before, or the one it just left is.
            let _ = self.join(hal, func, qpn, of);
        }
    }
}

/// IBA 4.1.1: the first byte says it; on Ethernet ::ffff:224.0.0.0/4 are groups, too.
fn is_mgid(gid: &[u8; 16]) -> bool {
    gid[0] == 0xff || (is_ipv4(gid) && gid[12] & 0xf0 == 0xe0)
}

/// MAC address of the frames for a group (RFC 1112 6.4, RFC 2464 7); `None`: it is no group.
pub(crate) fn group_mac(gid: &[u8; 16]) -> Option<[u8; 6]> {
    let [.., a, b, c, d] = *gid;
    match is_ipv4(gid) {
        _ if !is_mgid(gid) => None,
        true => Some([0x01, 0x00, 0x5e, b & 0x7f, c, d]),
        false => Some([0x33, 0x33, a, b, c, d]),
    }
}

impl Control {
    /// The QP of the command, and what it is to get.
    fn mcast(&self, func: u8, cmd: &McastCmd) -> CmdResult<(u32, Of)> {
        let qpn = cmd.qpn();
        let rec = &self.qps[self.own_qp(func, qpn)? as usize];
        // MC-1.
        let is_ud = rec.made.service() == u8::from(Service::Ud) && !rec.is_management();
        if !is_ud || !is_mgid(&cmd.mgid()) {
            return Err((AdminStatus::BadParam, qpn));
        }
        // MC-4: its port is known from INIT on.
        let port = rec.attr.port_num().checked_sub(1);
        let port = port.ok_or((AdminStatus::BadState, rec.attr.qp_state().into()))?;
        Ok((qpn, Of::Multicast(port, cmd.mgid())))
    }

    pub(crate) fn attach_mcast<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, cmd: &McastCmd) -> CmdResult {
        let (qpn, of) = self.mcast(func, cmd)?;
        // MC-5.
        if self.groups.has(qpn, of) {
            return Ok(());
        }
        let own = self.qp_ids.of(func);
        let is_own = |qpn| own.contains(&self.lines.index_of(qpn));
        let members = self.groups.list(of.head());
        let members = members.filter(|(_, member, its)| *its == of && is_own(*member));
        if members.count() as u32 >= MAX_QPS_PER_GROUP {
            return Err((AdminStatus::NoResources, MAX_QPS_PER_GROUP));
        }
        self.groups.join(hal, func, qpn, of)
    }

    pub(crate) fn detach_mcast<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, cmd: &McastCmd) -> CmdResult {
        let (qpn, of) = self.mcast(func, cmd)?;
        let mut list = self.groups.list(of.head());
        let at = list.find(|(_, member, its)| (*member, *its) == (qpn, of));
        let (at, ..) = at.ok_or((AdminStatus::BadParam, qpn))?;
        drop(list);
        self.groups.leave(hal, at, of);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_mac_addresses_of_their_own() {
        let of_ipv4 = |last: [u8; 4]| {
            let mut gid = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0];
            gid[12..].copy_from_slice(&last);
            gid
        };
        let all_nodes = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 1];
        for (gid, mac) in [
            (of_ipv4([239, 129, 2, 3]), Some([1, 0, 0x5e, 1, 2, 3])),
            (of_ipv4([224, 0, 0, 251]), Some([1, 0, 0x5e, 0, 0, 251])),
            (of_ipv4([10, 0, 0, 1]), None),
            (of_ipv4([255, 255, 255, 255]), None),
            (all_nodes, Some([0x33, 0x33, 0, 0, 0x12, 1])),
            ([0xfe; 16], None),
        ] {
            assert_eq!(group_mac(&gid), mac, "{gid:?}");
        }
    }

    #[test]
    fn the_hash_is_of_six_bit_pieces_from_the_first_bit_on() {
        let mut mgid = [0; 16];
        assert_eq!(hash(&mgid), 0);
        mgid[0] = 0xff;
        assert_eq!(hash(&mgid), 0x3f ^ 3);
        mgid[15] = 0xc0;
        // Bits 126 and 127 are the last piece, alone.
        assert_eq!(hash(&mgid), 0x3f ^ 3 ^ 3);
    }
}
