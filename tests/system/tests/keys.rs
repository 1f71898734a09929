//! Keys that the card does not keep: their rows are in host memory, read when they are needed (KEY-27, KEY-30).

mod common;

use common::{BOTH_LINKS, LOCAL_AND_REMOTE, Pair, cap};
use hca_abi::{
    AdminOpcode, AdminStatus, DIRECT_PAGE_SHIFT, HandleCmd, MAX_LOG_KEYS, Mpt, RegMrCmd, RegMrResult,
    SetKeyTableCmd,
};
use hca_dev::DmaBuf;
use hca_system_tests::{Dev, Node, RigConfig, Rng, connect, path};
use hca_verbs::{
    ConnectOptions, Mr, MrOptions, Mtu, PageSize, RawQp, SendFlags, SendOp, SendWr, Sge, WcStatus, WrData,
};

/// More than twice what the card keeps.
const REGIONS: usize = 600;
/// Bytes of each.
const BYTES: usize = 192;
const ADDR: u64 = 0x3000_0000_0000;
/// log2 of the rows of a forged key table.
const LOG_ROWS: u8 = 6;

/// Regions of node 1 side by side in one buffer, every other one with a page list of its own.
struct Many {
    buf: DmaBuf,
    mrs: Vec<Option<Mr<Dev>>>,
    /// What they hold.
    bytes: Vec<u8>,
}

impl Many {
    fn new(pair: &Pair, rng: &mut Rng) -> Self {
        let node = &pair.rig.nodes[1];
        let buf = node.alloc(REGIONS * BYTES).unwrap();
        let bytes = rng.bytes(REGIONS * BYTES);
        buf.write_bytes(0, &bytes);
        let register = |number: usize| {
            let options = MrOptions {
                // The same bits in the page as on the bus.
                addr: Some(ADDR + ((number as u64) << 32) + (buf.iova() + (number * BYTES) as u64) % 4096),
                offset: number * BYTES,
                length: Some(BYTES),
                page_size: [PageSize::Direct, PageSize::KiB4][number % 2],
                ..MrOptions::new(LOCAL_AND_REMOTE)
            };
            Some(node.pd.reg_mr_with(&buf, &options).unwrap())
        };
        let mrs = (0..REGIONS).map(register).collect();
        Self { buf, mrs, bytes }
    }

    /// A WRITE into or a READ from one of them, of all its bytes.
    fn pass(&mut self, pair: &mut Pair, number: usize, is_read: bool) {
        let mr = self.mrs[number].as_ref().unwrap();
        let (remote_addr, rkey) = (mr.addr(), mr.rkey());
        let local = [pair.mrs[0].sge(0, BYTES as u32)];
        let place = number * BYTES..(number + 1) * BYTES;
        let op = if is_read {
            pair.expect(0, 0, &self.bytes[place]);
            SendOp::RdmaRead { remote_addr, rkey }
        } else {
            let source = pair.expected(0, 0, BYTES as u32);
            self.bytes[place].copy_from_slice(&source);
            SendOp::RdmaWrite { remote_addr, rkey }
        };
        pair.post(0, 1, op, &local);
        pair.wait_ok(0, 1);
    }

    fn check(&self, pair: &Pair, what: &str) {
        let mut found = vec![0; self.bytes.len()];
        self.buf.read_bytes(0, &mut found);
        assert!(found == self.bytes, "{what}");
        pair.check_memory(what);
    }
}

