//! The data path of the C library on a simulated card behind its socket: it allocates nothing, and a doorbell waits for
//! nothing that another thread does on the socket.

#[path = "../../../driver/hca-capi/tests/common/c.rs"]
mod c;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::c_int;
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Instant;

use c::*;
use hca_cosim::{CardConfig, Fabric, Identity, SHARING_FUNCS, Server, StopHandle};
use hca_link::{CableConfig, LinkKind};
use hca_verbs::{Context, OpenOptions};
use hca_vfio_user::VfioUserDevice;
use ibverbs::abi::*;
use ibverbs::{Cards, DevPtr, Errno, Verb, install_cards};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is the system allocator's; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Where in the memory of an end messages go; they come from its start.
const RECEIVED: u64 = 16_384;
const WRITTEN: u64 = 32_768;

/// Two cards on a cable behind sockets. The simulation can be made to stand still while the sockets stay.
struct Simulator {
    stop: StopHandle,
    go_on: Sender<bool>,
    stopped: Receiver<()>,
    thread: JoinHandle<()>,
    _folder: tempfile::TempDir,
}

fn identity(index: u8) -> Identity {
    hca_system_tests::identity(index, LinkKind::Ethernet)
}

impl Simulator {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let (go_on, wait) = channel();
        let (say_stopped, stopped) = channel();
        let (started, start) = channel();
        let thread = std::thread::spawn(move || {
            let mut fabric = Fabric::new(1);
            let cards = [0, 1].map(|index| {
                let neighbours: Vec<_> = identity(1 - index).neighbours(1).collect();
                let name = format!("card{index}");
                let config = CardConfig::with_shares(&name, &[identity(index)], SHARING_FUNCS, &neighbours);
                fabric.add_card(config).unwrap()
            });
            let cable = CableConfig::new("link0", LinkKind::Ethernet);
            fabric.connect(cards[0], cards[1], cable).unwrap();
            let mut server = Server::new(fabric);
            for (index, card) in cards.into_iter().enumerate() {
                server
                    .serve(card, 0, &path.join(format!("card{index}.0")))
                    .unwrap();
            }
            started.send(server.stop_handle()).unwrap();
            while let Ok(true) = wait.recv() {
                server.run();
                say_stopped.send(()).unwrap();
            }
        });
        go_on.send(true).unwrap();
        let stop = start.recv().unwrap();
        let installed = Sockets(folder.path().to_owned());
        assert!(install_cards(Box::new(installed)));
        Self {
            stop,
            go_on,
            stopped,
            thread,
            _folder: folder,
        }
    }

    /// Returns when simulated time stands still.
    fn pause(&self) {
        self.stop.stop();
        self.stopped.recv_timeout(PATIENCE).unwrap();
    }

    fn finish(self) {
        self.pause();
        self.go_on.send(false).unwrap();
        self.thread.join().unwrap();
    }
}

struct Sockets(PathBuf);

static CARD0: OnceLock<Context<DevPtr>> = OnceLock::new();

impl Cards for Sockets {
    fn list(&self) -> Vec<u32> {
        vec![0, 1]
    }
    fn claim(&self, number: u32) -> Verb<Context<DevPtr>> {
        let path = self.0.join(format!("card{number}.0"));
        let device = VfioUserDevice::connect(&path).map_err(|_| Errno(libc::ENODEV))?;
        let device: DevPtr = Arc::new(device);
        // A card of the simulator on a busy machine takes as long as it takes.
        let patience_ns = PATIENCE.as_nanos() as u64;
        let options = OpenOptions {
            ready_timeout_ns: patience_ns,
            command_timeout_ns: patience_ns,
            ..OpenOptions::default()
        };
        let context = Context::open_with(device, &options)?;
        if number == 0 {
            let _ = CARD0.set(context.clone());
        }
        Ok(context)
    }
}

/// One end: a QP on its own CQ and card, and memory.
struct End {
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    mr: *mut ibv_mr,
    channel: *mut ibv_comp_channel,
    cq: *mut ibv_cq,
    qp: *mut ibv_qp,
    gid: ibv_gid,
    memory: Vec<u8>,
}

