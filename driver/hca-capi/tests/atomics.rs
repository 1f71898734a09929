//! Atomics through both interfaces (V-166, V-175, V-176): completions, and what is refused. The lone card does not see
//! a program's memory: what the operations do there, programs on the simulated card show (tests/programs).

mod common;

use std::ffi::{c_int, c_void};

use common::*;
use ibverbs::abi::*;

const ACCESS: u32 = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
/// The word, and where results go, in the program's memory.
const WORD: usize = 3;
const RESULT: usize = 0;

/// Memory that both ends use, and its region.
struct Words {
    words: Box<[u64; 8]>,
    mr: *mut ibv_mr,
}

impl Words {
    fn new(bench: &Bench) -> Self {
        Self::with(bench, ACCESS)
    }

    fn with(bench: &Bench, access: u32) -> Self {
        let mut words = Box::new([0; 8]);
        let addr = words.as_mut_ptr().cast::<c_void>();
        // SAFETY: memory that lives as long as the region.
        let mr = unsafe { ibv_reg_mr(bench.pd, addr, 64, access as c_int) };
        assert!(!mr.is_null());
        Self { words, mr }
    }

    fn sge(&self, at: usize, length: u32) -> ibv_sge {
        // SAFETY: a live region.
        let lkey = unsafe { (*self.mr).lkey };
        ibv_sge {
            addr: self.addr(at),
            length,
            lkey,
        }
    }

    fn addr(&self, at: usize) -> u64 {
        self.words.as_ptr() as u64 + 8 * at as u64
    }

    fn rkey(&self) -> u32 {
        // SAFETY: a live region.
        unsafe { (*self.mr).rkey }
    }
}

fn atomic(
    words: &Words,
    opcode: ibv_wr_opcode,
    compare_add: u64,
    swap: u64,
    sge: &mut ibv_sge,
) -> ibv_send_wr {
    let mut wr = send_wr(7);
    wr.opcode = opcode;
    (wr.sg_list, wr.num_sge) = (sge, 1);
    wr.wr.atomic.remote_addr = words.addr(WORD);
    wr.wr.atomic.rkey = words.rkey();
    wr.wr.atomic.compare_add = compare_add;
    wr.wr.atomic.swap = swap;
    wr
}

const STEPS: [(ibv_wr_opcode, u64, u64); 3] = [
    (IBV_WR_ATOMIC_FETCH_AND_ADD, 0x1_0000_0005, 0),
    (IBV_WR_ATOMIC_CMP_AND_SWP, 0x1_0000_0015, 77),
    (IBV_WR_ATOMIC_FETCH_AND_ADD, u64::MAX, 0),
];

fn allow_atomics(qps: [*mut ibv_qp; 2]) {
    allow(qps, IBV_ACCESS_REMOTE_ATOMIC);
}

fn allow(qps: [*mut ibv_qp; 2], access: u32) {
    for qp in qps {
        let mut attr = ibv_qp_attr {
            qp_access_flags: access,
            qp_state: IBV_QPS_RTS,
            ..Default::default()
        };
        let mask = (IBV_QP_STATE | IBV_QP_ACCESS_FLAGS) as c_int;
        // SAFETY: a live QP.
        assert_eq!(unsafe { ibv_modify_qp(qp, &mut attr, mask) }, 0);
    }
}

#[test]
fn posted_in_the_plain_way() {
    let bench = bench(0);
    let mut attr = ibv_device_attr::default();
    // SAFETY: a live context.
    assert_eq!(unsafe { ibv_query_device(bench.context, &mut attr) }, 0);
    assert_eq!(attr.atomic_cap, IBV_ATOMIC_HCA);
    allow_atomics(bench.qps);
    let words = Words::new(&bench);
    for (opcode, compare_add, swap) in STEPS {
        let mut sge = words.sge(RESULT, 8);
        let wr = atomic(&words, opcode, compare_add, swap, &mut sge);
        assert_eq!(post_send(bench.qps[0], &mut [wr]), (0, None));
        let wc = bench.completions(1)[0];
        let done = if opcode == IBV_WR_ATOMIC_CMP_AND_SWP {
            IBV_WC_COMP_SWAP
        } else {
            IBV_WC_FETCH_ADD
        };
        assert_eq!(
            (wc.status, wc.wr_id, wc.opcode, wc.byte_len),
            (IBV_WC_SUCCESS, 7, done, 8)
        );
    }
    // Other lengths, several entries, inline: refused, and nothing happens.
    for (length, num_sge, flags) in [
        (4, 1, 0),
        (16, 1, 0),
        (8, 2, 0),
        (8, 0, 0),
        (8, 1, IBV_SEND_INLINE),
    ] {
        let mut sges = [words.sge(RESULT, length); 2];
        let mut wr = atomic(&words, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, &mut sges[0]);
        wr.num_sge = num_sge;
        wr.send_flags |= flags;
        assert_eq!(post_send(bench.qps[0], &mut [wr]), (libc::EINVAL, Some(0)));
    }
    // SAFETY: registered above.
    assert_eq!(unsafe { ibv_dereg_mr(words.mr) }, 0);
    bench.close();
}