/// Random ones of more regions than the card keeps keys of; then half of them go, and their keys are worth nothing,
/// while those that stay work on.
#[test]
fn more_keys_than_the_card_keeps() {
    for link in BOTH_LINKS {
        let mut pair = Pair::new(
            &RigConfig::new(41, link),
            &path(Mtu::Bytes1024),
            4096,
            [LOCAL_AND_REMOTE; 2],
        );
        let mut rng = Rng::new(41, "keys");
        let mut many = Many::new(&pair, &mut rng);
        for _ in 0..400 {
            let number = rng.below(REGIONS as u32) as usize;
            many.pass(&mut pair, number, rng.percent(50));
        }
        many.check(&pair, "all of them");
        let mut gone = Vec::new();
        for number in (0..REGIONS).filter(|number| number % 4 < 2) {
            gone.extend(many.mrs[number].take().map(|mr| (mr.addr(), mr.rkey())));
        }
        for _ in 0..20 {
            let (remote_addr, rkey) = rng.pick(&gone);
            let mut others = pair.more_qps(cap(), &path(Mtu::Bytes1024));
            write(&pair, &mut others[0], remote_addr, rkey, WcStatus::RemAccessErr);
            let number = 4 * rng.below(REGIONS as u32 / 4) as usize + 2;
            many.pass(&mut pair, number, rng.percent(50));
        }
        many.check(&pair, "those that stay");
    }
}

fn write(pair: &Pair, qp: &mut RawQp<Dev>, remote_addr: u64, rkey: u32, status: WcStatus) {
    qp.post_send(&[SendWr {
        wr_id: 2,
        op: SendOp::RdmaWrite { remote_addr, rkey },
        flags: SendFlags::SIGNALED,
        data: WrData::Sges(&[pair.mrs[0].sge(0, 8)]),
    }])
    .unwrap();
    assert_eq!(pair.wait(0).status, status);
}

