//! Completion channels.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hca_driver::DevicePtr;

use crate::function::dispatcher::ChannelQueue;
use crate::function::shared::Shared;
use crate::objects::context::Context;
use crate::values::error::Result;

/// Where completion events of CQs arrive: ibv_comp_channel. Events need no acknowledgement here.
pub struct CompChannel<P: DevicePtr> {
    shared: Arc<Shared<P>>,
    queue: Arc<ChannelQueue>,
}

debug_as!(CompChannel, pending);

impl<P: DevicePtr> Context<P> {
    /// ibv_create_comp_channel.
    pub fn create_comp_channel(&self) -> CompChannel<P> {
        CompChannel::new(self.shared().clone())
    }
}

impl<P: DevicePtr> CompChannel<P> {
    pub(crate) fn new(shared: Arc<Shared<P>>) -> Self {
        Self {
            shared,
            queue: Arc::default(),
        }
    }

    /// Events that have arrived and were not read.
    pub fn pending(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn queue(&self) -> &Arc<ChannelQueue> {
        &self.queue
    }

    /// CQN of the oldest event, if there is one.
    pub fn poll_event(&self) -> Option<u32> {
        self.shared.dispatcher.run();
        self.queue.pop()
    }

    /// ibv_get_cq_event: waits until `deadline_ns` of `Device::now_ns`; the CQN. The CQ is disarmed by then.
    pub fn get_event(&self, deadline_ns: u64) -> Result<u32> {
        self.shared.wait(
            self.queue.vector.load(Ordering::Relaxed),
            deadline_ns,
            "completion event",
            || self.queue.pop(),
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::values::lock::lock;
    use crate::*;
    use hca_driver::EqWatch;
    use hca_lone::LoneCard;
    use std::rc::Rc;

    /// A poll that finds nothing, while somebody else takes events, and there are some.
    #[test]
    fn an_empty_poll_does_not_wait_for_the_event_queues() {
        let dev = Rc::new(LoneCard::new());
        let context = Context::open_with(dev, &OpenOptions::simulated()).unwrap();
        let pd = context.alloc_pd().unwrap();
        let channel = context.create_comp_channel();
        let cq = context.create_cq(&CqOptions::with_channel(10, &channel)).unwrap();
        let idle = context.create_cq(&CqOptions::new(10)).unwrap();
        let qp = || pd.create_qp(&QpOptions::new(&cq, &cq)).unwrap();
        let (mut a, mut b) = connect_pair(qp(), qp(), &ConnectOptions::default()).unwrap();
        cq.req_notify(false).unwrap();
        b.post_recv(&[RecvWr { wr_id: 1, sges: &[] }]).unwrap();
        let send = SendWr {
            wr_id: 2,
            op: SendOp::Send,
            flags: SendFlags::SIGNALED,
            data: WrData::Sges(&[]),
        };
        a.post_send(&[send]).unwrap();

        let dispatcher = &channel.shared.dispatcher;
        let held = lock(&dispatcher.rings);
        let admin = context.function();
        let mut wc = [WorkCompletion::default(); 4];
        while !dispatcher.watches.iter().any(EqWatch::has_event) {
            assert_eq!(idle.poll_cq(&mut wc).unwrap(), 0);
        }
        assert_eq!(idle.poll_cq(&mut wc).unwrap(), 0);
        assert_eq!(channel.pending(), 0, "nobody could take it");
        drop((held, admin));
        assert_eq!(idle.poll_cq(&mut wc).unwrap(), 0);
        assert_eq!(channel.pending(), 1);
        assert!(!dispatcher.watches.iter().any(EqWatch::has_event));
        assert_eq!(cq.poll_cq(&mut wc).unwrap(), 2);
    }
}
