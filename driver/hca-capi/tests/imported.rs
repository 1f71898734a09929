//! Contexts, domains and regions that one part of a program makes and another imports by their numbers
//! (ibv_import_pd(3)).

mod common;

use std::ptr::null_mut;

use common::*;
use ibverbs::abi::*;

const ACCESS: u32 = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

#[test]
fn what_is_imported_is_the_same() {
    let bench = bench(12);
    let mut words = [0u64; 8];
    // SAFETY: all of it is alive; descriptors of our own.
    unsafe {
        let own = ibv_alloc_pd(bench.context);
        let mr = ibv_reg_mr(own, words.as_mut_ptr().cast(), 64, ACCESS as _);
        let copy = libc::dup((*bench.context).cmd_fd);
        let context = ibv_import_device(copy);
        assert!(!context.is_null() && context != bench.context);
        assert_eq!((*context).device, (*bench.context).device);
        assert_eq!((*context).cmd_fd, copy);
        assert!(ibv_import_device(copy).is_null(), "one owner of each descriptor");
        assert_eq!(errno(), libc::EINVAL);
        let pd = ibv_import_pd(context, (*own).handle);
        assert_eq!(((*pd).context, (*pd).handle), (context, (*own).handle));
        let again = ibv_import_mr(pd, (*mr).handle);
        assert_eq!(((*again).lkey, (*again).rkey), ((*mr).lkey, (*mr).rkey));
        assert_eq!(((*again).addr, (*again).length), (null_mut(), 64));
        assert_eq!(((*again).context, (*again).pd), (context, pd));

        // An object in it is in the domain itself: it takes the region's key and holds the domain.
        let cq = ibv_create_cq(context, 4, null_mut(), null_mut(), 0);
        let qp = ibv_create_qp(pd, &mut init_attr(cq));
        assert!(!qp.is_null());
        assert_eq!(ibv_dealloc_pd(pd), libc::EBUSY);
        assert_eq!(ibv_destroy_qp(qp), 0);
        assert_eq!(ibv_destroy_cq(cq), 0);

        // The other name goes without the thing.
        assert_eq!(ibv_dereg_mr(again), libc::EINVAL);
        ibv_unimport_mr(again);
        ibv_unimport_mr(mr);
        assert_eq!(ibv_dealloc_pd(own), libc::EBUSY);
        ibv_unimport_pd(pd);
        ibv_unimport_pd(own);
        assert_eq!(ibv_dereg_mr(mr), 0);
        assert_eq!(ibv_dealloc_pd(own), 0);
        assert_eq!(ibv_close_device(context), 0);
        assert_eq!(libc::fcntl(copy, libc::F_GETFD), -1, "it went with the context");
    }
    bench.close();
}

#[test]
fn what_is_not_there_is_not_imported() {
    let (bench, other) = (bench(13), bench(14));
    let mut words = [0u64; 8];
    // SAFETY: all of it is alive, or what a program may get wrong; descriptors of our own.
    unsafe {
        for (fd, wanted) in [
            (-1, libc::EINVAL),
            ((*bench.context).async_fd, libc::EINVAL),
            ((*bench.context).cmd_fd, libc::EINVAL),
        ] {
            assert!(ibv_import_device(fd).is_null());
            assert_eq!(errno(), wanted, "{fd}");
        }
        // As a context of another process looks.
        let foreign = libc::eventfd(0, libc::EFD_CLOEXEC);
        assert!(ibv_import_device(foreign).is_null());
        assert_eq!(errno(), libc::EOPNOTSUPP);
        assert_eq!(libc::close(foreign), 0, "it is still the program's");

        assert!(ibv_import_pd(bench.context, u32::MAX).is_null());
        assert_eq!(errno(), libc::EINVAL);
        let pd = ibv_import_pd(bench.context, (*bench.pd).handle);
        assert!(!pd.is_null());
        let mr = ibv_reg_mr(other.pd, words.as_mut_ptr().cast(), 64, ACCESS as _);
        for (domain, handle) in [(pd, u32::MAX), (pd, (*mr).handle), (null_mut(), (*mr).handle)] {
            assert!(ibv_import_mr(domain, handle).is_null());
            assert_eq!(errno(), libc::EINVAL);
        }
        ibv_unimport_pd(pd);
        ibv_unimport_pd(pd);
        assert_eq!(ibv_dereg_mr(mr), 0);
    }
    bench.close();
    other.close();
}

/// A child of fork has the parent's memory and descriptors, and still not its card.
#[test]
fn a_child_imports_nothing() {
    let bench = bench(15);
    // SAFETY: all of it is alive; the child makes one call and ends.
    unsafe {
        let copy = libc::dup((*bench.context).cmd_fd);
        let child = libc::fork();
        if child == 0 {
            let context = ibv_import_device(copy);
            let still_open = libc::fcntl(copy, libc::F_GETFD) >= 0;
            let refused = context.is_null() && errno() == libc::EOPNOTSUPP && still_open;
            libc::_exit(i32::from(!refused));
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        assert!(
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
            "{status:#x}"
        );
        assert_eq!(libc::close(copy), 0);
    }
    bench.close();
}
