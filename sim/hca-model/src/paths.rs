//! Second paths of a model's QPs (APM-1 to APM-8): what a card's firmware does with what its QPs report.

use std::collections::{BTreeMap, VecDeque};

use hca_abi::{EventKind, PathMigState};
use hca_wire::Link;

use crate::config::{QpConfig, Service};
use crate::link::same_sender;
use crate::model::{Model, ModelError, ModelEvent};
use crate::packet::Frame;
use crate::qp::pkeys_match;
use crate::world::PathNews;

/// The path that a connection may change to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecondPath {
    /// Headers of packets to the peer.
    pub link: Link,
    /// P_Key.
    pub pkey: u16,
    /// REL-6.
    pub timeout: u8,
}

/// What becomes of a QP.
enum Change {
    Arm,
    Migrate,
}

struct Second {
    path: SecondPath,
    /// Of packets that ask for another one its owner has heard.
    is_told: bool,
}

/// Paths by QPN, and what is due.
#[derive(Default)]
pub(crate) struct Paths {
    second: BTreeMap<u32, Second>,
    changes: VecDeque<(u32, Change)>,
}

impl Paths {
    /// A QP is gone.
    pub fn forget(&mut self, qpn: u32) {
        self.second.remove(&qpn);
        self.changes.retain(|(of, _)| *of != qpn);
    }

    /// Returns with what the QP's owner is to be told now.
    pub fn hear(&mut self, config: &QpConfig, news: PathNews<'_>) -> Option<EventKind> {
        let second = self.second.get_mut(&config.qpn)?;
        let change = match news {
            PathNews::Armed => Change::Arm,
            PathNews::Failed => Change::Migrate,
            PathNews::Asked(frame) if second.fits(frame) => Change::Migrate,
            PathNews::Asked(_) => {
                let was_told = std::mem::replace(&mut second.is_told, true);
                return (!was_told).then_some(EventKind::PathMigErr);
            }
        };
        self.changes.push_back((config.qpn, change));
        None
    }
}

impl Second {
    /// APM-8: a packet came along it.
    fn fits(&self, frame: &Frame) -> bool {
        same_sender(&frame.link, &self.path.link) && pkeys_match(frame.packet.pkey, self.path.pkey)
    }
}

impl Model {
    /// APM-4: a connection (RC, UC) gets another path, in the place of the one that it had loaded.
    pub fn load_path(&mut self, qpn: u32, path: SecondPath) -> Result<(), ModelError> {
        let (qp, world) = self.qp(qpn)?;
        if !matches!(qp.config.service, Service::Rc | Service::Uc) {
            return Err(ModelError::NoPath(qpn));
        }
        let second = Second { path, is_told: false };
        world.paths.second.insert(qpn, second);
        Ok(())
    }

    /// APM-3, APM-6. REARM: the QP is ready for its second path; ARMED comes of itself, when the peer is, too.
    /// MIGRATED: from ARMED it migrates, from REARM it wants to no longer.
    pub fn set_path_mig_state(&mut self, qpn: u32, state: PathMigState) -> Result<(), ModelError> {
        let (qp, world) = self.qp(qpn)?;
        match (state, qp.config.path_mig_state) {
            (PathMigState::Migrated, PathMigState::Armed) => {
                world.paths.changes.push_back((qpn, Change::Migrate));
            }
            (PathMigState::Rearm, _) if !world.paths.second.contains_key(&qpn) => {
                return Err(ModelError::NoPath(qpn));
            }
            (PathMigState::Armed, _) => return Err(ModelError::NoPath(qpn)),
            _ => qp.config.path_mig_state = state,
        }
        self.change_paths();
        Ok(())
    }

    /// Where a QP is in that.
    pub fn path_mig_state(&mut self, qpn: u32) -> Result<PathMigState, ModelError> {
        Ok(self.qp(qpn)?.0.config.path_mig_state)
    }

    /// Does what QPs have made necessary (APM-5).
    pub(crate) fn change_paths(&mut self) {
        while let Some((qpn, change)) = self.next_path_change() {
            let Ok((qp, world)) = self.qp(qpn) else { continue };
            match (change, qp.config.path_mig_state) {
                (Change::Arm, PathMigState::Rearm) => qp.config.path_mig_state = PathMigState::Armed,
                (Change::Migrate, PathMigState::Armed) => {
                    let Some(Second { path, .. }) = world.paths.second.remove(&qpn) else {
                        continue;
                    };
                    qp.set_config(QpConfig {
                        link: path.link,
                        pkey: path.pkey,
                        timeout: path.timeout,
                        path_mig_state: PathMigState::Migrated,
                        ..qp.config
                    });
                    let kind = EventKind::PathMig;
                    world.events.push_back(ModelEvent { qpn, kind });
                }
                _ => {}
            }
        }
    }

    fn next_path_change(&mut self) -> Option<(u32, Change)> {
        self.world.paths.changes.pop_front()
    }
}
