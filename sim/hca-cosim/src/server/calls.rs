//! What other threads want done with a fabric that a server runs.

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::wake::Waker;
use crate::fabric::Fabric;

type Task = Box<dyn FnOnce(&mut Fabric) + Send>;

/// Calls between two turns of a server, from any thread.
#[derive(Clone)]
pub struct Calls {
    tasks: Arc<Mutex<Vec<Task>>>,
    waker: Arc<Waker>,
}

impl Calls {
    pub(super) fn new(waker: Arc<Waker>) -> Self {
        Self {
            tasks: Arc::default(),
            waker,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Task>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the server has done this with its fabric. `None`: it runs no more.
    pub fn call<T: Send + 'static>(&self, task: impl FnOnce(&mut Fabric) -> T + Send + 'static) -> Option<T> {
        let (sender, receiver) = sync_channel(1);
        self.lock().push(Box::new(move |fabric| {
            // Who asked may have gone.
            let _ = sender.send(task(fabric));
        }));
        self.waker.wake();
        receiver.recv().ok()
    }

    /// Does any wait?
    pub(super) fn wait(&self) -> bool {
        !self.lock().is_empty()
    }

    /// Does what is asked for.
    pub(super) fn attend(&self, fabric: &mut Fabric) {
        let tasks = std::mem::take(&mut *self.lock());
        tasks.into_iter().for_each(|task| task(fabric));
    }
}