impl End {
    fn new(card: usize) -> Self {
        let context = open_device(card);
        let mut memory = vec![card as u8 + 1; 1 << 16];
        // SAFETY: all of it is alive; results are checked.
        unsafe {
            let pd = ibv_alloc_pd(context);
            let mr = ibv_reg_mr(pd, memory.as_mut_ptr().cast(), memory.len(), 7);
            let channel = ibv_create_comp_channel(context);
            let cq = ibv_create_cq(context, 100, null_mut(), channel, 0);
            assert!(!mr.is_null() && !cq.is_null(), "memory or CQ: errno {}", errno());
            let qp = ibv_create_qp(pd, &mut init_attr(cq));
            assert!(!qp.is_null(), "QP: errno {}", errno());
            let mut gid = ibv_gid::default();
            assert_eq!(ibv_query_gid(context, 1, 1, &mut gid), 0);
            Self {
                context,
                pd,
                mr,
                channel,
                cq,
                qp,
                gid,
                memory,
            }
        }
    }

    fn sge(&self, offset: u64) -> ibv_sge {
        // SAFETY: alive.
        let (addr, lkey) = unsafe { ((*self.mr).addr as u64 + offset, (*self.mr).lkey) };
        ibv_sge {
            addr,
            length: 4096,
            lkey,
        }
    }

    fn poll(&self, wc: &mut ibv_wc) -> c_int {
        // SAFETY: alive, and room for one.
        unsafe { (*self.context).ops.poll_cq.unwrap()(self.cq, 1, wc) }
    }

    /// Polls until one comes. Allocates nothing by itself.
    fn wait(&self) -> ibv_wc {
        let (start, mut wc) = (Instant::now(), ibv_wc::default());
        loop {
            match self.poll(&mut wc) {
                0 => assert!(start.elapsed() < PATIENCE),
                1 => return wc,
                other => panic!("poll: {other}"),
            }
        }
    }
}

/// A message each way and a WRITE, with signalled work requests, empty polls and arming.
fn exchange(ends: &[End; 2]) {
    for (from, to) in [(0, 1), (1, 0)] {
        let (from, to) = (&ends[from], &ends[to]);
        let mut sge = to.sge(RECEIVED);
        let mut recv = ibv_recv_wr {
            wr_id: 1,
            sg_list: &mut sge,
            num_sge: 1,
            ..Default::default()
        };
        // SAFETY: live QPs, CQs and work requests.
        unsafe {
            let ops = (*to.context).ops;
            assert_eq!(ops.post_recv.unwrap()(to.qp, &mut recv, &mut null_mut()), 0);
            assert_eq!(ops.req_notify_cq.unwrap()(to.cq, 0), 0);
        }
        let mut sge = from.sge(0);
        let mut list = [send_wr(2), send_wr(3)];
        for wr in &mut list {
            (wr.sg_list, wr.num_sge) = (&mut sge, 1);
        }
        list[1].opcode = IBV_WR_RDMA_WRITE;
        // SAFETY: alive.
        unsafe {
            list[1].wr.rdma.remote_addr = (*to.mr).addr as u64 + WRITTEN;
            list[1].wr.rdma.rkey = (*to.mr).rkey;
        }
        assert_eq!(post_send(from.qp, &mut list), (0, None));
        for (end, wr_id) in [(from, 2), (from, 3), (to, 1)] {
            let wc = end.wait();
            assert_eq!((wc.wr_id, wc.status), (wr_id, IBV_WC_SUCCESS));
        }
    }
}

#[test]
fn the_data_path_behind_a_socket() {
    let simulator = Simulator::start();
    let ends = [End::new(0), End::new(1)];
    for (end, peer) in [(0, 1), (1, 0)] {
        // SAFETY: alive.
        let number = unsafe { (*ends[peer].qp).qp_num };
        connect_to(ends[end].qp, number, ends[peer].gid);
    }

    // Nothing is allocated, not even by the first use. What the event thread does is not the data path's.
    let before = ALLOCATIONS.get();
    (0..4).for_each(|_| exchange(&ends));
    let allocated = ALLOCATIONS.get() - before;
    assert_eq!(allocated, 0, "post and poll allocate");
    for at in [RECEIVED, WRITTEN] {
        let found = ends.each_ref().map(|end| end.memory[at as usize + 4095]);
        assert_eq!(found, [2, 1], "data has arrived at {at}");
    }

    // Polls for nothing leave the processor to others, above all to the simulator: but for the first ones each sleeps.
    let before = naps();
    (0..200).for_each(|_| assert_eq!(ends[0].poll(&mut ibv_wc::default()), 0));
    let slept = naps() - before;
    assert!(slept >= 150, "{slept} of 200 empty polls have slept");

    // While the simulation stands still a register read waits in the socket, with the socket's lock. Doorbells pass.
    simulator.pause();
    let (say, hear) = channel();
    let reader = std::thread::spawn(move || {
        // SAFETY: cannot fail.
        say.send(unsafe { libc::gettid() }).unwrap();
        CARD0.get().unwrap().device().mmio_read32(hca_regs::FUNC_ID)
    });
    let thread = hear.recv().unwrap();
    until(|| is_asleep(thread));
    let (a, b) = (&ends[0], &ends[1]);
    for i in 0..20 {
        assert_eq!(post_recv(b.qp, i), 0);
        assert_eq!(post_send(a.qp, &mut [send_wr(i)]), (0, None));
        assert_eq!(a.poll(&mut ibv_wc::default()), 0);
    }
    assert!(!reader.is_finished());
    simulator.go_on.send(true).unwrap();
    assert_eq!(reader.join().unwrap(), hca_abi::HCA_ID);
    for i in 0..20 {
        assert_eq!((a.wait().wr_id, b.wait().wr_id), (i, i));
    }

    write_to_what_is_taken_away(&ends[0], &ends[1]);
    exchange(&ends);
    simulator.finish();
    ends.iter().for_each(the_device_is_gone);
}

