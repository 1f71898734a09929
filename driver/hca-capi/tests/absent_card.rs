//! Cards that are not there, or not there any more.

#[path = "common/c.rs"]
mod c;

use std::os::unix::net::UnixListener;

use c::*;
use ibverbs::abi::*;

fn devices() -> Vec<*mut ibv_device> {
    // SAFETY: the list is what the library says.
    unsafe {
        let mut num = -1;
        let list = ibv_get_device_list(&mut num);
        assert!(!list.is_null());
        let found = (0..num as usize).map(|i| *list.add(i)).collect();
        assert!((*list.add(num as usize)).is_null());
        ibv_free_device_list(list);
        found
    }
}

/// No simulator: an empty list. One that listens and never answers as one, one that has died since: no open.
#[test]
fn cards_that_are_not_there() {
    let folder = tempfile::tempdir().unwrap();
    // SAFETY: the only test of this program, and no other thread of it reads the environment.
    unsafe { std::env::set_var("HCA_SIM", folder.path().join("nowhere")) };
    assert_eq!(devices().len(), 0);
    // SAFETY: as above.
    unsafe { std::env::set_var("HCA_SIM", folder.path()) };
    assert_eq!(devices().len(), 0);

    let socket = folder.path().join("card3.0");
    let listener = UnixListener::bind(&socket).unwrap();
    let found = devices();
    assert_eq!(found.len(), 1);
    // Somebody who hangs up, as a simulator that ends.
    let hanging_up = std::thread::spawn(move || drop(listener.accept().unwrap()));
    // The listing has left its connection in the queue: that one is hung up; then nobody listens any more.
    // SAFETY: devices stay valid.
    unsafe {
        assert!(ibv_open_device(found[0]).is_null());
        assert_eq!(errno(), libc::ENXIO);
        hanging_up.join().unwrap();
        assert!(ibv_open_device(found[0]).is_null());
        assert_eq!(errno(), libc::ENXIO);
        std::fs::remove_file(&socket).unwrap();
        assert!(ibv_open_device(found[0]).is_null());
        assert_eq!(errno(), libc::ENODEV);
        assert_eq!(ibv_get_device_guid(found[0]), 0);
    }
    assert_eq!(devices().len(), 0);
}
