//! XRC through the C interface (V-83, V-84, V-101, V-114, V-120): what is shared by file and by number, how long it
//! lives, and wrong use. Traffic: `tests/programs/test_xrc.py`, `tests/system/tests/xrc.rs`.

mod common;

use std::ffi::c_int;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;

use common::*;
use ibverbs::abi::*;

const FILE_AND_FLAGS: u32 = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;

fn open_xrcd(context: *mut ibv_context, fd: c_int, oflags: c_int) -> Result<*mut ibv_xrcd, c_int> {
    let mut attr = ibv_xrcd_init_attr {
        comp_mask: FILE_AND_FLAGS,
        fd,
        oflags,
    };
    // SAFETY: an open device.
    let xrcd = unsafe { (*extended(context)).open_xrcd.unwrap()(context, &mut attr) };
    if xrcd.is_null() { Err(errno()) } else { Ok(xrcd) }
}

fn close_xrcd(xrcd: *mut ibv_xrcd) -> c_int {
    // SAFETY: a live domain, whose context is open.
    unsafe { (*extended((*xrcd).context)).close_xrcd.unwrap()(xrcd) }
}

fn create_target(
    xrcd: *mut ibv_xrcd,
    change: impl FnOnce(&mut ibv_qp_init_attr_ex),
) -> Result<*mut ibv_qp, c_int> {
    let mut attr = ibv_qp_init_attr_ex {
        qp_type: IBV_QPT_XRC_RECV,
        comp_mask: IBV_QP_INIT_ATTR_XRCD,
        xrcd,
        ..Default::default()
    };
    change(&mut attr);
    // SAFETY: a live domain.
    let qp = unsafe {
        let context = (*xrcd).context;
        (*extended(context)).create_qp_ex.unwrap()(context, &mut attr)
    };
    if qp.is_null() { Err(errno()) } else { Ok(qp) }
}

fn open_qp(
    xrcd: *mut ibv_xrcd,
    qp_num: u32,
    change: impl FnOnce(&mut ibv_qp_open_attr),
) -> Result<*mut ibv_qp, c_int> {
    let mut attr = ibv_qp_open_attr {
        comp_mask: IBV_QP_OPEN_ATTR_NUM
            | IBV_QP_OPEN_ATTR_XRCD
            | IBV_QP_OPEN_ATTR_TYPE
            | IBV_QP_OPEN_ATTR_CONTEXT,
        qp_num,
        xrcd,
        qp_context: 0x55 as *mut _,
        qp_type: IBV_QPT_XRC_RECV,
    };
    change(&mut attr);
    // SAFETY: a live domain.
    let qp = unsafe {
        let context = (*xrcd).context;
        (*extended(context)).open_qp.unwrap()(context, &mut attr)
    };
    if qp.is_null() { Err(errno()) } else { Ok(qp) }
}

fn state_of(qp: *mut ibv_qp) -> ibv_qp_state {
    let (mut attr, mut init) = (ibv_qp_attr::default(), ibv_qp_init_attr::default());
    // SAFETY: a live QP.
    assert_eq!(unsafe { ibv_query_qp(qp, &mut attr, 0, &mut init) }, 0);
    assert_eq!((init.qp_type, init.cap.max_send_wr), (IBV_QPT_XRC_RECV, 0));
    attr.qp_state
}

