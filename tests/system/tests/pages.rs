//! Regions of scattered pages: what is one range to the peer lies anywhere in host memory (MEM-3, MEM-4). Their page
//! lists are in host memory, too, of any length, and may turn out not to be readable.

mod common;

use common::{BOTH_LINKS, LOCAL_AND_REMOTE, Pair, cap};
use hca_abi::RegMrCmd;
use hca_dev::DmaBuf;
use hca_link::LinkKind;
use hca_system_tests::{RigConfig, Rng, path};
use hca_verbs::{MrOptions, Mtu, PageSize, SendOp, Sge, WcStatus};

const ADDR: u64 = 0x3000_0000_0000;

/// The page of the buffer that holds page `index` of the region: neighbours lie apart.
fn shuffled(index: usize, pages: usize) -> usize {
    (index * 5 + 3) % pages
}

/// WRITEs to a region of shuffled pages and READs it back, from inside the first page to inside the last one.
fn write_and_read_back(page_size: PageSize, shift: u32, pages: usize, len: u32) {
    let config = RigConfig::new(21, LinkKind::Ethernet);
    let mut pair = Pair::new(
        &config,
        &path(Mtu::Bytes4096),
        4 * u64::from(len),
        [LOCAL_AND_REMOTE; 2],
    );
    let page = 1usize << shift;
    let buf = pair.rig.nodes[1].alloc((pages + 1) * page).unwrap();
    let first = buf.iova().next_multiple_of(page as u64);
    let list: Vec<u64> = (0..pages)
        .map(|i| first + (shuffled(i, pages) * page) as u64)
        .collect();
    let skip = page - 77;
    let options = MrOptions {
        page_size,
        addr: Some(ADDR + skip as u64),
        length: Some(len as usize),
        ..MrOptions::new(LOCAL_AND_REMOTE)
    };
    let mr = pair.rig.nodes[1].pd.reg_pages(&list, &options).unwrap();

    let remote_addr = mr.addr();
    let rkey = mr.rkey();
    let data = pair.expected(0, 0, len);
    let source = [pair.mrs[0].sge(0, len)];
    pair.post(0, 1, SendOp::RdmaWrite { remote_addr, rkey }, &source);
    pair.wait_ok(0, 1);
    let base = (first - buf.iova()) as usize;
    for (i, want) in data.iter().enumerate() {
        let at = skip + i;
        let mut got = [0];
        buf.read_bytes(base + shuffled(at / page, pages) * page + at % page, &mut got);
        assert_eq!(got[0], *want, "byte {i} of the region");
    }

    let landing = [pair.mrs[0].sge(2 * u64::from(len), len)];
    pair.expect(0, 2 * u64::from(len), &data);
    pair.post(0, 2, SendOp::RdmaRead { remote_addr, rkey }, &landing);
    pair.wait_ok(0, 2);
    pair.check_memory("pages");
}

#[test]
fn pages_of_4_kib() {
    write_and_read_back(PageSize::KiB4, 12, 7, 77 + 5 * 4096 + 1000);
}

#[test]
fn pages_of_64_kib() {
    write_and_read_back(PageSize::Shift(16), 16, 3, 77 + 65536 + 5);
}

#[test]
fn pages_of_2_mib() {
    write_and_read_back(PageSize::MiB2, 21, 2, 77 + 4096);
}

/// Bytes of a small page.
const PAGE: usize = 4096;

/// Writes into each 8 bytes of a page which page it is.
fn number(buf: &DmaBuf, base: usize, page: usize) {
    (0..PAGE / 8).for_each(|word| buf.store_u64(base + page * PAGE + 8 * word, page as u64));
}

