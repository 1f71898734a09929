//! One more than there is. A file of its own: for a moment its process cannot open anything. QPs, PDs and CQs are in
//! `bad_use.rs`.

mod common;

use common::*;
use ibverbs::abi::*;

#[test]
fn queues_and_descriptors() {
    let bench = bench(41);
    // SAFETY: live objects.
    unsafe {
        let mut device = ibv_device_attr::default();
        assert_eq!(ibv_query_device(bench.context, &mut device), 0);
        let make = || {
            let mut attr = ibv_srq_init_attr::default();
            (attr.attr.max_wr, attr.attr.max_sge) = (1, 1);
            ibv_create_srq(bench.pd, (&raw mut attr).cast())
        };
        for _ in 0..2 {
            let srqs: Vec<_> = std::iter::repeat_with(make)
                .take_while(|srq| !srq.is_null())
                .collect();
            assert_eq!((errno(), srqs.len()), (libc::ENOMEM, device.max_srq as usize));
            srqs.iter().for_each(|srq| assert_eq!(ibv_destroy_srq(*srq), 0));
        }
        // V-50: EMFILE. A limit that is below what is open already leaves none.
        let mut limit: libc::rlimit = std::mem::zeroed();
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        let none = libc::rlimit { rlim_cur: 0, ..limit };
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &none), 0);
        let channel = ibv_create_comp_channel(bench.context);
        let found = errno();
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
        assert!(channel.is_null());
        assert_eq!(found, libc::EMFILE);
    }
    bench.close();
}
