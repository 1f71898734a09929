//! A machine of plain files, for tests.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use hca_dev::{PCI_DEVICE_ID, PCI_VENDOR_ID};
use tempfile::TempDir;

use crate::sysfs::Sysfs;

pub struct FakeTree {
    root: TempDir,
}

impl FakeTree {
    /// A machine without PCI functions, whose kernel has VFIO.
    pub fn new() -> Self {
        let tree = Self {
            root: tempfile::tempdir().unwrap(),
        };
        tree.add_driver("vfio-pci");
        tree.file("/sys/bus/pci/drivers_probe", "");
        tree
    }

    pub fn path(&self) -> &Path {
        self.root.path()
    }

    pub fn sysfs(&self) -> Sysfs {
        Sysfs::at(self.root.path())
    }

    fn at(&self, path: &str) -> PathBuf {
        self.sysfs().path(path)
    }

    pub fn file(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn add_driver(&self, driver: &str) {
        self.file(&format!("/sys/bus/pci/drivers/{driver}/unbind"), "");
    }

    pub fn add_card(&self, bdf: &str, driver: Option<&str>, group: Option<u32>) {
        self.add(bdf, (PCI_VENDOR_ID, PCI_DEVICE_ID), driver, group);
    }

    pub fn add(&self, bdf: &str, (vendor, device): (u16, u16), driver: Option<&str>, group: Option<u32>) {
        let folder = format!("/sys/bus/pci/devices/{bdf}");
        self.file(&format!("{folder}/vendor"), &format!("{vendor:#06x}\n"));
        self.file(&format!("{folder}/device"), &format!("{device:#06x}\n"));
        self.file(&format!("{folder}/driver_override"), "(null)\n");
        let folder = self.at(&folder);
        if let Some(group) = group {
            let group = self.at(&format!("/sys/kernel/iommu_groups/{group}"));
            fs::create_dir_all(group.join("devices")).unwrap();
            symlink(&folder, group.join("devices").join(bdf)).unwrap();
            symlink(&group, folder.join("iommu_group")).unwrap();
        }
        if let Some(driver) = driver {
            self.add_driver(driver);
            bind(self.root.path(), bdf, driver);
        }
    }

    pub fn add_group_file(&self, group: u32) {
        self.file(&format!("/dev/vfio/{group}"), "");
    }
}

/// The links of a function that a driver has.
pub fn bind(root: &Path, bdf: &str, driver: &str) {
    let (device, driver) = (
        root.join("sys/bus/pci/devices").join(bdf),
        root.join("sys/bus/pci/drivers").join(driver),
    );
    symlink(&driver, device.join("driver")).unwrap();
    symlink(&device, driver.join(bdf)).unwrap();
}

/// And when it has it no more.
pub fn unbind(root: &Path, bdf: &str) {
    let device = root.join("sys/bus/pci/devices").join(bdf);
    if let Ok(driver) = fs::read_link(device.join("driver")) {
        fs::remove_file(device.join("driver")).unwrap();
        fs::remove_file(driver.join(bdf)).unwrap();
    }
}
