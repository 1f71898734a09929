//! Connections of RC with another path (APM-1): another partition of the same port, so that the judge hears it, too.

use hca_link::LinkKind;
use hca_verbs::{AhAttr, PathMigState, QpAttr, QpAttrMask, QpState};

use super::{Handle, Services};
use crate::rig::{Rig, RigError};

/// The partition of other paths.
const PKEY_INDEX: u16 = 3;
const PKEY: u16 = 0x8123;
/// Until everybody has been told of it.
const TOLD_CYCLES: u64 = 5_000;

/// The first ports of both cards are in that partition, and everybody who is to hear of that has.
pub(crate) fn join_partition(rig: &mut Rig) -> Result<(), RigError> {
    for node in &rig.nodes {
        node.context.set_pkey(1, PKEY_INDEX, PKEY)?;
    }
    rig.run(TOLD_CYCLES);
    for node in &rig.nodes {
        while node.context.poll_async_event().is_some() {}
    }
    Ok(())
}

impl Services<'_> {
    /// Both ends of a connection that has just been made have another path.
    pub(super) fn load_paths(&mut self, conn: usize) -> Result<(), RigError> {
        let plan = &self.plan.conns[conn];
        if !plan.has_path {
            return Ok(());
        }
        for (own, peer) in [(0, 1), (1, 0)] {
            let way = self.way_to(self.plan.seats[plan.seats[peer]].node, plan.gid_index)?;
            let attr = QpAttr {
                alt_ah_attr: AhAttr {
                    port_num: 1,
                    dmac: match self.link {
                        LinkKind::Ethernet => way.dmac,
                        LinkKind::InfiniBand => [0; 6],
                    },
                    ..way
                },
                alt_pkey_index: PKEY_INDEX,
                alt_port_num: 1,
                alt_timeout: self.timeout,
                path_mig_state: PathMigState::Rearm,
                ..QpAttr::default()
            };
            if let Handle::Qp(qp) = &mut self.seats[plan.seats[own]].handle {
                qp.modify(&attr, QpAttrMask::ALT_PATH | QpAttrMask::PATH_MIG_STATE)?;
            }
        }
        Ok(())
    }

    /// APM-6: if both ends know of the other path, one takes it.
    pub(super) fn migrate(&mut self, seat: usize) -> Result<(), RigError> {
        // To an end that has heard of no other path the packets that ask for it would be strangers.
        for seat in &self.plan.conns[self.plan.seats[seat].conn].seats {
            match &self.seats[*seat].handle {
                Handle::Qp(qp) if qp.query()?.path_mig_state == PathMigState::Armed => {}
                _ => return Ok(()),
            }
        }
        let Handle::Qp(qp) = &mut self.seats[seat].handle else {
            return Ok(());
        };
        let attr = QpAttr {
            path_mig_state: PathMigState::Migrated,
            ..QpAttr::default()
        };
        let Err(error) = qp.modify(&attr, QpAttrMask::PATH_MIG_STATE) else {
            return Ok(());
        };
        // Its peer, or a time-out, came before; or it has failed.
        let now = qp.query()?;
        match (now.path_mig_state, now.qp_state) {
            (PathMigState::Migrated, _) | (_, QpState::Err) => Ok(()),
            _ => Err(error.into()),
        }
    }
}