/// V-130: a region of 1 TiB in pages of 4 KiB: 2^28 of them, which lie in 512 pages of memory. Reads and writes at
/// random places, and across pages and lines of the list, reach the page that the list says.
#[test]
fn a_region_of_a_tebibyte() {
    for link in BOTH_LINKS {
        let mut pair = Pair::new(
            &RigConfig::new(22, link),
            &path(Mtu::Bytes4096),
            1 << 16,
            [LOCAL_AND_REMOTE; 2],
        );
        let node = &pair.rig.nodes[1];
        let (pages, total) = (512usize, 1usize << 28);
        let buf = node.alloc((pages + 1) * PAGE).unwrap();
        let base = (buf.iova().next_multiple_of(PAGE as u64) - buf.iova()) as usize;
        let mut rng = Rng::new(7, "pages");
        // The list is two gigabytes of which a few lines are ever read: only these are written.
        let list = node.alloc(total * 8).unwrap();
        let mut cmd = RegMrCmd::new();
        cmd.set_pd(node.pd.handle());
        cmd.set_access(LOCAL_AND_REMOTE.bits());
        cmd.set_start(ADDR);
        cmd.set_length((total * PAGE) as u64);
        cmd.set_num_pages(total as u32);
        cmd.set_page_shift(12);
        cmd.set_page_list_addr(list.iova());
        let rkey = node.context.function().reg_mr(&cmd).unwrap().rkey();
        let lines = [0, 1, total / 8 - 1].into_iter();
        let lines: Vec<usize> = lines
            .chain((0..60).map(|_| rng.below((total / 8) as u32) as usize))
            .collect();
        (0..pages).for_each(|page| number(&buf, base, page));
        for line in &lines {
            for entry in 8 * line..8 * line + 8 {
                let page = rng.below(pages as u32) as usize;
                list.store_u64(8 * entry, buf.iova() + (base + page * PAGE) as u64);
            }
        }
        let at = |index: usize| (list.load_u64(8 * index) - buf.iova()) as usize - base;
        for line in &lines {
            let index = 8 * line + rng.below(7) as usize;
            let remote_addr = ADDR + (index * PAGE + PAGE - 64) as u64;
            let landing = [pair.mrs[0].sge(0, 128)];
            pair.post(0, 1, SendOp::RdmaRead { remote_addr, rkey }, &landing);
            pair.wait_ok(0, 1);
            let want = [at(index), at(index + 1)].map(|place| ((place / PAGE) as u64).to_le_bytes());
            let want: Vec<u8> = want.iter().flat_map(|page| page.repeat(8)).collect();
            let mut got = vec![0; 128];
            pair.memory[0]
                .buf()
                .read_bytes(common::CANARY_BYTES as usize, &mut got);
            assert_eq!(got, want, "{link:?}, page {index}");
            // Back to its place, from one that the check of memory does not look at any more.
            pair.post(0, 2, SendOp::RdmaWrite { remote_addr, rkey }, &landing);
            pair.wait_ok(0, 2);
        }
        (0..pages).for_each(|page| {
            let words = (0..PAGE / 8).map(|word| buf.load_u64(base + page * PAGE + 8 * word));
            assert!(words.into_iter().all(|word| word == page as u64), "page {page}");
        });
    }
}

/// Entry of a list that lies 16 GiB behind its first one: no memory is there.
const LOST: u64 = 1 << 31;

/// A region whose list cannot be read from some place on: the QP that needs such a page fails, on each side with the
/// error that belongs there; another QP and the pages in front go on, and the next one that needs it fails again.
#[test]
fn a_list_that_cannot_be_read() {
    for link in BOTH_LINKS {
        for what in ["write to", "read from", "write from", "read into", "receive into"] {
            let config = RigConfig::new(23, link);
            let mut pair = Pair::new(&config, &path(Mtu::Bytes1024), 1 << 14, [LOCAL_AND_REMOTE; 2]);
            let owner = usize::from(!["write from", "read into"].contains(&what));
            let lossy = Lossy::new(&pair, owner);
            for turn in 0..2 {
                pair.check_traffic("before");
                lossy.fails(&mut pair, what);
                let mut others = pair.more_qps(cap(), &path(Mtu::Bytes1024));
                std::mem::swap(&mut pair.qps, &mut others);
                lossy.works(&mut pair, turn);
            }
        }
    }
}