/// V-83, V-84: by file among all that the process has opened of a card; the last one to close it ends it.
#[test]
fn domains_of_files() {
    let (one, two) = (open(0), open(0));
    let [a, b] = ["a", "b"].map(|name| {
        let path = std::env::temp_dir().join(format!("hca-xrc-{}-{name}", std::process::id()));
        File::create(path).unwrap()
    });
    assert_eq!(open_xrcd(one, a.as_raw_fd(), 0), Err(libc::EAGAIN));
    let first = open_xrcd(one, a.as_raw_fd(), libc::O_CREAT | libc::O_EXCL).unwrap();
    assert_eq!(
        open_xrcd(two, a.as_raw_fd(), libc::O_CREAT | libc::O_EXCL),
        Err(libc::EINVAL)
    );
    assert_eq!(open_xrcd(two, b.as_raw_fd(), 0), Err(libc::EAGAIN));
    let copy = a.try_clone().unwrap();
    let second = open_xrcd(two, copy.as_raw_fd(), 0).unwrap();
    let other = open_xrcd(two, b.as_raw_fd(), libc::O_CREAT).unwrap();
    // A QP of one open is there for the other; the domain lives as long as anything is in it.
    let qp = create_target(first, |_| {}).unwrap();
    // SAFETY: a live QP.
    let qp_num = unsafe { (*qp).qp_num };
    assert_eq!(close_xrcd(first), 0);
    assert_eq!(close_xrcd(second), libc::EBUSY);
    assert_eq!(
        open_qp(other, qp_num, |_| {}),
        Err(libc::EINVAL),
        "another domain"
    );
    let again = open_qp(second, qp_num, |_| {}).unwrap();
    // SAFETY: live QPs.
    unsafe {
        assert_eq!(((*again).qp_num, (*again).qp_context as usize), (qp_num, 0x55));
        connect(qp, 0x99);
        assert_eq!((state_of(again), state_of(qp)), (IBV_QPS_RTS, IBV_QPS_RTS));
        assert_eq!(ibv_destroy_qp(qp), 0);
        assert_eq!((ibv_destroy_qp(qp), state_of(again)), (libc::EINVAL, IBV_QPS_RTS));
        assert_eq!(close_xrcd(second), libc::EBUSY);
        assert_eq!(ibv_destroy_qp(again), 0);
    }
    assert_eq!(open_qp(second, qp_num, |_| {}), Err(libc::EINVAL), "gone");
    assert_eq!((close_xrcd(second), close_xrcd(other)), (0, 0));
    assert_eq!(
        open_xrcd(one, a.as_raw_fd(), 0),
        Err(libc::EAGAIN),
        "gone with its last reference"
    );
    // SAFETY: nothing is left.
    unsafe { assert_eq!((ibv_close_device(one), ibv_close_device(two)), (0, 0)) };
}