#[test]
fn built_in_a_section() {
    let bench = bench(1);
    let words = Words::new(&bench);
    let flags = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    // SAFETY: all of it is alive.
    unsafe {
        let create = (*extended(bench.context)).create_qp_ex.unwrap();
        let mut attr = init_attr_ex(bench.pd, bench.cq, flags);
        let qps = [(); 2].map(|()| create(bench.context, &mut attr));
        connect(qps[0], (*qps[1]).qp_num);
        connect(qps[1], (*qps[0]).qp_num);
        allow_atomics(qps);
        let qp = ibv_qp_to_qp_ex(qps[0]);
        for (opcode, compare_add, swap) in STEPS {
            (*qp).wr_start.unwrap()(qp);
            ((*qp).wr_id, (*qp).wr_flags) = (9, IBV_SEND_SIGNALED);
            let (rkey, addr) = (words.rkey(), words.addr(WORD));
            if opcode == IBV_WR_ATOMIC_CMP_AND_SWP {
                (*qp).wr_atomic_cmp_swp.unwrap()(qp, rkey, addr, compare_add, swap);
            } else {
                (*qp).wr_atomic_fetch_add.unwrap()(qp, rkey, addr, compare_add);
            }
            let sge = words.sge(RESULT, 8);
            (*qp).wr_set_sge.unwrap()(qp, sge.lkey, sge.addr, sge.length);
            assert_eq!((*qp).wr_complete.unwrap()(qp), 0);
            let wc = bench.completions(1)[0];
            assert_eq!((wc.status, wc.wr_id, wc.byte_len), (IBV_WC_SUCCESS, 9, 8));
        }
        // A peer that is not let in, and a word that is none.
        (*qp).wr_start.unwrap()(qp);
        (*qp).wr_atomic_fetch_add.unwrap()(qp, words.rkey(), words.addr(WORD) + 4, 1);
        let sge = words.sge(RESULT, 8);
        (*qp).wr_set_sge.unwrap()(qp, sge.lkey, sge.addr, sge.length);
        assert_eq!((*qp).wr_complete.unwrap()(qp), 0);
        assert_eq!(bench.completions(1)[0].status, IBV_WC_REM_INV_REQ_ERR);
        for qp in qps {
            assert_eq!(ibv_destroy_qp(qp), 0);
        }
        assert_eq!(ibv_dereg_mr(words.mr), 0);
    }
    bench.close();
}

