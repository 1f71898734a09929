//! `hca bind` and `hca unbind` on a machine of plain files: what they say when something is in the way. What they do is
//! tested in `hca-vfio`, with a kernel that answers.

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use common::{HCA, refused, text};

const CARD: &str = "0000:01:00.0";

fn hca(root: &Path, arguments: &[&str]) -> Output {
    Command::new(HCA)
        .env("HCA_SYSFS_ROOT", root)
        .args(arguments)
        .output()
        .unwrap()
}

fn add(root: &Path, bdf: &str, ids: [&str; 2]) {
    let folder = root.join("sys/bus/pci/devices").join(bdf);
    fs::create_dir_all(&folder).unwrap();
    for (file, content) in ["vendor", "device"].into_iter().zip(ids) {
        fs::write(folder.join(file), format!("{content}\n")).unwrap();
    }
}

/// A card that vfio-pci has, in group 5.
fn add_bound(root: &Path) {
    add(
        root,
        CARD,
        [
            &format!("{:#06x}", hca_dev::PCI_VENDOR_ID),
            &format!("{:#06x}", hca_dev::PCI_DEVICE_ID),
        ],
    );
    let folder = root.join("sys/bus/pci/devices").join(CARD);
    let group = root.join("sys/kernel/iommu_groups/5");
    let driver = root.join("sys/bus/pci/drivers/vfio-pci");
    fs::create_dir_all(group.join("devices")).unwrap();
    fs::create_dir_all(&driver).unwrap();
    fs::create_dir_all(root.join("dev/vfio")).unwrap();
    symlink(&group, folder.join("iommu_group")).unwrap();
    symlink(&driver, folder.join("driver")).unwrap();
    symlink(&folder, driver.join(CARD)).unwrap();
    symlink(&folder, group.join("devices").join(CARD)).unwrap();
    fs::write(root.join("dev/vfio/5"), "").unwrap();
}

#[test]
fn what_is_in_the_way_is_a_sentence() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    refused(
        &hca(root, &["bind", CARD]),
        &["no PCI function 0000:01:00.0", "no OpenHCA card"],
    );
    refused(
        &hca(root, &["unbind", "1:0.0"]),
        &["no PCI function 0000:01:00.0"],
    );
    add(root, "0000:02:00.0", ["0x8086", "0x1533"]);
    refused(
        &hca(root, &["bind", "02:00.0"]),
        &["8086:1533", "no OpenHCA card", "--force"],
    );
    refused(
        &hca(root, &["bind", "--force", "02:00.0"]),
        &["IOMMU", "intel_iommu=on"],
    );
    refused(
        &hca(root, &["bind", CARD, "--user", "no such user"]),
        &["no user 'no such user'"],
    );
    let output = hca(root, &["bind", "card0"]);
    assert!(text(&output.stderr).contains("lspci -D"));
    assert!(!hca(root, &["bind"]).status.success());
}

#[test]
fn one_that_fails_does_not_keep_the_others_from_it() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    add_bound(root);
    let output = hca(root, &["bind", "09:00.0", CARD]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr)
            .contains("no PCI function 0000:09:00.0; the machine's OpenHCA cards: 0000:01:00.0")
    );
    let said = text(&output.stdout);
    assert!(
        said.contains("bound to vfio-pci already") && said.contains("/dev/vfio/vfio is missing"),
        "{said}"
    );
    fs::write(root.join("dev/vfio/vfio"), "").unwrap();
    let output = hca(root, &["bind", CARD]);
    assert!(output.status.success() && !text(&output.stdout).contains("left to do"));
}

#[test]
fn help_tells_of_driverctl() {
    let output = hca(Path::new("/"), &["bind", "--help"]);
    let said = text(&output.stdout);
    assert!(
        said.contains("driverctl") && !said.contains("HCA_SYSFS_ROOT"),
        "{said}"
    );
}
