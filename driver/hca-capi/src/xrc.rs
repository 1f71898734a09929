//! XRC domains, which a process can share by a file, and further handles of a target of XRC.
//!
//! Each process has a function of the card for itself, and nothing of it is another's. So a domain is shared by what
//! one process has opened, not between processes: one that opens the same file gets a domain of its own.

use std::collections::HashMap;
use std::ffi::c_int;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, Weak};

use hca_verbs::{XrcTarget, Xrcd};

use crate::abi::*;
use crate::boundary::{Errno, Verb, destroyed, invalid, last_errno, pointer, status, unsupported};
use crate::card::{Card, Shared};
use crate::context::{ContextObject, context_of};
use crate::live::{CStruct, Kind, Object, get, lock, publish, retire};
use crate::qp::hand_out_target;
use crate::sockets::DevPtr;

/// Device and inode of a file.
type File = (libc::dev_t, libc::ino_t);

/// What a process can open by name, on one card. Whoever holds the lock may count references: nobody gets one without.
#[derive(Default)]
pub struct Names {
    domains: HashMap<File, Weak<Domain>>,
    /// By QPN.
    targets: HashMap<u32, Weak<Target>>,
}

/// A domain, as long as it is open.
struct Domain {
    xrcd: Xrcd<DevPtr>,
    /// A descriptor of our own keeps the inode from being another file's.
    file: Option<(File, OwnedFd)>,
}

/// A target of XRC, as long as it has handles.
pub struct Target {
    pub qp: Mutex<XrcTarget<DevPtr>>,
}

/// An open XRC domain.
#[repr(C)]
pub struct XrcdObject {
    raw: CStruct<ibv_xrcd>,
    domain: Arc<Domain>,
    card: Arc<Card>,
}

impl Object for XrcdObject {
    const KIND: Kind = Kind::Xrcd;
}

impl XrcdObject {
    pub fn xrcd(&self) -> &Xrcd<DevPtr> {
        &self.domain.xrcd
    }

    /// The first handle of a new target.
    pub fn create_target(&self, owner: &ContextObject) -> Verb<Arc<Target>> {
        if !Arc::ptr_eq(&self.card, &owner.card) {
            return Err(invalid("the XRC domain of a QP must be of its device"));
        }
        let qp = self.domain.xrcd.create_target()?;
        let qp_num = qp.qp_num();
        let target = Arc::new(Target { qp: Mutex::new(qp) });
        lock(&self.card.shared.names)
            .targets
            .insert(qp_num, Arc::downgrade(&target));
        Ok(target)
    }
}

/// A handle of a target goes; the last one takes the QP along (V-120).
pub fn drop_target(shared: &Shared, target: &Arc<Target>) -> hca_verbs::Result<()> {
    let names = &mut lock(&shared.names);
    if Arc::strong_count(target) > 1 {
        return Ok(());
    }
    let mut qp = lock(&target.qp);
    qp.destroy()?;
    names.targets.remove(&qp.qp_num());
    Ok(())
}

/// A descriptor of our own for the file of the program's, and which file it is.
fn file_of(fd: c_int) -> Verb<(File, OwnedFd)> {
    // SAFETY: any number may be given; a new descriptor is ours.
    let own = unsafe {
        let own = libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0);
        if own < 0 {
            return Err(last_errno());
        }
        OwnedFd::from_raw_fd(own)
    };
    // SAFETY: an all-zero stat is a valid one to write to.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: live structure.
    if unsafe { libc::fstat(fd, &mut stat) } != 0 {
        return Err(last_errno());
    }
    Ok(((stat.st_dev, stat.st_ino), own))
}

