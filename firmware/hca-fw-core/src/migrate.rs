//! Automatic path migration (APM-1 to APM-8): a connection has a second path, and changes to it when the first one
//! fails, when its peer has, or when it is told to.
//!
//! Hardware reports, and goes on where it is; the path changes here, by what MODIFY_QP changes a path by. The alternate
//! path lies in host memory, behind the send queue, as the command that has loaded it: it is looked at anew when it is
//! wanted, for the function may have written something else there. Decision 0070.

use crate::admin::{BODY_OFFSET, CMD_AREA};
use crate::fetch::read_modify_qp;
use crate::hal::Hal;
use crate::merge::merge;
use crate::objects::require;
use crate::port::Port;
use crate::record::{Attrs, Migration};
use crate::transition::Attr;
use crate::{Bus, CmdResult, Control};
use hca_abi::{AdminCmd, AdminStatus, EventKind, ModifyQpCmd, PathMigState, QpAttr, QpState, Service};

/// Where in the mailbox an alternate path is read.
const ALTERNATE_AREA: u32 = 1536;
/// Attributes of a path.
const PATH: Attr = Attr::AV
    .union(Attr::PKEY_INDEX)
    .union(Attr::PORT)
    .union(Attr::TIMEOUT);
/// Bits of the cause of PATH_ASKED.
const PORT_BIT: u32 = 16;
const FULL_BIT: u32 = 17;
const FULL_MEMBER: u16 = 1 << 15;

impl Control {
    /// Its service knows a second path: RC, UC.
    pub(crate) fn can_migrate(&self, line: u32) -> bool {
        matches!(self.qps[line as usize].service(), Service::Rc | Service::Uc)
    }

    /// What MODIFY_QP says of migration, into `attr`, which has all the rest already. True: the QP migrates, and `attr`
    /// has the other path.
    pub(crate) fn set_migration<B: Bus>(
        &mut self,
        hal: &mut Hal<B>,
        line: u32,
        mask: Attr,
        given: &QpAttr,
        attr: &mut Attrs,
    ) -> CmdResult<bool> {
        let mut has_alternate = attr.has_alternate();
        if mask.contains(Attr::ALT_PATH) {
            self.with_alternate(attr, given)?;
            has_alternate = true;
        }
        let mut state = attr.migration();
        if mask.contains(Attr::PATH_MIG_STATE) {
            let wanted = given.path_mig_state();
            if wanted == u8::from(PathMigState::Migrated) {
                // APM-6.
                if state >= Migration::Armed {
                    *attr = self.alternate(hal, line, attr)?;
                    return Ok(true);
                }
                state = Migration::Migrated;
            } else if wanted == u8::from(PathMigState::Rearm) && has_alternate {
                state = Migration::Rearm;
            } else {
                // ARMED comes of itself.
                let bad = (AdminStatus::BadParam, Attr::PATH_MIG_STATE.bits());
                return (wanted == attr.path_mig_state()).then_some(false).ok_or(bad);
            }
        }
        if mask.contains(Attr::ALT_PATH) {
            let (func, to) = self.place_of_alternate(line);
            hal.dma_to_host(func, to, CMD_AREA, AdminCmd::BYTES as u32)
                .map_err(|_| (AdminStatus::DmaError, Attr::ALT_PATH.bits()))?;
        }
        attr.set_migration(state, has_alternate);
        Ok(false)
    }

    /// The function, and the bus address behind its send queue.
    fn place_of_alternate(&self, line: u32) -> (u8, u64) {
        let made = &self.qps[line as usize].made;
        (made.func(), made.sq().end())
    }

    /// The alternate path of `given` in the place of the one that `attr` has, if it is one (APM-4, APM-7).
    #[inline(never)]
    fn with_alternate(&mut self, attr: &Attrs, given: &QpAttr) -> CmdResult<Attrs> {
        let mut path = *given;
        path.set_ah_attr(given.alt_ah_attr());
        path.set_pkey_index(given.alt_pkey_index());
        path.set_port_num(given.alt_port_num());
        path.set_timeout(given.alt_timeout());
        path.set_path_mtu(attr.path_mtu());
        path.set_udp_src_port(0);
        let mut new = merge(attr, &path, PATH);
        self.check_values(PATH | Attr::PATH_MTU, &path, &new)
            .and_then(|()| self.resolve_path(&mut new))
            .map_err(|(status, _)| (status, Attr::ALT_PATH.bits()))?;
        new.set_migration(Migration::Migrated, false);
        Ok(new)
    }

