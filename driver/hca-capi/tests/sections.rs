//! Lists of work requests against a small model: ibv_wr_complete posts a whole section or nothing of it (V-177),
//! ibv_post_send all before the first bad one (V-160).

mod common;

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use common::*;
use ibverbs::abi::*;
use proptest::prelude::*;

/// One work request, good or bad in its own way. None of the good ones moves a byte, so none needs a region.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Item {
    Send,
    Write,
    WriteInline,
    Read,
    ReadInline,
    TooManySges,
    TooMuchInline,
    TooLong,
    UnknownFlag,
    /// Only ibv_post_send can be asked for it.
    UnknownOpcode,
}

const GOOD: [Item; 4] = [Item::Send, Item::Write, Item::WriteInline, Item::Read];
const BAD: [Item; 5] = [
    Item::ReadInline,
    Item::TooManySges,
    Item::TooMuchInline,
    Item::TooLong,
    Item::UnknownFlag,
];

/// Receives that are always there for SENDs: as many as a queue of [`init_attr`] holds.
const RECVS: u64 = 32;

struct Pair {
    bench: Bench,
    qps: [*mut ibv_qp; 2],
    entries: usize,
    too_many: [ibv_sge; 64],
    too_long: [ibv_sge; 2],
    bytes: [u8; 4096],
}

impl Pair {
    /// `card`: each test has its own.
    fn new(card: usize) -> Box<Self> {
        let bench = bench(card);
        let mut plain = init_attr(bench.cq);
        let ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ;
        let mut attr = init_attr_ex(bench.pd, bench.cq, ops);
        // SAFETY: all of it is alive; slots are there.
        let qps = unsafe {
            let create = (*extended(bench.context)).create_qp_ex.unwrap();
            let qps = [
                create(bench.context, &mut attr),
                ibv_create_qp(bench.pd, &mut plain),
            ];
            connect(qps[0], (*qps[1]).qp_num);
            connect(qps[1], (*qps[0]).qp_num);
            qps
        };
        (0..RECVS).for_each(|i| assert_eq!(post_recv(qps[1], i), 0));
        let long = ibv_sge {
            length: u32::MAX,
            ..Default::default()
        };
        Box::new(Self {
            bench,
            qps,
            entries: attr.cap.max_send_wr as usize,
            too_many: [ibv_sge::default(); 64],
            too_long: [long; 2],
            bytes: [0; 4096],
        })
    }

    /// What one work request of a section is built and set with.
    fn build(&mut self, qp: *mut ibv_qp_ex, item: Item, wr_id: u64) {
        // SAFETY: an open section of a live QP, and memory of ours.
        unsafe {
            ((*qp).wr_id, (*qp).wr_flags) = (wr_id, IBV_SEND_SIGNALED);
            if item == Item::UnknownFlag {
                (*qp).wr_flags |= 1 << 20;
            }
            match item {
                Item::Read | Item::ReadInline => (*qp).wr_rdma_read.unwrap()(qp, 0, 0),
                Item::Write | Item::WriteInline => (*qp).wr_rdma_write.unwrap()(qp, 0, 0),
                _ => (*qp).wr_send.unwrap()(qp),
            }
            let (sges, inline) = ((*qp).wr_set_sge_list.unwrap(), (*qp).wr_set_inline_data.unwrap());
            let bytes = self.bytes.as_mut_ptr().cast::<c_void>();
            match item {
                Item::WriteInline => inline(qp, bytes, 0),
                Item::ReadInline => inline(qp, bytes, 8),
                Item::TooMuchInline => inline(qp, bytes, self.bytes.len()),
                Item::TooManySges => sges(qp, self.too_many.len(), self.too_many.as_ptr()),
                Item::TooLong => sges(qp, 2, self.too_long.as_ptr()),
                _ => sges(qp, 0, null_mut()),
            }
        }
    }

    /// The same for ibv_post_send.
    fn plain(&mut self, item: Item, wr_id: u64) -> ibv_send_wr {
        let mut wr = send_wr(wr_id);
        match item {
            Item::Read | Item::ReadInline => wr.opcode = IBV_WR_RDMA_READ,
            Item::Write | Item::WriteInline => wr.opcode = IBV_WR_RDMA_WRITE,
            Item::UnknownOpcode => wr.opcode = 99,
            _ => {}
        }
        match item {
            Item::WriteInline | Item::ReadInline => wr.send_flags |= IBV_SEND_INLINE,
            Item::UnknownFlag => wr.send_flags |= 1 << 20,
            Item::TooManySges => (wr.sg_list, wr.num_sge) = (self.too_many.as_mut_ptr(), 64),
            Item::TooLong => (wr.sg_list, wr.num_sge) = (self.too_long.as_mut_ptr(), 2),
            Item::TooMuchInline => {
                wr.send_flags |= IBV_SEND_INLINE;
                self.too_many[0].addr = self.bytes.as_ptr() as u64;
                self.too_many[0].length = self.bytes.len() as u32;
                (wr.sg_list, wr.num_sge) = (self.too_many.as_mut_ptr(), 1);
            }
            _ => {}
        }
        wr
    }

