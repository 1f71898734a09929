use super::*;
use crate::fake_tree::{self, FakeTree};

const CARD: &str = "0000:01:00.0";

/// A kernel of plain files: it unbinds, and gives what is probed to the driver that the override names, or to
/// `otherwise`.
fn kernel(tree: &FakeTree, otherwise: Option<&'static str>) -> Sysfs {
    let root = tree.path().to_owned();
    tree.sysfs().on_write(move |path, text| {
        let root = root.as_path();
        if path.ends_with("driver/unbind") {
            fake_tree::unbind(root, text);
        } else if path.ends_with("drivers_probe") {
            let device = root.join("sys/bus/pci/devices").join(text);
            let wanted = fs::read_to_string(device.join("driver_override")).unwrap();
            let driver = Some(wanted.trim()).filter(|name| !name.is_empty()).or(otherwise);
            if let Some(driver) = driver {
                fake_tree::bind(root, text, driver);
            }
        }
    })
}

fn bdf() -> Bdf {
    CARD.parse().unwrap()
}

fn own() -> (u32, u32) {
    // SAFETY: cannot fail.
    unsafe { (libc::getuid(), libc::getgid()) }
}

#[test]
fn a_card_goes_to_user_space_and_back() {
    let tree = FakeTree::new();
    tree.add_card(CARD, Some("mlx9_core"), Some(5));
    tree.add_group_file(5);
    let sysfs = kernel(&tree, Some("mlx9_core"));
    let options = BindOptions {
        owner: Some(own()),
        force: false,
    };
    let said = bind(&sysfs, bdf(), &options).unwrap();
    assert_eq!(sysfs.driver(bdf()).as_deref(), Some("vfio-pci"));
    for part in [
        "0000:01:00.0: taken from mlx9_core\n",
        "0000:01:00.0: bound to vfio-pci, IOMMU group 5\n",
        "/dev/vfio/5: user ",
        "modprobe -a vfio vfio_iommu_type1",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(bind(&sysfs, bdf(), &options).unwrap().contains("already"));
    tree.file("/dev/vfio/vfio", "");
    assert!(!bind(&sysfs, bdf(), &options).unwrap().contains("left to do"));
    let said = unbind(&sysfs, bdf()).unwrap();
    assert_eq!(
        said,
        "0000:01:00.0: taken from vfio-pci\n0000:01:00.0: given to mlx9_core\n"
    );
    assert!(unbind(&sysfs, bdf()).unwrap().contains("nothing to do"));
}

#[test]
fn a_card_that_no_driver_has() {
    let tree = FakeTree::new();
    tree.add_card(CARD, None, Some(5));
    let sysfs = kernel(&tree, None);
    assert!(unbind(&sysfs, bdf()).unwrap().contains("no driver has it"));
    let said = bind(&sysfs, bdf(), &BindOptions::default()).unwrap();
    assert!(
        !said.contains("taken from") && said.contains("IOMMU group 5"),
        "{said}"
    );
    assert!(
        unbind(&sysfs, bdf())
            .unwrap()
            .contains("no other driver wants it")
    );
}

#[test]
fn what_cannot_be_bound_says_why() {
    let tree = FakeTree::new();
    let sysfs = kernel(&tree, None);
    let refusal = |options: &BindOptions| bind(&sysfs, bdf(), options).unwrap_err().to_string();
    let plain = BindOptions::default();
    assert!(refusal(&plain).contains("has no OpenHCA card"));
    tree.add_card("0000:07:00.0", None, Some(5));
    assert!(refusal(&plain).contains("OpenHCA cards: 0000:07:00.0"));
    tree.add(CARD, (0x8086, 0x1533), Some("igb"), None);
    assert!(refusal(&plain).contains("is 8086:1533, no OpenHCA card"));
    // Forced, it gets as far as the IOMMU.
    let forced = BindOptions { force: true, ..plain };
    assert!(refusal(&forced).contains("intel_iommu=on"));
    assert_eq!(
        sysfs.driver(bdf()).as_deref(),
        Some("igb"),
        "refused, and taken all the same"
    );
}

#[test]
fn a_kernel_that_does_something_else() {
    let tree = FakeTree::new();
    tree.add_card(CARD, None, Some(5));
    let error = bind(&tree.sysfs(), bdf(), &BindOptions::default()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("offered to vfio-pci, but no driver has it"),
        "{error}"
    );
    let none = tempfile::tempdir().unwrap();
    fs::create_dir_all(none.path().join("sys/bus/pci")).unwrap();
    assert!(
        load_driver(&Sysfs::at(none.path()))
            .unwrap_err()
            .to_string()
            .contains("no driver vfio-pci")
    );
}

#[test]
fn others_of_the_group_are_left_to_do() {
    let tree = FakeTree::new();
    tree.add_card(CARD, None, Some(5));
    tree.add("0000:01:00.1", (0x8086, 1), Some("snd_hda"), Some(5));
    let said = bind(&kernel(&tree, None), bdf(), &BindOptions::default()).unwrap();
    assert!(
        said.contains("left to do") && said.contains("0000:01:00.1 (snd_hda)"),
        "{said}"
    );
}

#[test]
fn files_that_cannot_be_written() {
    let text = |errno| write_error(Path::new("/sys/x"), io::Error::from_raw_os_error(errno)).to_string();
    assert!(text(libc::EACCES).ends_with("run it as root"));
    assert!(text(libc::EROFS).contains("/sys is read-only here"));
    assert!(text(libc::EIO).ends_with("(os error 5)"));
    let tree = FakeTree::new();
    tree.add_card(CARD, None, Some(5));
    fs::remove_file(tree.sysfs().device(bdf()).join("driver_override")).unwrap();
    let error = bind(&tree.sysfs(), bdf(), &BindOptions::default()).unwrap_err();
    assert!(error.to_string().contains("driver_override"), "{error}");
}
