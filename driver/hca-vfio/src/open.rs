//! From a PCI address to a device's descriptor; and why there is no way, in words that help.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use hca_dev::DeviceError;
use vfio_bindings::bindings::vfio::{VFIO_GROUP_FLAGS_CONTAINER_SET, VFIO_GROUP_FLAGS_VIABLE};

use crate::ioctl;
use crate::sysfs::{Bdf, Sysfs, VFIO_DRIVER, owner_of};

/// The container's file.
const CONTAINER: &str = "/dev/vfio/vfio";

/// What the kernel holds for us. Fields close in order: the device, then its group, then the container.
#[derive(Debug)]
pub struct Kernel {
    /// The function.
    pub device: OwnedFd,
    _group: File,
    /// Its IOMMU domain.
    pub container: File,
}

fn read_write(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

fn refused(bdf: Bdf, errno: i32, reason: String) -> DeviceError {
    DeviceError::Refused {
        device: bdf.to_string(),
        errno,
        reason,
    }
}

/// The group of a function that `hca bind` has prepared.
pub fn bound_group(sysfs: &Sysfs, bdf: Bdf) -> Result<u32, DeviceError> {
    if !sysfs.exists(bdf) {
        let cards = sysfs.cards();
        let known: Vec<String> = cards.iter().map(Bdf::to_string).collect();
        let known = match known.is_empty() {
            true => "the machine has no OpenHCA card (lspci -D)".to_owned(),
            false => format!("the machine's OpenHCA cards: {}", known.join(", ")),
        };
        return Err(refused(
            bdf,
            libc::ENODEV,
            format!("there is no such PCI function; {known}"),
        ));
    }
    let Some(group) = sysfs.group(bdf) else {
        return Err(refused(bdf, libc::ENODEV, no_iommu()));
    };
    match sysfs.driver(bdf).as_deref() {
        Some(VFIO_DRIVER) => Ok(group),
        other => {
            let has = other.map_or("no driver has it".to_owned(), |driver| {
                format!("the driver {driver} has it")
            });
            let reason = format!("{has}, and not {VFIO_DRIVER}: run `hca bind {bdf}` as root");
            Err(refused(bdf, libc::ENODEV, reason))
        }
    }
}

/// Why VFIO cannot work at all here.
pub fn no_iommu() -> String {
    "it is in no IOMMU group: switch the IOMMU on in the firmware setup (VT-d, AMD-Vi) and on the kernel's command \
     line (intel_iommu=on; AMD's is on by itself)"
        .to_owned()
}

/// Opens a function; the sysfs tree says what is in the way.
pub fn open(sysfs: &Sysfs, bdf: Bdf) -> Result<Kernel, DeviceError> {
    let group_number = bound_group(sysfs, bdf)?;
    let path = sysfs.group_file(group_number);
    let group = read_write(&path).map_err(|e| refuse_group(bdf, &path, &e))?;
    let flags = ioctl::group_flags(&group).map_err(failed(bdf, "ask for the state of the group"))?;
    if flags & VFIO_GROUP_FLAGS_VIABLE == 0 {
        let reason = not_viable(sysfs, group_number);
        return Err(refused(bdf, libc::EPERM, reason));
    }
    if flags & VFIO_GROUP_FLAGS_CONTAINER_SET != 0 {
        return Err(refused(bdf, libc::EBUSY, busy(&path)));
    }
    let container_path = sysfs.path(CONTAINER);
    let container = read_write(&container_path).map_err(|e| refuse_container(bdf, &container_path, &e))?;
    if !ioctl::has_type1(&container).map_err(failed(bdf, "ask for the version of VFIO"))? {
        let reason =
            "the kernel's VFIO has no type 1 version 2 IOMMU: run `modprobe vfio_iommu_type1` as root";
        return Err(refused(bdf, libc::ENOSYS, reason.to_owned()));
    }
    ioctl::join(&group, &container)
        .and_then(|()| ioctl::set_iommu(&container))
        .map_err(|e| refuse_domain(bdf, &e))?;
    let device = ioctl::device_fd(&group, &bdf.to_string()).map_err(failed(bdf, "take the device"))?;
    Ok(Kernel {
        device,
        _group: group,
        container,
    })
}

/// A call failed that has no reason of its own to.
pub fn failed(bdf: Bdf, what: &'static str) -> impl Fn(io::Error) -> DeviceError {
    move |error| {
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        refused(bdf, errno, format!("cannot {what}: {error}"))
    }
}

fn busy(path: &Path) -> String {
    format!(
        "{} is in use by another process, or by this one for another card of the same IOMMU group: a group has one \
         owner at a time (`fuser {}` names it)",
        path.display(),
        path.display()
    )
}

fn refuse_group(bdf: Bdf, path: &Path, error: &io::Error) -> DeviceError {
    let errno = error.raw_os_error().unwrap_or(libc::EIO);
    let reason = match errno {
        libc::EBUSY => busy(path),
        libc::EACCES | libc::EPERM => format!(
            "this user may not open {} ({}): run `hca bind {bdf} --user NAME` as root",
            path.display(),
            owner_of(path)
        ),
        libc::ENOENT if path.with_file_name("devices").exists() => format!(
            "there is no {}: the kernel has VFIO without groups (CONFIG_VFIO_GROUP is off), which this driver needs",
            path.display()
        ),
        libc::ENOENT => format!(
            "there is no {}: run `hca bind {bdf}` as root, and see that this file is in the container or chroot",
            path.display()
        ),
        _ => format!("cannot open {}: {error}", path.display()),
    };
    refused(bdf, errno, reason)
}

fn refuse_container(bdf: Bdf, path: &Path, error: &io::Error) -> DeviceError {
    let errno = error.raw_os_error().unwrap_or(libc::EIO);
    let reason = match errno {
        libc::EACCES | libc::EPERM => format!(
            "this user may not open {} ({}): as root, `chmod 0666 {}` (the file itself gives access to no device)",
            path.display(),
            owner_of(path),
            path.display()
        ),
        libc::ENOENT | libc::ENODEV => format!(
            "there is no {}: run `modprobe -a vfio vfio_iommu_type1` as root",
            path.display()
        ),
        _ => format!("cannot open {}: {error}", path.display()),
    };
    refused(bdf, errno, reason)
}

fn refuse_domain(bdf: Bdf, error: &io::Error) -> DeviceError {
    let errno = error.raw_os_error().unwrap_or(libc::EIO);
    let reason = match errno {
        libc::EPERM => {
            "the IOMMU does not remap interrupts, so that a card could forge them: switch interrupt \
                        remapping on in the firmware setup, or accept it with \
                        vfio_iommu_type1.allow_unsafe_interrupts=1 on the kernel's command line"
                .to_owned()
        }
        libc::EBUSY => "its group is in use by another process".to_owned(),
        libc::ENODEV => {
            "the kernel has no IOMMU driver for it: run `modprobe vfio_iommu_type1` as root".to_owned()
        }
        _ => format!("cannot give it an IOMMU domain: {error}"),
    };
    refused(bdf, errno, reason)
}

/// Others of the group are the host's.
pub fn not_viable(sysfs: &Sysfs, group: u32) -> String {
    let others: Vec<String> = sysfs
        .in_the_way(group)
        .iter()
        .map(|(bdf, driver)| format!("{bdf} ({driver})"))
        .collect();
    format!(
        "its IOMMU group {group} is not only ours: {} must be unbound (echo BDF > \
         /sys/bus/pci/devices/BDF/driver/unbind) or bound to {VFIO_DRIVER} too, or the card moved to another slot",
        match others.is_empty() {
            true => "another device in it".to_owned(),
            false => others.join(", "),
        }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_tree::FakeTree;

    fn refusal(tree: &FakeTree, bdf: &str) -> (i32, String) {
        match open(&tree.sysfs(), bdf.parse().unwrap()) {
            Err(error @ DeviceError::Refused { errno, .. }) => (errno, error.to_string()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_in_the_way_is_named_with_its_remedy() {
        let tree = FakeTree::new();
        let (errno, text) = refusal(&tree, "01:00.0");
        assert_eq!(errno, libc::ENODEV);
        assert!(
            text.contains("no such PCI function") && text.contains("no OpenHCA card"),
            "{text}"
        );
        tree.add_card("0000:03:00.0", None, Some(4));
        assert!(refusal(&tree, "01:00.0").1.contains("cards: 0000:03:00.0"));
        assert!(
            refusal(&tree, "03:00.0")
                .1
                .contains("no driver has it, and not vfio-pci: run `hca bind 0000:03:00.0`")
        );
        tree.add_card("0000:04:00.0", Some("mlx5_core"), Some(4));
        assert!(
            refusal(&tree, "04:00.0")
                .1
                .contains("the driver mlx5_core has it")
        );
        tree.add_card("0000:05:00.0", Some("vfio-pci"), None);
        assert!(refusal(&tree, "05:00.0").1.contains("intel_iommu=on"));
        // Bound, but without a file: as in a container of the other kind.
        tree.add_card("0000:06:00.0", Some("vfio-pci"), Some(9));
        let (errno, text) = refusal(&tree, "06:00.0");
        assert_eq!(errno, libc::ENOENT);
        assert!(text.contains("/dev/vfio/9: run `hca bind"), "{text}");
        // A file that is no group of the kernel's.
        tree.add_group_file(9);
        assert!(refusal(&tree, "06:00.0").1.contains("state of the group"));
    }

    #[test]
    fn errors_of_the_files() {
        let bdf: Bdf = "01:00.0".parse().unwrap();
        let tree = FakeTree::new();
        tree.add_group_file(3);
        let path = tree.sysfs().group_file(3);
        let text = |errno, container: bool| {
            let error = io::Error::from_raw_os_error(errno);
            let refuse = if container { refuse_container } else { refuse_group };
            refuse(bdf, &path, &error).to_string()
        };
        let group = text(libc::EACCES, false);
        assert!(
            group.contains("/dev/vfio/3") && group.contains("mode 0") && group.contains("--user NAME"),
            "{group}"
        );
        assert!(text(libc::EBUSY, false).contains("one owner at a time"));
        assert!(text(libc::EIO, false).contains("Input/output error"));
        assert!(text(libc::EACCES, true).contains("chmod 0666"));
        assert!(text(libc::ENOENT, true).contains("modprobe -a vfio vfio_iommu_type1"));
        let domain = |errno| refuse_domain(bdf, &io::Error::from_raw_os_error(errno)).to_string();
        assert!(domain(libc::EPERM).contains("allow_unsafe_interrupts"));
        assert!(domain(libc::EBUSY).contains("in use"));
        assert!(domain(libc::ENODEV).contains("modprobe vfio_iommu_type1"));
    }

    #[test]
    fn a_group_that_is_not_only_ours_names_the_others() {
        let tree = FakeTree::new();
        tree.add_card("0000:01:00.0", Some("vfio-pci"), Some(5));
        tree.add("0000:01:00.1", (0x8086, 1), Some("snd_hda"), Some(5));
        tree.add("0000:00:01.0", (0x8086, 2), Some("pcieport"), Some(5));
        let text = not_viable(&tree.sysfs(), 5);
        assert!(
            text.contains("0000:01:00.1 (snd_hda)") && !text.contains("pcieport"),
            "{text}"
        );
    }
}
