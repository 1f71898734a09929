//! What the kernel says about PCI functions and their IOMMU groups, in sysfs and /dev/vfio.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use hca_dev::{PCI_DEVICE_ID, PCI_VENDOR_ID};

/// The driver that gives a function to user space.
pub const VFIO_DRIVER: &str = "vfio-pci";
/// Drivers that may have other devices of a group while one of them is in user space: they let nobody else's memory be
/// reached (the kernel's vfio_driver_allowed list).
const HARMLESS_DRIVERS: [&str; 3] = ["vfio-pci", "pci-stub", "pcieport"];

/// Address of a PCI function: `DDDD:BB:DD.F`; without a domain it is in domain 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bdf {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

impl fmt::Display for Bdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            domain,
            bus,
            device,
            function,
        } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function}")
    }
}

impl FromStr for Bdf {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let explain = || {
            format!(
                "'{text}' is no PCI address: write DOMAIN:BUS:DEVICE.FUNCTION, as in 0000:01:00.0 (lspci -D)"
            )
        };
        let hex = |text: &str, digits: usize| {
            let fits =
                (1..=digits).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            fits.then(|| u32::from_str_radix(text, 16).ok()).flatten()
        };
        let parse = || {
            let (rest, function) = text.rsplit_once('.')?;
            let (rest, device) = rest.rsplit_once(':')?;
            let (domain, bus) = rest.split_once(':').unwrap_or(("0", rest));
            let found = Self {
                domain: hex(domain, 8)?,
                bus: hex(bus, 2)? as u8,
                device: hex(device, 2)? as u8,
                function: hex(function, 1)? as u8,
            };
            (found.device < 32 && found.function < 8).then_some(found)
        };
        parse().ok_or_else(explain)
    }
}

/// What tests hear of each write: the path under the root, and what was written.
type Listener = Box<dyn Fn(&Path, &str) + Send + Sync>;

/// The tree of files; another root than `/` is a test's.
#[derive(Default)]
pub struct Sysfs {
    root: Option<PathBuf>,
    listener: Option<Listener>,
}

impl fmt::Debug for Sysfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sysfs")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

impl Sysfs {
    /// The machine's own.
    pub fn new() -> Self {
        Self::default()
    }

    /// A tree of plain files below `root`.
    pub fn at(root: &Path) -> Self {
        Self {
            root: Some(root.to_owned()),
            listener: None,
        }
    }

    /// `listener` plays the kernel's part: it hears of each write.
    pub fn on_write(self, listener: impl Fn(&Path, &str) + Send + Sync + 'static) -> Self {
        Self {
            listener: Some(Box::new(listener)),
            ..self
        }
    }

    /// The machine's own tree, not a test's.
    pub fn is_real(&self) -> bool {
        self.root.is_none()
    }

