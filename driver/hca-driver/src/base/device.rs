//! How a device is held.

use std::ops::Deref;

/// A shared pointer to a device: `Rc<dyn Device>` for a simulator in this thread, `Arc<dyn Device + Send +
/// Sync>` for one behind a socket. What holds the pointer is `Send` exactly if the pointer is.
pub trait DevicePtr: Clone + Deref<Target: hca_dev::Device> {}

impl<P: Clone + Deref<Target: hca_dev::Device>> DevicePtr for P {}