/// D15: a client that writes what it likes into its key table reaches no memory but its own, and no key of others.
#[test]
fn forged_rows_reach_nobody() {
    for link in BOTH_LINKS {
        let mut pair = Pair::new(
            &RigConfig::new(42, link),
            &path(Mtu::Bytes1024),
            4096,
            [LOCAL_AND_REMOTE; 2],
        );
        let open = |node: usize| Node::open(pair.rig.neighbour(node, 1), 64).unwrap();
        let (forger, peer) = (open(0), open(1));
        let landing = peer.alloc(4096).unwrap();
        let target = peer.pd.reg_mr(&landing, LOCAL_AND_REMOTE).unwrap();
        let [table, own] = [64 << LOG_ROWS, 4096].map(|bytes| forger.alloc(bytes).unwrap());
        let mut cmd = SetKeyTableCmd::new();
        cmd.set_base(table.iova());
        cmd.set_log_size(LOG_ROWS);
        let cpl = forger
            .context
            .function()
            .issue_raw(AdminOpcode::SetKeyTable.into(), cmd.as_bytes())
            .unwrap();
        assert_eq!(cpl.status(), u8::from(AdminStatus::Ok));
        let victim = pair.memory[0].buf().iova();
        let [own_func, other_func] = [&forger, &pair.rig.nodes[0]].map(|node| node.context.info().func);
        let sound = |row: &mut Mpt| {
            row.set_valid(true);
            row.set_func(own_func);
            row.set_tag(7);
            row.set_pd(forger.pd.handle());
            row.set_page_shift(DIRECT_PAGE_SHIFT as u8);
            row.set_start(0);
            row.set_length(u64::MAX);
        };
        type Forge<'a> = &'a dyn Fn(&mut Mpt);
        let forgeries: [(&str, Forge<'_>, u64, bool); 8] = [
            ("own memory", &|_| (), own.iova(), true),
            ("a neighbour's memory", &|_| (), victim, false),
            (
                "a neighbour's row",
                &|row| row.set_func(other_func),
                own.iova(),
                false,
            ),
            (
                "a function that is not there",
                &|row| row.set_func(200),
                own.iova(),
                false,
            ),
            ("another domain", &|row| row.set_pd(1), own.iova(), false),
            ("a window", &|row| row.set_is_window(true), own.iova(), false),
            (
                "pages of 2 bytes",
                &|row| row.set_page_shift(1),
                own.iova(),
                false,
            ),
            (
                "a list in a neighbour's memory",
                &|row| row.set_page_shift(12),
                victim & !63,
                false,
            ),
        ];
        for (row, (what, forge, iova, works)) in (1..).zip(forgeries) {
            let mut mpt = Mpt::new();
            sound(&mut mpt);
            mpt.set_iova(iova);
            forge(&mut mpt);
            table.write_bytes(row * Mpt::BYTES, mpt.as_bytes());
            let index = u32::from(own_func) << MAX_LOG_KEYS | row as u32;
            let status = send_from(&pair, [&forger, &peer], &target, index << 8 | 7);
            let expected = if works {
                WcStatus::Success
            } else {
                WcStatus::LocProtErr
            };
            assert_eq!(status, expected, "{link:?}, {what}");
        }
        for (what, index) in [
            ("a neighbour's key", pair.mrs[0].lkey() >> 8),
            (
                "behind the table",
                u32::from(own_func) << MAX_LOG_KEYS | 1 << LOG_ROWS,
            ),
            ("of no function", 9 << MAX_LOG_KEYS | 1),
        ] {
            let key = index << 8 | 7;
            let key = if what == "a neighbour's key" {
                pair.mrs[0].lkey()
            } else {
                key
            };
            let status = send_from(&pair, [&forger, &peer], &target, key);
            assert_eq!(status, WcStatus::LocProtErr, "{link:?}, {what}");
        }
        pair.check_memory("after forged rows");
        pair.check_traffic("after forged rows");
    }
}

/// A WRITE of bytes under a key, through a connection of its own.
fn send_from(pair: &Pair, nodes: [&Node; 2], target: &Mr<Dev>, lkey: u32) -> WcStatus {
    let mut qps = nodes.map(|node| node.create_qp(cap(), false).unwrap());
    connect(&mut qps, &path(Mtu::Bytes1024)).unwrap();
    let sge = Sge {
        addr: 0,
        length: 64,
        lkey,
    };
    let wr = SendWr {
        wr_id: 3,
        op: SendOp::RdmaWrite {
            remote_addr: target.addr(),
            rkey: target.rkey(),
        },
        flags: SendFlags::SIGNALED,
        data: WrData::Sges(&[sge]),
    };
    qps[0].post_send(&[wr]).unwrap();
    let end_ns = pair.rig.now_ns() + common::LIMIT_NS;
    loop {
        if let Some(wc) = nodes[0].poll().unwrap() {
            return wc.status;
        }
        assert!(pair.rig.now_ns() < end_ns, "no completion");
    }
}

/// A row that the host never sends ends with an error of who needs it, after the card's time-out, on each side with the
/// one that belongs there; the next one reads it again.
#[test]
fn a_key_that_never_comes() {
    // Of a READ at its requester the list of the WQE would be lost first.
    let cases = [(0, false), (1, false), (1, true)];
    for (link, (loser, is_read)) in BOTH_LINKS
        .into_iter()
        .flat_map(|link| cases.map(|case| (link, case)))
    {
        // A time-out of the transport that is longer than the card's for a read.
        let path = ConnectOptions {
            timeout: 15,
            ..path(Mtu::Bytes1024)
        };
        let mut pair = Pair::new(&RigConfig::new(43, link), &path, 4096, [LOCAL_AND_REMOTE; 2]);
        let lose = |pair: &Pair, one_in| {
            let card = pair.rig.cards[loser];
            pair.rig.sim.fabric().card_mut(card).lose_reads(one_in);
        };
        let op = if is_read {
            pair.read_from(1, 0)
        } else {
            pair.write_to(1, 0)
        };
        lose(&pair, 1);
        let start_ns = pair.rig.now_ns();
        pair.post(0, 1, op, &[pair.mrs[0].sge(0, 100)]);
        let status = if loser == 0 {
            WcStatus::LocProtErr
        } else {
            WcStatus::RemOpErr
        };
        assert_eq!(
            pair.wait(0).status,
            status,
            "{link:?}, card {loser}, read {is_read}"
        );
        let took_ns = pair.rig.now_ns() - start_ns;
        assert!((16_700_000..34_000_000).contains(&took_ns), "{took_ns} ns");
        lose(&pair, 0);
        let mut others = pair.more_qps(cap(), &path);
        std::mem::swap(&mut pair.qps, &mut others);
        pair.check_traffic("after it");
    }
}

/// KEY-30: a function that is reset and starts again has the same rows again: what the card kept of them is gone, its
/// new keys work, and a key of before does not.
#[test]
fn a_function_that_starts_again() {
    for link in BOTH_LINKS {
        let pair = Pair::new(
            &RigConfig::new(44, link),
            &path(Mtu::Bytes1024),
            4096,
            [LOCAL_AND_REMOTE; 2],
        );
        let (mut before, mut domain) = (Vec::new(), None);
        for life in 0..3u64 {
            let mut node = Node::open(pair.rig.neighbour(1, 2), 64).unwrap();
            // In the same domain as before, or that alone would refuse the old keys.
            while node.pd.handle() != *domain.get_or_insert(node.pd.handle()) {
                node.pd = node.context.alloc_pd().unwrap();
            }
            let buf = node.alloc(4096).unwrap();
            let options = MrOptions {
                addr: Some(ADDR),
                ..MrOptions::new(LOCAL_AND_REMOTE)
            };
            // In the later lives the second row is not used: what was kept of it would still be the old one.
            let mrs: Vec<_> = (0..if life == 0 { 2 } else { 1 })
                .map(|_| node.pd.reg_mr_with(&buf, &options).unwrap())
                .collect();
            for (rkey, status) in before
                .iter()
                .map(|rkey| (*rkey, WcStatus::RemAccessErr))
                .chain(mrs.iter().map(|mr| (mr.rkey(), WcStatus::Success)))
            {
                let mut qps = [&pair.rig.nodes[0], &node].map(|node| node.create_qp(cap(), false).unwrap());
                connect(&mut qps, &path(Mtu::Bytes1024)).unwrap();
                write(&pair, &mut qps[0], ADDR, rkey, status);
            }
            let mut found = [0; 8];
            buf.read_bytes(0, &mut found);
            assert_eq!(found.as_slice(), pair.expected(0, 0, 8), "{link:?}, life {life}");
            before.extend(mrs.iter().map(Mr::rkey));
            // Nobody deregisters them: the next life's reset does it all.
            std::mem::forget((mrs, node));
        }
    }
}

/// A row that is used again has a page list of its own, or none: what the card kept of the last one, and of the row
/// while it was empty, is gone.
#[test]
fn a_row_that_is_used_again() {
    for link in BOTH_LINKS {
        let pair = Pair::new(
            &RigConfig::new(45, link),
            &path(Mtu::Bytes1024),
            4096,
            [LOCAL_AND_REMOTE; 2],
        );
        let node = &pair.rig.nodes[1];
        let (buf, list) = (node.alloc(8 * 4096).unwrap(), node.alloc(8 * 64).unwrap());
        let first = buf.iova().next_multiple_of(4096);
        let mut qps = pair.more_qps(cap(), &path(Mtu::Bytes1024));
        let issue = |opcode: AdminOpcode, body: &[u8]| {
            let mut function = node.context.function();
            let cpl = function.issue_raw(opcode.into(), body).unwrap();
            assert_eq!(cpl.status(), u8::from(AdminStatus::Ok), "{opcode:?}");
            RegMrResult(cpl.body()).rkey()
        };
        for life in 0..7 {
            // The same entry of the list, of another page.
            list.store_u64(64 * life, first + 4096 * life as u64);
            let mut cmd = RegMrCmd::new();
            cmd.set_pd(node.pd.handle());
            cmd.set_access(LOCAL_AND_REMOTE.bits());
            cmd.set_start(ADDR);
            cmd.set_length(4096);
            cmd.set_num_pages(1);
            cmd.set_page_shift(12);
            cmd.set_page_list_addr(list.iova() + 64 * life as u64);
            if life % 2 == 1 {
                cmd.set_page_shift(DIRECT_PAGE_SHIFT as u8);
                cmd.set_iova(first + 4096 * life as u64);
            }
            // The driver is far from this one.
            cmd.set_row(1000);
            let rkey = issue(AdminOpcode::RegMr, cmd.as_bytes());
            write(&pair, &mut qps[0], ADDR, rkey, WcStatus::Success);
            let mut found = [0; 8];
            let at = (first - buf.iova()) as usize + 4096 * life;
            buf.read_bytes(at, &mut found);
            assert_eq!(found.as_slice(), pair.expected(0, 0, 8), "{link:?}, life {life}");
            let mut cmd = HandleCmd::new();
            cmd.set_handle(rkey);
            issue(AdminOpcode::DeregMr, cmd.as_bytes());
            // The card may now keep the row as one that says no.
            let mut others = pair.more_qps(cap(), &path(Mtu::Bytes1024));
            write(&pair, &mut others[0], ADDR, rkey, WcStatus::RemAccessErr);
        }
    }
}

/// V-133: what is written into a null region, by whatever way, is nowhere; zeros are read, at any address. A peer has
/// no use of its key.
#[test]
fn null_regions() {
    for link in BOTH_LINKS {
        let mut pair = Pair::new(
            &RigConfig::new(133, link),
            &path(Mtu::Bytes1024),
            16 << 10,
            [LOCAL_AND_REMOTE; 2],
        );
        let nulls = [0, 1].map(|node: usize| pair.rig.nodes[node].pd.alloc_null_mr().unwrap());
        let null = |node: usize, addr: u64, length: u32| Sge {
            addr,
            length,
            lkey: nulls[node].lkey(),
        };
        // A SEND whose middle is dropped.
        let sent = pair.expected(0, 0, 5000);
        let target = [
            pair.mrs[1].sge(0, 100),
            null(1, u64::MAX - 4000, 4000),
            pair.mrs[1].sge(100, 900),
        ];
        pair.recv(1, 1, &target);
        pair.post(0, 2, SendOp::Send, &[pair.mrs[0].sge(0, 5000)]);
        pair.expect(1, 0, &sent[..100]);
        pair.expect(1, 100, &sent[4100..]);
        pair.wait_ok(0, 2);
        pair.wait_ok(1, 1);
        // A WRITE that begins with zeros; a READ whose first half is dropped.
        let source = [null(0, 12345, 5000), pair.mrs[0].sge(7, 60)];
        let (op, tail) = (pair.write_to(1, 6000), pair.expected(0, 7, 60));
        pair.post(0, 3, op, &source);
        pair.expect(1, 6000, &[0; 5000]);
        pair.expect(1, 11000, &tail);
        pair.wait_ok(0, 3);
        let (op, read) = (pair.read_from(1, 6000), pair.expected(1, 6000, 5060));
        pair.post(0, 4, op, &[null(0, 1, 3000), pair.mrs[0].sge(9000, 2060)]);
        pair.expect(0, 9000, &read[3000..]);
        pair.wait_ok(0, 4);
        // Still zeros, after all of that.
        pair.post(0, 5, pair.write_to(1, 12000), &[null(0, 0, 4096)]);
        pair.expect(1, 12000, &[0; 4096]);
        pair.wait_ok(0, 5);
        pair.check_memory("null regions");
        let mut others = pair.more_qps(cap(), &path(Mtu::Bytes1024));
        write(&pair, &mut others[0], 0, nulls[1].rkey(), WcStatus::RemAccessErr);
        let mut gone = nulls;
        let lkey = gone[0].lkey();
        gone[0].destroy().unwrap();
        pair.post(
            0,
            6,
            pair.write_to(1, 0),
            &[Sge {
                addr: 0,
                length: 8,
                lkey,
            }],
        );
        assert_eq!(pair.wait(0).status, WcStatus::LocProtErr);
    }
}