    /// Where an absolute path is.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        match &self.root {
            None => path.as_ref().to_owned(),
            Some(root) => root.join(path.as_ref().strip_prefix("/").unwrap_or(path.as_ref())),
        }
    }

    /// Folder of a function.
    pub fn device(&self, bdf: Bdf) -> PathBuf {
        self.path(format!("/sys/bus/pci/devices/{bdf}"))
    }

    /// There is such a function.
    pub fn exists(&self, bdf: Bdf) -> bool {
        self.device(bdf).exists()
    }

    /// Writes to a file that is there.
    pub fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).truncate(true).open(path)?;
        io::Write::write_all(&mut file, text.as_bytes())?;
        if let Some(listener) = &self.listener {
            listener(path, text);
        }
        Ok(())
    }

    fn hex(&self, bdf: Bdf, file: &str) -> Option<u32> {
        let text = fs::read_to_string(self.device(bdf).join(file)).ok()?;
        u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
    }

    /// Vendor and device number.
    pub fn ids(&self, bdf: Bdf) -> Option<(u16, u16)> {
        Some((self.hex(bdf, "vendor")? as u16, self.hex(bdf, "device")? as u16))
    }

    /// It says that it is an OpenHCA card.
    pub fn is_ours(&self, bdf: Bdf) -> bool {
        self.ids(bdf) == Some((PCI_VENDOR_ID, PCI_DEVICE_ID))
    }

    /// The driver that has the function.
    pub fn driver(&self, bdf: Bdf) -> Option<String> {
        self.link_name(&self.device(bdf).join("driver"))
    }

    /// Its IOMMU group.
    pub fn group(&self, bdf: Bdf) -> Option<u32> {
        self.link_name(&self.device(bdf).join("iommu_group"))?
            .parse()
            .ok()
    }

    fn link_name(&self, link: &Path) -> Option<String> {
        Some(fs::read_link(link).ok()?.file_name()?.to_str()?.to_owned())
    }

    /// The file through which a process has a group.
    pub fn group_file(&self, group: u32) -> PathBuf {
        self.path(format!("/dev/vfio/{group}"))
    }

    /// Functions of a folder of links, in order.
    fn functions(&self, folder: &Path) -> Vec<Bdf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut found: Vec<Bdf> = entries
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect();
        found.sort();
        found
    }

    /// All of a group.
    pub fn members(&self, group: u32) -> Vec<Bdf> {
        self.functions(&self.path(format!("/sys/kernel/iommu_groups/{group}/devices")))
    }

    /// Others of the group whose drivers keep it from user space, with these drivers.
    pub fn in_the_way(&self, group: u32) -> Vec<(Bdf, String)> {
        let drivers = self
            .members(group)
            .into_iter()
            .filter_map(|bdf| Some((bdf, self.driver(bdf)?)));
        drivers
            .filter(|(_, driver)| !HARMLESS_DRIVERS.contains(&driver.as_str()))
            .collect()
    }

    /// Every card of ours in the machine, by address.
    pub fn cards(&self) -> Vec<Bdf> {
        let all = self.functions(&self.path("/sys/bus/pci/devices"));
        all.into_iter().filter(|bdf| self.is_ours(*bdf)).collect()
    }

    /// Those that `hca bind` has prepared, by address.
    pub fn bound_cards(&self) -> Vec<Bdf> {
        let bound = self.functions(&self.path(format!("/sys/bus/pci/drivers/{VFIO_DRIVER}")));
        bound.into_iter().filter(|bdf| self.is_ours(*bdf)).collect()
    }
}

/// Owner and mode of a file, for messages: `owner 0:0, mode 0600`.
pub fn owner_of(path: &Path) -> String {
    match fs::metadata(path) {
        Ok(found) => format!(
            "owner {}:{}, mode {:04o}",
            found.uid(),
            found.gid(),
            found.mode() & 0o7777
        ),
        Err(error) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_tree::FakeTree;

    #[test]
    fn addresses() {
        for (text, full) in [
            ("0000:01:00.0", "0000:01:00.0"),
            ("01:00.0", "0000:01:00.0"),
            ("a:3.7", "0000:0a:03.7"),
            ("10000:FF:1f.7", "10000:ff:1f.7"),
        ] {
            assert_eq!(text.parse::<Bdf>().unwrap().to_string(), full);
        }
        for text in [
            "",
            "01:00",
            "1.0",
            "01:20.0",
            "01:00.8",
            "01:00.x",
            "100:00.0",
            "+1:00.0",
            "0:01:0:0.0",
            "../x:0.0",
        ] {
            let error = text.parse::<Bdf>().unwrap_err();
            assert!(error.contains("lspci -D"), "{text}: {error}");
        }
    }

    #[test]
    fn cards_are_found_by_their_numbers_and_driver() {
        let tree = FakeTree::new();
        tree.add_card("0000:03:00.0", Some("vfio-pci"), Some(7));
        tree.add_card("0000:01:00.0", Some("vfio-pci"), Some(5));
        tree.add_card("0000:02:00.0", None, Some(6));
        tree.add("0000:04:00.0", (0x8086, 0x1533), Some("vfio-pci"), Some(5));
        tree.add("0000:05:00.0", (0x8086, 0x1533), Some("igb"), Some(5));
        let sysfs = tree.sysfs();
        let text = |found: Vec<Bdf>| found.iter().map(Bdf::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(text(sysfs.bound_cards()), "0000:01:00.0 0000:03:00.0");
        assert_eq!(text(sysfs.cards()), "0000:01:00.0 0000:02:00.0 0000:03:00.0");
        assert_eq!(text(sysfs.members(5)), "0000:01:00.0 0000:04:00.0 0000:05:00.0");
        let others = sysfs.in_the_way(5);
        assert_eq!(others, [("05:00.0".parse().unwrap(), "igb".to_owned())]);
        assert_eq!(sysfs.group("03:00.0".parse().unwrap()), Some(7));
        assert!(!sysfs.exists("09:00.0".parse().unwrap()));
    }
}
