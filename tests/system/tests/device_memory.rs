//! Device memory (MEM-19, V-77 to V-80): copies, every kind of access by work requests of the function and of its peer,
//! and that it is nobody else's.

mod common;

use common::{ALL_MTUS, BOTH_LINKS, LOCAL_AND_REMOTE, Pair};
use hca_abi::{DM_BUS_HIGH, DM_BYTES, DM_PAGE_BYTES};
use hca_cosim::SHARING_FUNCS;
use hca_link::LinkKind;
use hca_system_tests::{Dev, Node, RigConfig, Rng, path};
use hca_verbs::{
    Access, DeviceMemory, Error, Mr, MrOptions, Mtu, PageSize, SendOp, Sge, WcStatus, WorkCompletion,
};

const RIGHTS: Access =
    Access::from_bits(LOCAL_AND_REMOTE.bits() | Access::REMOTE_ATOMIC.bits() | Access::ZERO_BASED.bits());
const REGION_BYTES: u64 = 64 << 10;
const ALL: usize = DM_BYTES as usize / SHARING_FUNCS as usize;

/// Two nodes; all the device memory of the first one's function is a region.
struct Rig {
    pair: Pair,
    dm: DeviceMemory<Dev>,
    mr: Mr<Dev>,
    /// What must be there.
    bytes: Vec<u8>,
}

impl Rig {
    fn new(kind: LinkKind, mtu: Mtu) -> Self {
        let pair = Pair::new(
            &RigConfig::new(91, kind),
            &path(mtu),
            REGION_BYTES,
            [LOCAL_AND_REMOTE; 2],
        );
        let node = &pair.rig.nodes[0];
        let dm = node.context.alloc_dm(ALL).unwrap();
        let mr = node.pd.reg_dm_mr(&dm, 0, ALL, RIGHTS).unwrap();
        let mut rng = Rng::new(92, "device memory");
        let bytes: Vec<u8> = (0..ALL).map(|_| rng.below(256) as u8).collect();
        dm.write(0, &bytes).unwrap();
        Self { pair, dm, mr, bytes }
    }

    fn place(&self, offset: u64, length: usize) -> [Sge; 1] {
        [self.mr.sge(offset, length as u32)]
    }

