//! Completions for asynchronous programs: a stream for each CQ, whatever the executor, and threads that wait for the
//! card's interrupts.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as Task, Poll};
use std::thread::JoinHandle;

use futures_core::Stream;
use hca_dev::Device;
use hca_driver::DevicePtr;

use crate::objects::context::Context;
use crate::objects::cq::{Cq, WorkCompletion};
use crate::values::error::{Error, Result};

/// How long a thread waits before it looks whether it shall end.
const SLICE_NS: u64 = 20_000_000;

/// The completions of a CQ, as they come. An error, such as [`Error::CqDead`], is the last item.
///
/// One stream of a CQ at a time. The CQ's events are the stream's: its channel does not report them.
pub struct Completions<P: DevicePtr> {
    cq: Cq<P>,
    is_over: bool,
}

impl<P: DevicePtr> Completions<P> {
    /// The CQ.
    pub fn cq(&self) -> &Cq<P> {
        &self.cq
    }
}

impl<P: DevicePtr> Cq<P> {
    /// A stream of its completions. The CQ must have a channel.
    pub fn completions(&self) -> Result<Completions<P>> {
        match self.channel() {
            Some(_) => Ok(Completions {
                cq: self.clone(),
                is_over: false,
            }),
            None => Err(Error::Invalid(format!(
                "CQ {:#x} has no channel: nothing tells of its completions",
                self.cqn()
            ))),
        }
    }
}

impl<P: DevicePtr> Completions<P> {
    /// Looks, arms, and looks again: a completion that comes between is found, one that comes later wakes (V-70).
    fn look(&self, task: &Task<'_>) -> Result<Option<WorkCompletion>> {
        if let Some(found) = self.cq.take_one()? {
            return Ok(Some(found));
        }
        let Some(channel) = self.cq.channel() else {
            return Ok(None);
        };
        channel.set_waker(self.cq.cqn(), task.waker());
        self.cq.req_notify(false)?;
        let found = self.cq.take_one()?;
        if found.is_some() {
            channel.remove_waker(self.cq.cqn());
        }
        Ok(found)
    }
}

impl<P: DevicePtr> Stream for Completions<P> {
    type Item = Result<WorkCompletion>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Option<Self::Item>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        match self.look(task) {
            Ok(Some(found)) => Poll::Ready(Some(Ok(found))),
            Ok(None) => Poll::Pending,
            Err(error) => {
                self.is_over = true;
                Poll::Ready(Some(Err(error)))
            }
        }
    }
}

impl<P: DevicePtr> Unpin for Completions<P> {}

impl<P: DevicePtr> Drop for Completions<P> {
    fn drop(&mut self) {
        if let Some(channel) = self.cq.channel() {
            channel.remove_waker(self.cq.cqn());
        }
    }
}

/// Threads that wait for the interrupts of a card, and wake the tasks that wait for its events: one for each completion
/// vector. They end with it.
pub struct EventThread {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl EventThread {
    /// Starts them. The device must be one that any thread may use.
    pub fn start<P: DevicePtr + Send + Sync + 'static>(context: &Context<P>) -> io::Result<Self> {
        let mut started = Self {
            stop: Arc::default(),
            threads: Vec::new(),
        };
        for eq in &context.shared().comp_eqs {
            let (context, stop, vector) = (context.clone(), started.stop.clone(), eq.vector);
            let thread = std::thread::Builder::new().name(format!("hca-events-{vector}"));
            started.threads.push(thread.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let device = context.device();
                    let waited = device.wait_irq(vector, device.now_ns().saturating_add(SLICE_NS));
                    context.run_events();
                    if waited.is_err() {
                        // The card is gone; polls say so.
                        return;
                    }
                }
            })?);
        }
        Ok(started)
    }
}

impl Drop for EventThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // One that has panicked has said so.
            let _ = thread.join();
        }
    }
}
