//! What happens on the cards of a fabric, as a timeline for Perfetto and Chrome (trace-event format, JSON).
//!
//! A [`Timeline`] watches the ports of every card: doorbells, work requests from doorbell to completion with their
//! stages, packets at every port, reads and writes of host memory, and how full queues are. Each card is a process of
//! the timeline, each queue pair, port and block a track of it; docs/timeline.md lists them. Events are written as they
//! happen, so that the memory needed does not grow with the run; an interrupted file lacks only the closing bracket,
//! which readers of the format do not demand. Times are simulated.
//!
//! A watched run takes the same cycles as one that nobody watches.
#![forbid(unsafe_code)]

mod card;
mod packet;
mod pcie;
mod port;
mod queues;
mod sink;
mod switch;
mod track;
mod work;

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hca_cosim::Fabric;
use hca_stages::{StageError, StageLog};
use thiserror::Error;

use crate::card::CardTap;
use crate::sink::Sink;
use crate::switch::SwitchTap;
use crate::track::CardTracks;
use crate::work::WorkTracks;

/// A timeline that could not be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TimelineError {
    /// The fabric cannot be watched any more.
    #[error("no timeline: {0}")]
    Stages(#[from] StageError),
    /// The file cannot be written.
    #[error("cannot write the timeline {}: {reason}; free some space or choose another folder", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Why.
        reason: io::Error,
    },
}

/// What is in a finished timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Events written.
    pub events: u64,
    /// Work requests among them.
    pub work_requests: u64,
}

/// A timeline under way. [`Timeline::finish`] completes the file; dropping it does the same without a word.
pub struct Timeline {
    sink: Arc<Sink>,
    file: PathBuf,
}

impl Timeline {
    /// Watches all cards and switches of a fabric, before time begins, and records stages as [`StageLog::attach`] does
    /// with this `capacity`. Only what ends or begins in the `window` of cycles is written.
    pub fn attach(
        fabric: &mut Fabric,
        file: &Path,
        window: Range<u64>,
        capacity: usize,
    ) -> Result<(Self, StageLog), TimelineError> {
        let cycle_ps = fabric
            .cards()
            .next()
            .map_or(1, |card| fabric.card(card).cycle_ps());
        let sink = Sink::create(file, cycle_ps, window).map_err(|reason| TimelineError::File {
            file: file.to_owned(),
            reason,
        })?;
        let sink = Arc::new(sink);
        let cards: Vec<_> = fabric.cards().collect();
        let mut taps = cards
            .iter()
            .enumerate()
            .map(|(index, card)| {
                let (name, ports) = (fabric.card(*card).name(), fabric.card(*card).ports());
                let kinds = (1..=ports).map(|port| fabric.cable_at(*card, port));
                let kinds = kinds.map(|cable| cable.map(|cable| fabric.cable(cable).config().kind));
                let tracks = CardTracks::announce(&sink, index, name, ports);
                CardTap::new(sink.clone(), tracks, &kinds.collect::<Vec<_>>())
            })
            .collect::<Vec<_>>()
            .into_iter();
        let switches = SwitchTap::announce(sink.clone(), fabric.net(), cards.len());
        fabric.net_mut().observe(Some(Box::new(switches)));
        let log = StageLog::attach_beside(fabric, capacity, || taps.next())?;
        let mut work = WorkTracks::new(sink.clone());
        log.on_end(Box::new(move |record| work.add(record)));
        let timeline = Self {
            sink,
            file: file.to_owned(),
        };
        Ok((timeline, log))
    }

    /// Completes the file; what comes later is not in it. Fails where something of it could not be written.
    pub fn finish(&self) -> Result<Summary, TimelineError> {
        self.sink.finish().map_err(|reason| TimelineError::File {
            file: self.file.clone(),
            reason,
        })
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }
}

impl Drop for Timeline {
    fn drop(&mut self) {
        // Whoever wants to know of an error calls finish.
        let _ = self.sink.finish();
    }
}