/// A program takes memory away that it has registered, and its peer writes there. A machine's pages would have stayed
/// until they are deregistered, so it is no fault, and the card goes on (decision 0016).
fn write_to_what_is_taken_away(from: &End, to: &End) {
    const BYTES: usize = 4096;
    const RW: c_int = libc::PROT_READ | libc::PROT_WRITE;
    let mut sge = from.sge(0);
    let mut wr = send_wr(77);
    (wr.sg_list, wr.num_sge, wr.opcode) = (&mut sge, 1, IBV_WR_RDMA_WRITE);
    // SAFETY: a mapping of its own; nobody follows the address when it may no longer be touched.
    unsafe {
        let page = libc::mmap(
            null_mut(),
            BYTES,
            RW,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        let mr = ibv_reg_mr(to.pd, page, BYTES, 7);
        assert!(!mr.is_null(), "errno {}", errno());
        (wr.wr.rdma.remote_addr, wr.wr.rdma.rkey) = (page as u64, (*mr).rkey);
        assert_eq!(libc::mprotect(page, BYTES, libc::PROT_NONE), 0);
    }
    assert_eq!(post_send(from.qp, &mut [wr]), (0, None));
    let wc = from.wait();
    assert_eq!((wc.wr_id, wc.status), (77, IBV_WC_SUCCESS));
}

/// A program that polls finds out, and so does one that waits for asynchronous events; nothing hangs.
fn the_device_is_gone(end: &End) {
    let start = Instant::now();
    let mut found = 0;
    while found == 0 {
        assert!(start.elapsed() < PATIENCE);
        found = end.poll(&mut ibv_wc::default());
    }
    assert_eq!((found, errno()), (-1, libc::EIO));
    let mut event = ibv_async_event::default();
    // SAFETY: alive.
    unsafe {
        assert_eq!(ibv_get_async_event(end.context, &mut event), 0);
        assert_eq!(event.event_type, IBV_EVENT_DEVICE_FATAL);
        ibv_ack_async_event(&mut event);
        assert_eq!(
            post_send(end.qp, &mut [send_wr(1)]),
            (0, None),
            "it will never complete"
        );
        assert_ne!(ibv_query_device(end.context, &mut ibv_device_attr::default()), 0);
        assert!(ibv_alloc_pd(end.context).is_null());
        // V-27: EIO, or success for programs that ask for it.
        std::env::remove_var("RDMAV_ALLOW_DISASSOC_DESTROY");
        assert_eq!(ibv_destroy_qp(end.qp), libc::EIO);
        std::env::set_var("RDMAV_ALLOW_DISASSOC_DESTROY", "1");
        assert_eq!(ibv_destroy_qp(end.qp), 0);
        assert_eq!(ibv_destroy_qp(end.qp), libc::EINVAL);
        assert_eq!(ibv_destroy_cq(end.cq), 0);
        assert_eq!(ibv_destroy_comp_channel(end.channel), 0);
        assert_eq!(ibv_dereg_mr(end.mr), 0);
        assert_eq!(ibv_dealloc_pd(end.pd), 0);
        assert_eq!(ibv_close_device(end.context), 0);
    }
    assert!(start.elapsed() < PATIENCE);
}
