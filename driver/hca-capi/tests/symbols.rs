//! The library as the dynamic linker sees it, beside the one of rdma-core that this system has.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use hca_exports::elf::Library;
use ibverbs::abi::{ib_user_path_rec, ibv_sa_path_rec};

const LIBRARY: Library = Library {
    ours: "libibverbs.so",
    soname: "libibverbs.so.1",
    package: "libibverbs1",
    known: "ibv_open_device@@IBVERBS_1.1 FUNC",
};

/// Of rdma-core 55 and later, whose vendor libraries want it: perftest is linked with them. And those for our
/// libibumad.
const OWN: [&str; 4] = [
    "ibv_cmd_create_cq_ex2@@IBVERBS_PRIVATE_34 ",
    "hca_create_mad_ah@@HCA_PRIVATE_1 ",
    "hca_prefer_manager@@HCA_PRIVATE_1 ",
    "hca_set_is_sm@@HCA_PRIVATE_1 ",
];

#[test]
fn every_symbol_of_rdma_core_is_here_and_no_other() {
    LIBRARY.check_symbols(|symbol| OWN.iter().any(|name| symbol.starts_with(name)));
}

#[test]
fn its_name_is_that_of_rdma_core() {
    LIBRARY.check_soname();
}

/// Both libraries, loaded for as long as the process lives. What is called here needs no device.
struct Both([*mut c_void; 2]);

impl Both {
    fn load() -> Self {
        Self(LIBRARY.both().map(|library| {
            let path = CString::new(library.to_str().unwrap()).unwrap();
            // SAFETY: a C string; the libraries' own initialisation is all that runs.
            let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
            assert!(!handle.is_null(), "{} cannot be loaded", library.display());
            handle
        }))
    }

    /// A function of both; they may be one only if something resolved ours for theirs.
    fn function(&self, name: &CStr) -> [*mut c_void; 2] {
        // SAFETY: live handles, a C string.
        let found = self.0.map(|handle| unsafe { libc::dlsym(handle, name.as_ptr()) });
        assert!(found.iter().all(|function| !function.is_null()), "{name:?}");
        assert_ne!(found[0], found[1], "{name:?}");
        found
    }

    fn same_numbers(&self, name: &CStr, arguments: impl Iterator<Item = c_int>) {
        // SAFETY: functions of that type, all of them.
        let [ours, theirs] = self.function(name).map(|function| unsafe {
            std::mem::transmute::<*mut c_void, extern "C" fn(c_int) -> c_int>(function)
        });
        for argument in arguments {
            assert_eq!(ours(argument), theirs(argument), "{name:?}({argument})");
        }
    }

    fn same_text(&self, name: &CStr) {
        // SAFETY: functions of that type, all of them.
        let both = self.function(name).map(|function| unsafe {
            std::mem::transmute::<*mut c_void, extern "C" fn(c_int) -> *const c_char>(function)
        });
        for code in -2..64 {
            // SAFETY: constant C strings.
            let [ours, theirs] = both.map(|function| unsafe { CStr::from_ptr(function(code)) });
            assert_eq!(ours, theirs, "{name:?}({code})");
        }
    }
}

/// Every value of ibv_rate and those around, every multiple, every number of Mbit/s.
#[test]
fn rates_are_those_of_rdma_core() {
    let both = Both::load();
    both.same_numbers(c"ibv_rate_to_mult", -2..64);
    both.same_numbers(c"ibv_rate_to_mbps", -2..64);
    both.same_numbers(c"mult_to_ibv_rate", -2..1000);
    both.same_numbers(c"mbps_to_ibv_rate", -2..1_300_000);
}

/// V-190.
#[test]
fn names_of_codes_are_those_of_rdma_core() {
    let both = Both::load();
    for name in [
        c"ibv_port_state_str",
        c"ibv_event_type_str",
        c"ibv_node_type_str",
        c"ibv_wc_status_str",
    ] {
        both.same_text(name);
    }
}

#[test]
fn a_path_for_the_kernel_is_that_of_rdma_core() {
    type Copy = extern "C" fn(*mut ib_user_path_rec, *mut ibv_sa_path_rec);
    let mut path = ibv_sa_path_rec::default();
    // SAFETY: integers and bytes: any pattern is a path.
    let bytes = unsafe { std::slice::from_raw_parts_mut((&raw mut path).cast::<u8>(), size_of_val(&path)) };
    for (i, byte) in (1..).zip(bytes) {
        *byte = i;
    }
    let both = Both::load().function(c"ibv_copy_path_rec_to_kern");
    let [ours, theirs] = both.map(|function| {
        let mut out = ib_user_path_rec::default();
        // SAFETY: functions of that type.
        unsafe { std::mem::transmute::<*mut c_void, Copy>(function)(&mut out, &mut path) };
        format!("{out:?}")
    });
    assert_eq!(ours, theirs);
}

/// What rdma-core says when a driver lacks a verb, of every exported verb that no card of ours has.
#[test]
fn absent_verbs_are_unsupported() {
    let library = Both::load().0[0];
    let call = |name: &CStr| {
        // SAFETY: a live handle, a C string; these look at none of their arguments. errno of this thread.
        unsafe {
            *libc::__errno_location() = 0;
            let verb = libc::dlsym(library, name.as_ptr());
            assert!(!verb.is_null(), "{name:?}");
            let result = std::mem::transmute::<*mut c_void, extern "C" fn() -> usize>(verb)();
            assert_eq!(*libc::__errno_location(), libc::EOPNOTSUPP, "{name:?}");
            result
        }
    };
    assert_eq!(call(c"ibv_reg_dmabuf_mr"), 0);
}

/// A program of the first ABI gets no device, and is told why.
#[test]
fn the_first_abi_has_no_devices() {
    let library = Both::load().0[0];
    // SAFETY: a live handle, C strings; a function of that type; errno of this thread.
    unsafe {
        let list = libc::dlvsym(library, c"ibv_get_device_list".as_ptr(), c"IBVERBS_1.0".as_ptr());
        assert!(!list.is_null());
        let mut count = 7;
        let list: extern "C" fn(*mut c_int) -> *mut c_void = std::mem::transmute(list);
        assert!(list(&mut count).is_null());
        assert_eq!(*libc::__errno_location(), libc::ENOSYS);
    }
}