    fn section(&mut self, items: &[Item], complete: bool) -> c_int {
        // SAFETY: a live extended QP.
        unsafe {
            let qp = ibv_qp_to_qp_ex(self.qps[0]);
            (*qp).wr_start.unwrap()(qp);
            for (i, item) in items.iter().enumerate() {
                self.build(qp, *item, i as u64);
            }
            if complete {
                return (*qp).wr_complete.unwrap()(qp);
            }
            (*qp).wr_abort.unwrap()(qp);
            0
        }
    }

    /// Exactly these work requests were executed: they complete, and the next one does right after them.
    fn executed(&mut self, items: &[Item]) {
        const MARK: u64 = 1 << 40;
        let room = items.len() < self.entries;
        let mut wr_ids: Vec<u64> = (0..items.len() as u64).collect();
        if room {
            let mut mark = [self.plain(Item::Write, MARK)];
            assert_eq!(post_send(self.qps[0], &mut mark), (0, None));
            wr_ids.push(MARK);
        }
        let sends = items.iter().filter(|item| **item == Item::Send).count();
        let wc = self.bench.completions(wr_ids.len() + sends);
        assert!(wc.iter().all(|wc| wc.status == IBV_WC_SUCCESS));
        let (recvs, own): (Vec<&ibv_wc>, Vec<&ibv_wc>) =
            wc.iter().partition(|wc| wc.opcode & IBV_WC_RECV != 0);
        assert_eq!(own.iter().map(|wc| wc.wr_id).collect::<Vec<_>>(), wr_ids);
        recvs
            .iter()
            .for_each(|wc| assert_eq!(post_recv(self.qps[1], wc.wr_id), 0));
    }

    fn close(self: Box<Self>) {
        // SAFETY: created above, and nobody else has them.
        unsafe { self.qps.iter().for_each(|qp| assert_eq!(ibv_destroy_qp(*qp), 0)) };
        self.bench.close();
    }
}

/// Good ones, and in half of the cases a bad one somewhere between.
fn items(bad: &'static [Item]) -> impl Strategy<Value = Vec<Item>> {
    let good = prop::collection::vec(prop::sample::select(&GOOD[..]), 0..36);
    let wrong = prop::option::of((any::<prop::sample::Index>(), prop::sample::select(bad)));
    (good, wrong).prop_map(|(mut items, wrong)| {
        if let Some((at, item)) = wrong {
            items.insert(at.index(items.len() + 1), item);
        }
        items
    })
}

/// Sections, each on what the ones before have left: nothing.
fn check_section(pair: &mut Pair, items: &[Item], complete: bool) {
    // What a builder or setter finds comes first; the rest is found in the order of the list, a full ring too.
    let early = [Item::TooManySges, Item::TooMuchInline, Item::UnknownFlag];
    let good = items.iter().take_while(|item| GOOD.contains(item)).count();
    let wanted = match () {
        () if !complete => 0,
        () if items.iter().any(|item| early.contains(item)) => libc::EINVAL,
        () if items.len() > good.min(pair.entries) && good >= pair.entries => libc::ENOMEM,
        () if items.len() > good => libc::EINVAL,
        () => 0,
    };
    assert_eq!(pair.section(items, complete), wanted, "{items:?}");
    let done = if complete && wanted == 0 { items } else { &[] };
    pair.executed(done);
}

fn check_list(pair: &mut Pair, items: &[Item]) {
    let good = items.iter().take_while(|item| GOOD.contains(item)).count();
    let posted = good.min(pair.entries);
    let mut list: Vec<ibv_send_wr> = (0..).zip(items).map(|(i, item)| pair.plain(*item, i)).collect();
    let (result, bad) = if list.is_empty() {
        (0, None)
    } else {
        post_send(pair.qps[0], &mut list)
    };
    assert_eq!(
        (result != 0, bad),
        (posted < items.len(), (posted < items.len()).then_some(posted))
    );
    pair.executed(&items[..posted]);
}

#[test]
fn every_bad_item_at_every_position() {
    let mut pair = Pair::new(20);
    for bad in BAD {
        for len in 1..=10 {
            for at in 0..len {
                let mut items = vec![Item::Write; len];
                items[at] = bad;
                check_section(&mut pair, &items, true);
                check_list(&mut pair, &items);
            }
        }
    }
    for len in [
        1,
        8,
        9,
        pair.entries - 1,
        pair.entries,
        pair.entries + 1,
        3 * pair.entries,
    ] {
        check_section(&mut pair, &vec![Item::Write; len], true);
        check_section(&mut pair, &vec![Item::Write; len], false);
        check_list(&mut pair, &vec![Item::Write; len]);
    }
    check_list(&mut pair, &[Item::Send, Item::UnknownOpcode, Item::Send]);
    pair.close();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn sections_and_lists_do_what_the_model_does(
        lists in prop::collection::vec((items(&BAD), any::<bool>(), any::<bool>()), 1..4),
    ) {
        let mut pair = Pair::new(21);
        for (items, complete, plain) in lists {
            if plain {
                check_list(&mut pair, &items);
            } else {
                check_section(&mut pair, &items, complete);
            }
        }
        pair.close();
    }
}