/// ATOMIC WRITE: the builder takes its eight bytes from any address, a QP without room for inline data has it, and a
/// work request of the plain kind has them inline.
#[test]
fn atomic_write() {
    let bench = bench(2);
    let words = Words::with(&bench, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    // SAFETY: all of it is alive.
    unsafe {
        let create = (*extended(bench.context)).create_qp_ex.unwrap();
        let mut attr = init_attr_ex(bench.pd, bench.cq, IBV_QP_EX_WITH_ATOMIC_WRITE);
        attr.cap.max_inline_data = 0;
        let qps = [(); 2].map(|()| create(bench.context, &mut attr));
        connect(qps[0], (*qps[1]).qp_num);
        connect(qps[1], (*qps[0]).qp_num);
        allow(qps, IBV_ACCESS_REMOTE_WRITE);
        let qp = ibv_qp_to_qp_ex(qps[0]);
        assert!((*qp).wr_rdma_write.is_none(), "only what was asked for");
        let bytes = [0u8, 8, 7, 6, 5, 4, 3, 2, 1, 0];
        for (at, status) in [(0, IBV_WC_SUCCESS), (4, IBV_WC_REM_INV_REQ_ERR)] {
            (*qp).wr_start.unwrap()(qp);
            ((*qp).wr_id, (*qp).wr_flags) = (11, IBV_SEND_SIGNALED);
            let data = bytes[1..].as_ptr().cast();
            (*qp).wr_atomic_write.unwrap()(qp, words.rkey(), words.addr(WORD) + at, data);
            assert_eq!((*qp).wr_complete.unwrap()(qp), 0);
            let wc = bench.completions(1)[0];
            assert_eq!((wc.status, wc.wr_id), (status, 11));
            if status == IBV_WC_SUCCESS {
                assert_eq!((wc.opcode, wc.byte_len), (IBV_WC_ATOMIC_WRITE, 8));
            }
        }
        for qp in qps {
            assert_eq!(ibv_destroy_qp(qp), 0);
        }
    }
    allow(bench.qps, IBV_ACCESS_REMOTE_WRITE);
    let mut source = [0x5a_u64, 0];
    for (length, flags, result) in [
        (8, IBV_SEND_INLINE, (0, None)),
        (8, 0, (libc::EINVAL, Some(0))),
        (4, IBV_SEND_INLINE, (libc::EINVAL, Some(0))),
        (16, IBV_SEND_INLINE, (libc::EINVAL, Some(0))),
    ] {
        let mut sge = ibv_sge {
            addr: source.as_mut_ptr() as u64,
            length,
            lkey: 0,
        };
        let mut wr = atomic(&words, IBV_WR_ATOMIC_WRITE, 0, 0, &mut sge);
        (wr.wr.rdma.remote_addr, wr.wr.rdma.rkey) = (words.addr(WORD), words.rkey());
        wr.send_flags |= flags;
        assert_eq!(
            post_send(bench.qps[0], &mut [wr]),
            result,
            "{length} bytes, flags {flags:#x}"
        );
    }
    let wc = bench.completions(1)[0];
    assert_eq!((wc.status, wc.opcode), (IBV_WC_SUCCESS, IBV_WC_ATOMIC_WRITE));
    // SAFETY: registered above.
    assert_eq!(unsafe { ibv_dereg_mr(words.mr) }, 0);
    bench.close();
}

/// FLUSH: rdma-core 45 and later have its builder right behind the ibv_qp_ex of our header. Who has not asked for it
/// has none; what the card cannot say is refused at the end of the section; persistence is no right of a region.
#[test]
fn flush() {
    const WITH_FLUSH: u32 = 1 << 11;
    const FLUSH_GLOBAL: u32 = 1 << 8;
    type Builder = unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64, usize, u8, u8);
    let bench = bench(2);
    let words = Words::with(&bench, IBV_ACCESS_LOCAL_WRITE | FLUSH_GLOBAL);
    // SAFETY: all of it is alive.
    unsafe {
        let create = (*extended(bench.context)).create_qp_ex.unwrap();
        let builder = |qp: *mut ibv_qp_ex| qp.add(1).cast::<Option<Builder>>().read();
        let mut other = init_attr_ex(bench.pd, bench.cq, IBV_QP_EX_WITH_SEND);
        let qp = create(bench.context, &mut other);
        assert!(builder(ibv_qp_to_qp_ex(qp)).is_none(), "only what was asked for");
        assert_eq!(ibv_destroy_qp(qp), 0);
        let mut attr = init_attr_ex(bench.pd, bench.cq, WITH_FLUSH);
        let qps = [(); 2].map(|()| create(bench.context, &mut attr));
        connect(qps[0], (*qps[1]).qp_num);
        connect(qps[1], (*qps[0]).qp_num);
        allow(qps, FLUSH_GLOBAL);
        let qp = ibv_qp_to_qp_ex(qps[0]);
        let flush = builder(qp).unwrap();
        let post = |len: usize, placement: u8, selectivity: u8, key: u32| {
            (*qp).wr_start.unwrap()(qp);
            ((*qp).wr_id, (*qp).wr_flags) = (12, IBV_SEND_SIGNALED);
            flush(
                qp,
                words.rkey() ^ key,
                words.addr(WORD),
                len,
                placement,
                selectivity,
            );
            (*qp).wr_complete.unwrap()(qp)
        };
        for (len, placement, selectivity) in [(8, 0, 0), (8, 4, 0), (8, 1, 2), (1 << 32, 1, 0)] {
            assert_eq!(
                post(len, placement, selectivity, 0),
                libc::EINVAL,
                "{len} {placement} {selectivity}"
            );
        }
        for (len, selectivity, key, status) in [
            (8, 0, 0, IBV_WC_SUCCESS),
            (4096, 1, 0, IBV_WC_SUCCESS),
            (4096, 0, 0, IBV_WC_REM_ACCESS_ERR),
        ] {
            assert_eq!(post(len, 1, selectivity, key), 0);
            let wc = bench.completions(1)[0];
            assert_eq!(
                (wc.status, wc.wr_id),
                (status, 12),
                "{len} bytes, level {selectivity}"
            );
            if status == IBV_WC_SUCCESS {
                assert_eq!((wc.opcode, wc.byte_len), (8, 0));
            }
        }
        for qp in qps {
            assert_eq!(ibv_destroy_qp(qp), 0);
        }
        let addr = words.words.as_ptr().cast_mut().cast::<c_void>();
        let access = IBV_ACCESS_LOCAL_WRITE | 1 << 9;
        assert!(ibv_reg_mr(bench.pd, addr, 64, access as c_int).is_null());
        assert_eq!(*libc::__errno_location(), libc::EINVAL);
        assert_eq!(ibv_dereg_mr(words.mr), 0);
    }
    bench.close();
}