/// V-83. As the kernel answers: EAGAIN for a file without a domain, EINVAL for one that has one and O_EXCL.
pub unsafe extern "C" fn open_xrcd(
    context: *mut ibv_context,
    attr: *mut ibv_xrcd_init_attr,
) -> *mut ibv_xrcd {
    const PARTS: u32 = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    pointer(|| {
        // SAFETY: the program's structure, or NULL.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno(libc::EINVAL))?;
        if attr.comp_mask >= IBV_XRCD_INIT_ATTR_RESERVED {
            return Err(unsupported("ibv_open_xrcd: comp_mask beyond FD and OFLAGS"));
        }
        if attr.comp_mask != PARTS || attr.oflags & !(libc::O_CREAT | libc::O_EXCL) != 0 {
            return Err(invalid(
                "ibv_open_xrcd: fd and oflags are wanted, of O_CREAT and O_EXCL",
            ));
        }
        // SAFETY: as context_of says.
        let owner = unsafe { context_of(context)? };
        let has = |flag| attr.oflags & flag != 0;
        let file = match attr.fd {
            -1 if !has(libc::O_CREAT) => return Err(invalid("ibv_open_xrcd: no file, and no O_CREAT")),
            -1 => None,
            fd => Some(file_of(fd)?),
        };
        let names = &mut lock(&owner.card.shared.names);
        let known = file
            .as_ref()
            .and_then(|(file, _)| names.domains.get(file)?.upgrade());
        let domain = match known {
            Some(_) if has(libc::O_EXCL) => {
                return Err(invalid("ibv_open_xrcd: O_EXCL, and the file has a domain"));
            }
            Some(domain) => domain,
            None if !has(libc::O_CREAT) => return Err(Errno(libc::EAGAIN)),
            None => {
                let xrcd = owner.hca().alloc_xrcd()?;
                let name = file.as_ref().map(|(name, _)| *name);
                let domain = Arc::new(Domain { xrcd, file });
                if let Some(name) = name {
                    names.domains.insert(name, Arc::downgrade(&domain));
                }
                domain
            }
        };
        let object = XrcdObject {
            raw: CStruct::new(ibv_xrcd { context }),
            domain,
            card: owner.card.clone(),
        };
        Ok(publish(Box::new(object)).cast())
    })
}

/// V-84: EBUSY for the last reference while SRQs or targets are in the domain.
pub unsafe extern "C" fn close_xrcd(raw: *mut ibv_xrcd) -> c_int {
    status(|| {
        let object = raw.cast::<XrcdObject>();
        // SAFETY: looked up first.
        let xrcd = unsafe { get(object)? };
        let card = xrcd.card.clone();
        let names = &mut lock(&card.shared.names);
        if Arc::strong_count(&xrcd.domain) == 1 {
            destroyed(xrcd.domain.xrcd.close())?;
            if let Some((name, _)) = &xrcd.domain.file {
                names.domains.remove(name);
            }
        }
        drop(retire(object)?);
        Ok(())
    })
}

/// V-120: one more handle of a target, of the same domain.
pub unsafe extern "C" fn open_qp(context: *mut ibv_context, attr: *mut ibv_qp_open_attr) -> *mut ibv_qp {
    const PARTS: u32 = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    pointer(|| {
        // SAFETY: the program's structure, or NULL.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno(libc::EINVAL))?;
        if attr.comp_mask >= IBV_QP_OPEN_ATTR_RESERVED {
            return Err(unsupported(
                "ibv_open_qp: comp_mask beyond NUM, XRCD, CONTEXT and TYPE",
            ));
        }
        if attr.comp_mask & PARTS != PARTS || attr.qp_type != IBV_QPT_XRC_RECV {
            return Err(invalid(
                "ibv_open_qp: number, domain and type XRC_RECV are wanted",
            ));
        }
        // SAFETY: as context_of says; looked up first.
        let (owner, xrcd) = unsafe { (context_of(context)?, get(attr.xrcd.cast::<XrcdObject>())?) };
        if !Arc::ptr_eq(&xrcd.card, &owner.card) {
            return Err(invalid("ibv_open_qp: the XRC domain is of another device"));
        }
        let target = {
            let names = lock(&owner.card.shared.names);
            let known = names.targets.get(&attr.qp_num).and_then(Weak::upgrade);
            known.filter(|target| lock(&target.qp).xrcd() == xrcd.domain.xrcd.handle())
        };
        let target = target.ok_or_else(|| invalid("ibv_open_qp: no such QP in this domain"))?;
        let qp_context = match attr.comp_mask & IBV_QP_OPEN_ATTR_CONTEXT {
            0 => std::ptr::null_mut(),
            _ => attr.qp_context,
        };
        let state = u8::from(lock(&target.qp).query()?.qp_state).into();
        Ok(hand_out_target(context, owner, target, qp_context, state).cast())
    })
}