struct Lossy {
    owner: usize,
    buf: DmaBuf,
    key: u32,
    _list: DmaBuf,
}

impl Lossy {
    fn new(pair: &Pair, owner: usize) -> Self {
        let node = &pair.rig.nodes[owner];
        let [buf, list] = [2 * PAGE, PAGE].map(|len| node.alloc(len).unwrap());
        let first = buf.iova().next_multiple_of(PAGE as u64);
        list.store_u64(0, first);
        let mut cmd = RegMrCmd::new();
        cmd.set_pd(node.pd.handle());
        cmd.set_access(LOCAL_AND_REMOTE.bits());
        cmd.set_start(ADDR);
        cmd.set_length((LOST + 1) << 12);
        cmd.set_num_pages(LOST as u32 + 1);
        cmd.set_page_shift(12);
        cmd.set_page_list_addr(list.iova());
        Self {
            owner,
            buf,
            key: node.context.function().reg_mr(&cmd).unwrap().lkey(),
            _list: list,
        }
    }

    fn sge(&self, page: u64) -> Sge {
        Sge {
            addr: ADDR + (page << 12),
            length: 100,
            lkey: self.key,
        }
    }

    /// One message of 100 bytes that needs the page.
    fn post(&self, pair: &mut Pair, what: &str, page: u64) {
        let (sge, own) = (self.sge(page), pair.mrs[0].sge(0, 100));
        let (remote_addr, rkey) = (sge.addr, self.key);
        let (op, local) = match what {
            "write to" => (SendOp::RdmaWrite { remote_addr, rkey }, own),
            "read from" => (SendOp::RdmaRead { remote_addr, rkey }, own),
            "write from" => (pair.write_to(1, 0), sge),
            "read into" => (pair.read_from(1, 0), sge),
            _ => (SendOp::Send, own),
        };
        if what == "receive into" {
            pair.recv(1, 9, &[sge]);
        }
        pair.post(0, 1, op, &[local]);
    }

    fn fails(&self, pair: &mut Pair, what: &str) {
        self.post(pair, what, LOST);
        let is_local = self.owner == 0;
        let status = if is_local {
            WcStatus::LocProtErr
        } else {
            WcStatus::RemOpErr
        };
        assert_eq!(pair.wait(0).status, status, "{what}");
        if what == "receive into" {
            assert_eq!(pair.wait(1).status, WcStatus::LocProtErr);
        }
    }

    /// The page in front: its first bytes come and go.
    fn works(&self, pair: &mut Pair, turn: u8) {
        let base = (self.buf.iova().next_multiple_of(PAGE as u64) - self.buf.iova()) as usize;
        let whats: &[&str] = if self.owner == 0 {
            &["read into", "write from"]
        } else {
            &["write to", "read from", "receive into"]
        };
        for what in whats {
            self.buf.store_u64(base, u64::from(turn));
            self.post(pair, what, 0);
            pair.wait_ok(0, 1);
            if *what == "receive into" {
                pair.wait_ok(1, 9);
            }
            let source = pair.expected(usize::from(*what == "read into"), 0, 8);
            let found = self.buf.load_u64(base).to_le_bytes();
            let arrived = ["write to", "receive into", "read into"].contains(what);
            let kept = u64::from(turn).to_le_bytes();
            assert_eq!(
                found.as_slice(),
                if arrived { &source[..] } else { &kept[..] },
                "{what}"
            );
            // What has come from the page.
            let landed = match *what {
                "read from" => Some(0),
                "write from" => Some(1),
                _ => None,
            };
            if let Some(node) = landed {
                let mut bytes = vec![0; 100];
                self.buf.read_bytes(base, &mut bytes);
                pair.expect(node, 0, &bytes);
            }
            pair.check_memory(what);
        }
    }
}