    fn put(&mut self, offset: u64, bytes: &[u8]) {
        self.bytes[offset as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    #[track_caller]
    fn check(&self, what: &str) {
        let mut found = vec![0; ALL];
        self.dm.read(0, &mut found).unwrap();
        let differs = (0..ALL).find(|at| found[*at] != self.bytes[*at]);
        assert_eq!(differs, None, "{what}: device memory differs");
        self.pair.check_memory(what);
    }

    fn run(&mut self, from: usize, wr_id: u64, op: SendOp, sges: &[Sge]) -> WorkCompletion {
        self.pair.post(from, wr_id, op, sges);
        self.pair.wait_ok(from, wr_id)
    }
}

/// V-79: any bytes, any place; what lies beside them stays.
#[test]
fn copies_are_exact_to_the_byte() {
    let mut rig = Rig::new(LinkKind::Ethernet, Mtu::Bytes1024);
    rig.check("as written");
    let mut rng = Rng::new(93, "copies");
    for round in 0..60 {
        let length = [1, 2, 63, 64, 65, 200, 1023, 1024, 1025, 4096, 9000][rng.below(11) as usize];
        let offset = u64::from(rng.below((ALL - length) as u32 + 1));
        let bytes: Vec<u8> = (0..length).map(|_| rng.below(256) as u8).collect();
        rig.dm.write(offset, &bytes).unwrap();
        rig.put(offset, &bytes);
        let mut found = vec![0; length];
        rig.dm.read(offset, &mut found).unwrap();
        assert_eq!(found, bytes, "round {round}: {length} bytes at {offset}");
    }
    rig.check("after all");
    rig.dm.write(0, &[]).unwrap();
    for (offset, length) in [(ALL as u64, 1), (ALL as u64 - 1, 2), (u64::MAX, 1), (0, ALL + 1)] {
        let refused = rig.dm.write(offset, &vec![0; length]).unwrap_err();
        assert!(
            matches!(refused, Error::Invalid(_)),
            "{offset} {length}: {refused:?}"
        );
        let refused = rig.dm.read(offset, &mut vec![0; length]).unwrap_err();
        assert_eq!(refused.errno(), 22);
    }
    rig.check("after what was refused");
}

/// V-80: in scatter/gather entries and as a peer's target, by addresses from 0 on, whatever the place.
#[test]
fn work_requests_use_it_like_host_memory() {
    for kind in BOTH_LINKS {
        for (mtu, mtu_bytes) in ALL_MTUS {
            let mut rig = Rig::new(kind, mtu);
            let rkey = rig.mr.rkey();
            for (n, (offset, length)) in [
                (0, 64),
                (17, 1),
                (61, 2 * mtu_bytes as usize + 9),
                (4095, 2),
                (ALL as u64 - 700, 700),
            ]
            .into_iter()
            .enumerate()
            {
                let (id, at) = (10 * n as u64, 100 + 3000 * n as u64);
                // SEND from there; the peer's receive is ordinary memory.
                let sent = rig.bytes[offset as usize..][..length].to_vec();
                let target = [rig.pair.mrs[1].sge(at, length as u32)];
                rig.pair.recv(1, id, &target);
                rig.pair.expect(1, at, &sent);
                let from = rig.place(offset, length);
                rig.run(0, id + 1, SendOp::Send, &from);
                rig.pair.wait_ok(1, id);
                // The peer's WRITE goes there, and its READ comes from there.
                let written = rig.pair.expected(1, at + 7, length as u32);
                let remote_addr = offset;
                let own = [rig.pair.mrs[1].sge(at + 7, length as u32)];
                rig.run(1, id + 2, SendOp::RdmaWrite { remote_addr, rkey }, &own);
                rig.put(offset, &written);
                rig.check(&format!("{kind:?} {mtu:?} WRITE {n}"));
                let back = [rig.pair.mrs[1].sge(at + 900, length as u32)];
                rig.pair.expect(1, at + 900, &written);
                rig.run(1, id + 3, SendOp::RdmaRead { remote_addr, rkey }, &back);
                // Our READ ends there, and so does a message that we receive.
                let from = rig.pair.expected(1, at + 50, length as u32);
                let op = rig.pair.read_from(1, at + 50);
                let to = rig.place(offset, length);
                rig.run(0, id + 4, op, &to);
                rig.put(offset, &from);
                rig.check(&format!("{kind:?} {mtu:?} READ {n}"));
                let message = rig.pair.expected(1, at + 33, length as u32);
                rig.pair.recv(0, id + 5, &to);
                let own = [rig.pair.mrs[1].sge(at + 33, length as u32)];
                rig.run(1, id + 6, SendOp::Send, &own);
                rig.pair.wait_ok(0, id + 5);
                rig.put(offset, &message);
                rig.check(&format!("{kind:?} {mtu:?} SEND {n}"));
            }
        }
    }
}

/// MEM-19, OP-8, OP-9: atomics of the peer and of the function itself, in turn with its copies.
#[test]
fn atomics_change_it() {
    for kind in BOTH_LINKS {
        let mut rig = Rig::new(kind, Mtu::Bytes1024);
        let rkey = rig.mr.rkey();
        for (n, remote_addr) in [0u64, 8, 56, 64, 4088, ALL as u64 - 8].into_iter().enumerate() {
            let word =
                |bytes: &[u8]| u64::from_le_bytes(bytes[remote_addr as usize..][..8].try_into().unwrap());
            let before = word(&rig.bytes);
            let add = 0x0102_0304_0506_0708;
            let result = [rig.pair.mrs[1].sge(8 * n as u64, 8)];
            rig.pair.expect(1, 8 * n as u64, &before.to_le_bytes());
            let op = SendOp::AtomicFetchAndAdd {
                remote_addr,
                rkey,
                add,
            };
            rig.run(1, n as u64, op, &result);
            rig.put(remote_addr, &before.wrapping_add(add).to_le_bytes());
            rig.check("fetch and add");
            let compare = word(&rig.bytes);
            let op = SendOp::AtomicCmpAndSwp {
                remote_addr,
                rkey,
                compare,
                swap: 7,
            };
            rig.pair.expect(1, 8 * n as u64, &compare.to_le_bytes());
            rig.run(1, 100 + n as u64, op, &result);
            rig.put(remote_addr, &7u64.to_le_bytes());
            rig.check("compare and swap");
            let op = SendOp::MaskedAtomicFetchAndAdd {
                remote_addr,
                rkey,
                add: 0x1_00ff,
                boundaries: 0x80,
            };
            rig.pair.expect(1, 8 * n as u64, &7u64.to_le_bytes());
            rig.run(1, 200 + n as u64, op, &result);
            rig.put(remote_addr, &0x1_0006u64.to_le_bytes());
            rig.check("masked fetch and add");
            let op = SendOp::MaskedAtomicCmpAndSwp {
                remote_addr,
                rkey,
                compare: 0xffff_0006,
                swap: 0x3333,
                compare_mask: 0xff,
                swap_mask: 0xff00,
            };
            rig.pair.expect(1, 8 * n as u64, &0x1_0006u64.to_le_bytes());
            rig.run(1, 300 + n as u64, op, &result);
            rig.put(remote_addr, &0x1_3306u64.to_le_bytes());
            rig.check("masked compare and swap");
        }
    }
}

/// V-77, V-78: what there is, given in pages and cleared; a region keeps it.
#[test]
fn it_is_given_and_taken_back() {
    let pair = Pair::new(
        &RigConfig::new(94, LinkKind::Ethernet),
        &path(Mtu::Bytes1024),
        REGION_BYTES,
        [LOCAL_AND_REMOTE; 2],
    );
    let node = &pair.rig.nodes[0];
    assert_eq!(node.context.query_device().unwrap().max_dm_size(), ALL as u64);
    for bad in [0, ALL + 1, usize::MAX] {
        assert_eq!(node.context.alloc_dm(bad).unwrap_err().errno(), 22, "{bad}");
    }
    let page = DM_PAGE_BYTES as usize;
    let pieces: Vec<_> = (0..ALL / page)
        .map(|_| node.context.alloc_dm(page - 1).unwrap())
        .collect();
    assert_eq!(node.context.alloc_dm(1).unwrap_err().errno(), 12);
    for (n, piece) in pieces.iter().enumerate() {
        piece.write(0, &vec![n as u8 + 1; page - 1]).unwrap();
    }
    for (n, piece) in pieces.iter().enumerate() {
        let mut found = vec![0; page - 1];
        piece.read(0, &mut found).unwrap();
        assert!(found.iter().all(|byte| *byte == n as u8 + 1), "piece {n}");
    }
    let mut mr = node.pd.reg_dm_mr(&pieces[3], 0, page - 1, RIGHTS).unwrap();
    assert_eq!(pieces[3].destroy().unwrap_err().errno(), 16, "a region is there");
    assert_eq!(
        node.pd
            .reg_dm_mr(&pieces[3], 0, 8, LOCAL_AND_REMOTE)
            .unwrap_err()
            .errno(),
        22
    );
    for (offset, length) in [(0, page), (page as u64 - 1, 1), (u64::MAX, 2)] {
        let refused = node.pd.reg_dm_mr(&pieces[3], offset, length, RIGHTS).unwrap_err();
        assert_eq!(refused.errno(), 22, "{offset} {length}");
    }
    mr.destroy().unwrap();
    node.pd
        .reg_dm_mr(&pieces[3], 8, 0, RIGHTS)
        .unwrap()
        .destroy()
        .unwrap();
    pieces[3].destroy().unwrap();
    assert_eq!(pieces[3].destroy().unwrap_err().errno(), 22, "it is gone");
    assert_eq!(pieces[3].write(0, &[1]).unwrap_err().errno(), 22);
    let again = node.context.alloc_dm(page).unwrap();
    let mut found = vec![1; page];
    again.read(0, &mut found).unwrap();
    assert!(
        found.iter().all(|byte| *byte == 0),
        "what was there before is gone"
    );
    drop(pieces);
    node.context.alloc_dm(ALL - page).unwrap_err();
    drop(again);
    node.context.alloc_dm(ALL).unwrap();
}

/// A region at any addresses, also such as are device memory's, for whatever a hostile program names.
fn region_at(node: &Node, iova: u64) -> Mr<Dev> {
    let options = MrOptions {
        page_size: PageSize::KiB4,
        addr: Some(0x7000_0000),
        length: Some(DM_PAGE_BYTES as usize),
        ..MrOptions::new(LOCAL_AND_REMOTE)
    };
    node.pd.reg_pages(&[iova], &options).unwrap()
}

/// D15: a function that names bus addresses of device memory gets its own, and what it has not been given is an error,
/// also behind its end. Another function's stays what it is, and is gone with it.
#[test]
fn strangers_reach_nothing() {
    for kind in BOTH_LINKS {
        let mut rig = Rig::new(kind, Mtu::Bytes1024);
        let dev = rig.pair.rig.neighbour(0, 1);
        let stranger = Node::open(dev, 64).unwrap();
        let base = u64::from(DM_BUS_HIGH) << 48;
        let pages = u64::from(DM_PAGE_BYTES);
        for page in [0, 7, 8, 16, 0xf_ffff_ffff] {
            let mr = region_at(&stranger, base + page * pages);
            read_by_itself(&mut rig, &stranger, &mr);
        }
        rig.check(&format!("{kind:?} after a stranger"));
        // What the function itself has given back is not there either.
        drop(rig.mr);
        rig.dm.destroy().unwrap();
        let (remote_addr, rkey) = {
            let mr = region_at(&rig.pair.rig.nodes[0], base);
            let place = (mr.addr(), mr.rkey());
            std::mem::forget(mr);
            place
        };
        let own = [rig.pair.mrs[1].sge(0, 64)];
        rig.pair.post(1, 5, SendOp::RdmaRead { remote_addr, rkey }, &own);
        assert_ne!(rig.pair.wait(1).status, WcStatus::Success, "{kind:?}");
    }
}

/// The function sends from the region to itself: it has an error, for nothing is there.
fn read_by_itself(rig: &mut Rig, node: &Node, mr: &Mr<Dev>) {
    let mut qps = [0, 1].map(|_| node.create_qp(common::cap(), false).unwrap());
    hca_system_tests::connect(&mut qps, &path(Mtu::Bytes1024)).unwrap();
    let wr = hca_verbs::SendWr {
        wr_id: 1,
        op: SendOp::RdmaWrite {
            remote_addr: mr.addr(),
            rkey: mr.rkey(),
        },
        flags: hca_verbs::SendFlags::SIGNALED,
        data: hca_verbs::WrData::Sges(&[mr.sge(0, 256)]),
    };
    qps[0].post_send(&[wr]).unwrap();
    let end_ns = rig.pair.rig.now_ns() + common::LIMIT_NS;
    let wc = loop {
        if let Some(wc) = node.poll().unwrap() {
            break wc;
        }
        assert!(rig.pair.rig.now_ns() < end_ns, "no completion");
    };
    assert_eq!(wc.status, WcStatus::LocProtErr);
}

/// A function that begins anew has none, and gets it all again, cleared.
#[test]
fn a_reset_takes_it_back() {
    let rig = Rig::new(LinkKind::InfiniBand, Mtu::Bytes2048);
    let card = rig.pair.rig.cards[0];
    let dev = rig.pair.rig.sim.device(card, 1).unwrap();
    let first = Node::open(dev, 64).unwrap();
    let kept = first.context.alloc_dm(ALL).unwrap();
    kept.write(0, &[0xaa; ALL]).unwrap();
    // It ends without a word.
    std::mem::forget(kept);
    drop(first);
    let dev = rig.pair.rig.sim.device(card, 1).unwrap();
    let second = Node::open(dev, 64).unwrap();
    let dm = second.context.alloc_dm(ALL).unwrap();
    let mut found = vec![1; ALL];
    dm.read(0, &mut found).unwrap();
    assert!(found.iter().all(|byte| *byte == 0));
    rig.check("the other function's");
}
