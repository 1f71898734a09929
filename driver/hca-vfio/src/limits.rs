//! Why the kernel refuses to map memory, with the limit, what was asked and what helps.

use std::fs;
use std::io;

use hca_dev::DeviceError;

use crate::mappings::Mappings;
use crate::sysfs::Sysfs;

/// What is known when a mapping was refused.
#[derive(Clone, Copy, Debug)]
struct Facts {
    addr: u64,
    len_bytes: u64,
    /// RLIMIT_MEMLOCK; None: unlimited.
    limit_bytes: Option<u64>,
    /// Of this process, by the kernel's count.
    locked_bytes: u64,
    /// Of this card.
    pinned_bytes: u64,
    mappings: usize,
    mappings_max: Option<u64>,
}

/// The error for a mapping that the kernel refused.
pub fn refusal(
    sysfs: &Sysfs,
    addr: u64,
    len_bytes: u64,
    mappings: &Mappings,
    error: &io::Error,
) -> DeviceError {
    let facts = Facts {
        addr,
        len_bytes,
        limit_bytes: memlock_limit(),
        locked_bytes: locked_bytes(&fs::read_to_string("/proc/self/status").unwrap_or_default()),
        pinned_bytes: mappings.pinned_bytes(),
        mappings: mappings.len(),
        mappings_max: entry_limit(sysfs),
    };
    facts.refusal(error)
}

impl Facts {
    fn refusal(&self, error: &io::Error) -> DeviceError {
        let Self { addr, len_bytes, .. } = *self;
        let over = |reason| DeviceError::OverLimit {
            addr,
            len_bytes,
            reason,
        };
        match error.raw_os_error() {
            Some(libc::ENOMEM) => match self.limit_bytes {
                Some(limit) if self.locked_bytes.saturating_add(len_bytes) > limit => {
                    over(self.memlock(limit))
                }
                _ => over("the machine has no memory left for it, or for the IOMMU's tables".to_owned()),
            },
            Some(libc::ENOSPC) => over(self.entries()),
            Some(libc::EFAULT) => self.plain("the memory is not there, or cannot be read".to_owned()),
            _ => self.plain(error.to_string()),
        }
    }

    fn plain(&self, reason: String) -> DeviceError {
        DeviceError::Map {
            addr: self.addr,
            len_bytes: self.len_bytes as usize,
            reason,
        }
    }

    fn memlock(&self, limit: u64) -> String {
        let Self {
            len_bytes,
            locked_bytes,
            pinned_bytes,
            ..
        } = self;
        format!(
            "memory that a card reaches is locked, and this process may lock {limit} bytes (ulimit -l: {} KiB): it \
             has locked {locked_bytes}, {pinned_bytes} of them for this card, and asks for {len_bytes} more. \
             Raise the limit: `ulimit -l unlimited` as root, or for good a line `NAME - memlock unlimited` in \
             /etc/security/limits.conf and a new login; for a service LimitMEMLOCK=infinity in its systemd unit",
            limit / 1024
        )
    }

    fn entries(&self) -> String {
        let max = self.mappings_max.map_or(String::new(), |max| {
            format!(" of at most {max} (dma_entry_limit)")
        });
        format!(
            "the kernel keeps no more mappings: this card has {}{max}. Register fewer, larger regions, or allow \
             more: `echo 1000000 > /sys/module/vfio_iommu_type1/parameters/dma_entry_limit` as root before the card is \
             opened, for good `options vfio_iommu_type1 dma_entry_limit=1000000` in /etc/modprobe.d/vfio.conf",
            self.mappings
        )
    }
}

/// RLIMIT_MEMLOCK of this process; None: unlimited.
pub fn memlock_limit() -> Option<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a live structure, which the kernel fills.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
    (result == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// VmLck of /proc/PID/status: mlocked memory and what VFIO has pinned.
fn locked_bytes(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
    let kib = line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn entry_limit(sysfs: &Sysfs) -> Option<u64> {
    let path = sysfs.path("/sys/module/vfio_iommu_type1/parameters/dma_entry_limit");
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: Facts = Facts {
        addr: 0x7f00_0000_0000,
        len_bytes: 1 << 30,
        limit_bytes: Some(8 << 20),
        locked_bytes: 300 << 10,
        pinned_bytes: 200 << 10,
        mappings: 12,
        mappings_max: Some(65_535),
    };

    fn text(facts: Facts, errno: i32) -> String {
        facts.refusal(&io::Error::from_raw_os_error(errno)).to_string()
    }

    #[test]
    fn the_limit_of_locked_memory() {
        let text = text(FACTS, libc::ENOMEM);
        for part in [
            "8388608 bytes",
            "ulimit -l: 8192 KiB",
            "has locked 307200, 204800 of them for this card",
            "asks for 1073741824 more",
            "memlock unlimited",
            "limits.conf",
            "LimitMEMLOCK=infinity",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn memory_that_is_short_for_another_reason() {
        let unlimited = Facts {
            limit_bytes: None,
            ..FACTS
        };
        let roomy = Facts {
            limit_bytes: Some(2 << 30),
            ..FACTS
        };
        for facts in [unlimited, roomy] {
            assert!(text(facts, libc::ENOMEM).contains("no memory left"));
        }
    }

    #[test]
    fn the_limit_of_mappings() {
        let found = text(FACTS, libc::ENOSPC);
        assert!(
            found.contains("has 12 of at most 65535 (dma_entry_limit)")
                && found.contains("options vfio_iommu_type1 dma_entry_limit="),
            "{found}"
        );
        let unknown = Facts {
            mappings_max: None,
            ..FACTS
        };
        assert!(text(unknown, libc::ENOSPC).contains("this card has 12."));
        assert!(text(FACTS, libc::EFAULT).contains("not there"));
        assert!(text(FACTS, libc::EINVAL).contains("Invalid argument"));
    }

    #[test]
    fn what_the_kernel_says() {
        assert_eq!(
            locked_bytes("VmPeak:\t 9 kB\nVmLck:\t    300 kB\nVmPin:\t 0 kB\n"),
            300 << 10
        );
        assert_eq!(locked_bytes(""), 0);
        let tree = crate::fake_tree::FakeTree::new();
        assert_eq!(entry_limit(&tree.sysfs()), None);
        tree.file(
            "/sys/module/vfio_iommu_type1/parameters/dma_entry_limit",
            "65535\n",
        );
        assert_eq!(entry_limit(&tree.sysfs()), Some(65_535));
        assert!(memlock_limit().is_none_or(|limit| limit > 0));
    }
}
