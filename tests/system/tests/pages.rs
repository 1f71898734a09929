//! Regions of scattered pages: what is one range to the peer lies anywhere in host memory (MEM-3, MEM-4).

mod common;

use common::{LOCAL_AND_REMOTE, Pair};
use hca_link::LinkKind;
use hca_system_tests::{RigConfig, path};
use hca_verbs::{MrOptions, Mtu, PageSize, SendOp};

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