    /// The same of the path that is loaded.
    fn alternate<B: Bus>(&mut self, hal: &mut Hal<B>, line: u32, attr: &Attrs) -> CmdResult<Attrs> {
        let (func, from) = self.place_of_alternate(line);
        hal.dma_from_host(func, from, ALTERNATE_AREA, AdminCmd::BYTES as u32)
            .map_err(|_| (AdminStatus::DmaError, Attr::ALT_PATH.bits()))?;
        let mut cmd = ModifyQpCmd::new();
        read_modify_qp(hal, ALTERNATE_AREA + BODY_OFFSET, &mut cmd);
        self.with_alternate(attr, &QpAttr(cmd.attr()))
    }

    /// The peer of a QP in REARM is as far.
    pub(crate) fn path_armed<B: Bus>(&mut self, hal: &mut Hal<B>, line: u32) {
        if self.migration_of(line) == Migration::Rearm {
            self.go_to(hal, line, Migration::Armed);
        }
    }

    /// The path of a QP in ARMED has failed, or a packet asks for the other one: `cause`.
    pub(crate) fn path_lost<B: Bus>(&mut self, hal: &mut Hal<B>, line: u32, cause: Option<u32>) {
        let state = self.migration_of(line);
        if state < Migration::Armed {
            return;
        }
        let mut kind = EventKind::PathMig;
        if self.migrate(hal, line, cause).is_err() {
            kind = EventKind::PathMigErr;
            // Whose own path has failed tries it once more, and then fails.
            let next = match cause {
                None => Migration::Migrated,
                Some(_) if state == Migration::Armed => Migration::ArmedTold,
                Some(_) => return,
            };
            self.go_to(hal, line, next);
        }
        self.post_qp_event(hal, line, kind, 0);
    }

    /// Of a QP at work.
    fn migration_of(&self, line: u32) -> Migration {
        if !self.qp_ids.contains(line) || self.qps[line as usize].state() == QpState::Err {
            return Migration::Migrated;
        }
        self.qps[line as usize].attr.migration()
    }

    fn go_to<B: Bus>(&mut self, hal: &mut Hal<B>, line: u32, state: Migration) {
        self.qps[line as usize].attr.set_migration(state, true);
        self.write_qpc(hal, line, false, false);
    }

    /// APM-5.
    fn migrate<B: Bus>(&mut self, hal: &mut Hal<B>, line: u32, cause: Option<u32>) -> CmdResult {
        let attr = self.qps[line as usize].attr;
        let new = self.alternate(hal, line, &attr)?;
        if let Some(cause) = cause {
            require(fits(self.port_of(&new)?, &new, cause), cause)?;
        }
        self.set_attrs(line, new)?;
        self.write_qpc(hal, line, false, false);
        Ok(())
    }
}

/// APM-6, APM-8: a packet that asks for the other path has come along it, by what is known of the packet.
fn fits(port: &Port, path: &Attrs, cause: u32) -> bool {
    let pkey = port
        .pkeys()
        .get(usize::from(path.pkey_index()))
        .copied()
        .unwrap_or(0);
    let place = if port.infiniband() {
        path.dlid()
    } else {
        let own = port.gid(path.sgid_index()).copied().unwrap_or_default();
        place_of_gids(&path.dgid(), &own)
    };
    let is_full = pkey & FULL_MEMBER != 0 || cause >> FULL_BIT & 1 == 1;
    let through = (cause >> PORT_BIT & 1) as u8 + 1;
    cause as u16 == pkey & !FULL_MEMBER ^ place && is_full && through == port.number()
}

/// What of the GIDs of a packet is in the cause of PATH_ASKED.
pub fn place_of_gids(source: &[u8; 16], destination: &[u8; 16]) -> u16 {
    let digest = |gid: &[u8; 16]| {
        let words = gid.as_chunks().0.iter();
        words.fold(0, |all, word| all ^ u16::from_le_bytes(*word))
    };
    digest(source) ^ digest(destination).rotate_left(1)
}

/// The cause of PATH_ASKED ([`hca_abi::HwEventKind::PathAsked`]): the port, from 0, and the P_Key of a packet;
/// `place` is its source LID, or [`place_of_gids`].
pub fn path_asked_cause(port: u8, pkey: u16, place: u16) -> u32 {
    let is_full = u32::from(pkey & FULL_MEMBER != 0);
    is_full << FULL_BIT | u32::from(port) << PORT_BIT | u32::from(pkey & !FULL_MEMBER ^ place)
}