/// SRQs and QPs of XRC: what they are made of, and what they cannot do.
#[test]
fn srqs_and_queue_pairs() {
    let context = open(1);
    let xrcd = open_xrcd(context, -1, libc::O_CREAT).unwrap();
    // SAFETY: all of it is alive; results are checked.
    unsafe {
        let (pd, cq) = (
            ibv_alloc_pd(context),
            ibv_create_cq(context, 8, null_mut(), null_mut(), 0),
        );
        let verbs = &*extended(context);
        let mut srq_attr = ibv_srq_init_attr_ex {
            attr: ibv_srq_attr {
                max_wr: 4,
                max_sge: 1,
                srq_limit: 0,
            },
            comp_mask: IBV_SRQ_INIT_ATTR_TYPE
                | IBV_SRQ_INIT_ATTR_PD
                | IBV_SRQ_INIT_ATTR_XRCD
                | IBV_SRQ_INIT_ATTR_CQ,
            srq_type: IBV_SRQT_XRC,
            pd,
            xrcd,
            cq,
            ..Default::default()
        };
        let create_srq = verbs.create_srq_ex.unwrap();
        for part in [IBV_SRQ_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_XRCD, IBV_SRQ_INIT_ATTR_CQ] {
            let mut attr = srq_attr;
            attr.comp_mask &= !part;
            assert!(create_srq(context, &mut attr).is_null() && errno() == libc::EINVAL);
        }
        let srq = create_srq(context, &mut srq_attr);
        assert!(!srq.is_null() && srq_attr.attr.max_wr >= 4);
        let mut number = u32::MAX;
        assert_eq!(verbs.get_srq_num.unwrap()(srq, &mut number), 0);
        assert!(number < 1 << 24);
        // One that peers cannot name, through the same call.
        let mut plain = srq_attr;
        (plain.comp_mask, plain.srq_type) = (IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD, IBV_SRQT_BASIC);
        let basic = create_srq(context, &mut plain);
        assert!(!basic.is_null());
        assert_eq!(verbs.get_srq_num.unwrap()(basic, &mut number), libc::EINVAL);
        for (what, errno) in [
            (
                create_target(xrcd, |attr| attr.comp_mask |= IBV_QP_INIT_ATTR_PD),
                libc::EINVAL,
            ),
            (create_target(xrcd, |attr| attr.xrcd = pd.cast()), libc::EINVAL),
            (open_qp(xrcd, 0x77, |_| {}), libc::EINVAL),
        ] {
            assert_eq!(what, Err(errno));
        }
        // An initiator: no receive CQ, no SRQ, and no receives.
        let mut attr = init_attr(cq);
        (attr.qp_type, attr.recv_cq, attr.srq) = (IBV_QPT_XRC_SEND, null_mut(), srq);
        assert!(ibv_create_qp(pd, &mut attr).is_null() && errno() == libc::EINVAL);
        attr.srq = null_mut();
        let qp = ibv_create_qp(pd, &mut attr);
        assert!(!qp.is_null());
        assert_eq!((attr.cap.max_recv_wr, attr.cap.max_recv_sge), (0, 0));
        connect(qp, 0x99);
        assert_eq!(post_recv(qp, 1), libc::EINVAL);
        let mut wr = send_wr(1);
        wr.qp_type.xrc.remote_srqn = 1 << 24;
        assert_eq!(post_send(qp, &mut [wr]).0, libc::EINVAL);
        // A target has no queue at all.
        let target = create_target(xrcd, |_| {}).unwrap();
        connect(target, 0x99);
        assert_eq!(post_recv(target, 1), libc::EINVAL);
        assert_eq!(post_send(target, &mut [send_wr(1)]).0, libc::EINVAL);
        assert_eq!((ibv_destroy_qp(target), ibv_destroy_qp(qp)), (0, 0));
        assert_eq!((close_xrcd(xrcd), ibv_destroy_cq(cq)), (libc::EBUSY, libc::EBUSY));
        assert_eq!((ibv_destroy_srq(srq), ibv_destroy_srq(basic)), (0, 0));
        assert_eq!(
            (close_xrcd(xrcd), ibv_destroy_cq(cq), ibv_dealloc_pd(pd)),
            (0, 0, 0)
        );
        assert_eq!(ibv_close_device(context), 0);
    }
}

#[test]
fn wrong_domains() {
    let context = open(2);
    for (comp_mask, fd, oflags, wanted) in [
        (0, -1, libc::O_CREAT, libc::EINVAL),
        (IBV_XRCD_INIT_ATTR_FD, -1, libc::O_CREAT, libc::EINVAL),
        (FILE_AND_FLAGS | 4, -1, libc::O_CREAT, libc::EOPNOTSUPP),
        (FILE_AND_FLAGS, -1, 0, libc::EINVAL),
        (FILE_AND_FLAGS, -1, libc::O_CREAT | libc::O_RDWR, libc::EINVAL),
        (FILE_AND_FLAGS, 9999, libc::O_CREAT, libc::EBADF),
    ] {
        let mut attr = ibv_xrcd_init_attr {
            comp_mask,
            fd,
            oflags,
        };
        // SAFETY: an open device.
        let xrcd = unsafe { (*extended(context)).open_xrcd.unwrap()(context, &mut attr) };
        assert!(xrcd.is_null() && errno() == wanted, "{attr:?}: {}", errno());
    }
    // SAFETY: an open device; pointers that are no domains are looked up first.
    unsafe {
        assert!((*extended(context)).open_xrcd.unwrap()(context, null_mut()).is_null());
        let pd = ibv_alloc_pd(context);
        assert_eq!((*extended(context)).close_xrcd.unwrap()(pd.cast()), libc::EINVAL);
        assert_eq!((ibv_dealloc_pd(pd), ibv_close_device(context)), (0, 0));
    }
}
