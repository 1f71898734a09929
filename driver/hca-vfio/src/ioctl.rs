//! The system calls of VFIO, one safe function each. Structures and numbers are those of `vfio-bindings`.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::request_code_none;
use vfio_bindings::bindings::vfio::*;

/// What a call came to; errors are the system's.
pub type Call<T> = io::Result<T>;

const fn request(number: u32) -> u64 {
    request_code_none!(VFIO_TYPE, VFIO_BASE + number)
}

mod raw {
    use super::*;

    nix::ioctl_none_bad!(api_version, request(0));
    nix::ioctl_write_int_bad!(check_extension, request(1));
    nix::ioctl_write_int_bad!(set_iommu, request(2));
    nix::ioctl_readwrite_bad!(group_status, request(3), vfio_group_status);
    nix::ioctl_write_ptr_bad!(set_container, request(4), i32);
    nix::ioctl_write_ptr_bad!(get_device_fd, request(6), std::ffi::c_char);
    nix::ioctl_readwrite_bad!(device_info, request(7), vfio_device_info);
    nix::ioctl_readwrite_bad!(region_info, request(8), vfio_region_info);
    nix::ioctl_readwrite_bad!(irq_info, request(9), vfio_irq_info);
    nix::ioctl_write_ptr_bad!(set_irqs, request(10), u32);
    nix::ioctl_none_bad!(reset, request(11));
    nix::ioctl_readwrite_bad!(iommu_info, request(12), u64);
    nix::ioctl_write_ptr_bad!(map_dma, request(13), vfio_iommu_type1_dma_map);
    nix::ioctl_readwrite_bad!(unmap_dma, request(14), vfio_iommu_type1_dma_unmap);
}

fn size<T>() -> u32 {
    size_of::<T>() as u32
}

/// The container speaks our version, and has the IOMMU interface that we use.
pub fn has_type1(container: &File) -> Call<bool> {
    // SAFETY: without arguments.
    let version = unsafe { raw::api_version(container.as_raw_fd())? };
    // SAFETY: an integer argument.
    let has = unsafe { raw::check_extension(container.as_raw_fd(), VFIO_TYPE1v2_IOMMU as i32)? };
    Ok(version as u32 == VFIO_API_VERSION && has > 0)
}

/// Flags of a group.
pub fn group_flags(group: &File) -> Call<u32> {
    let mut status = vfio_group_status {
        argsz: size::<vfio_group_status>(),
        flags: 0,
    };
    // SAFETY: a live structure of the length that it names.
    unsafe { raw::group_status(group.as_raw_fd(), &mut status)? };
    Ok(status.flags)
}

/// Puts a group into a container.
pub fn join(group: &File, container: &File) -> Call<()> {
    // SAFETY: a live integer.
    unsafe { raw::set_container(group.as_raw_fd(), &container.as_raw_fd())? };
    Ok(())
}

/// Chooses the IOMMU interface.
pub fn set_iommu(container: &File) -> Call<()> {
    // SAFETY: an integer argument.
    unsafe { raw::set_iommu(container.as_raw_fd(), VFIO_TYPE1v2_IOMMU as i32)? };
    Ok(())
}

/// The descriptor of a device of a group.
pub fn device_fd(group: &File, name: &str) -> Call<OwnedFd> {
    let name = CString::new(name)?;
    // SAFETY: a C string.
    let fd = unsafe { raw::get_device_fd(group.as_raw_fd(), name.as_ptr())? };
    // SAFETY: new, and nobody else owns it. The kernel makes it close-on-exec.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Flags of a device.
pub fn device_flags(device: BorrowedFd<'_>) -> Call<u32> {
    let mut info = vfio_device_info {
        argsz: size::<vfio_device_info>(),
        ..Default::default()
    };
    // SAFETY: a live structure of the length that it names.
    unsafe { raw::device_info(device.as_raw_fd(), &mut info)? };
    Ok(info.flags)
}

/// A region of a device.
pub fn region(device: BorrowedFd<'_>, index: u32) -> Call<vfio_region_info> {
    let mut info = vfio_region_info {
        argsz: size::<vfio_region_info>(),
        index,
        ..Default::default()
    };
    // SAFETY: a live structure of the length that it names.
    unsafe { raw::region_info(device.as_raw_fd(), &mut info)? };
    Ok(info)
}

/// How many interrupts of a kind a device has.
pub fn irq_count(device: BorrowedFd<'_>, index: u32) -> Call<u32> {
    let mut info = vfio_irq_info {
        argsz: size::<vfio_irq_info>(),
        index,
        ..Default::default()
    };
    // SAFETY: a live structure of the length that it names.
    unsafe { raw::irq_info(device.as_raw_fd(), &mut info)? };
    Ok(info.count)
}

/// From now on interrupts of a kind are counted in these eventfds; without any, they are off.
pub fn set_irqs(device: BorrowedFd<'_>, index: u32, eventfds: &[OwnedFd]) -> Call<()> {
    let data = if eventfds.is_empty() {
        VFIO_IRQ_SET_DATA_NONE
    } else {
        VFIO_IRQ_SET_DATA_EVENTFD
    };
    let flags = data | VFIO_IRQ_SET_ACTION_TRIGGER;
    let words = size_of::<vfio_irq_set>() / 4 + eventfds.len();
    let mut set = vec![4 * words as u32, flags, index, 0, eventfds.len() as u32];
    set.extend(eventfds.iter().map(|fd| fd.as_raw_fd() as u32));
    debug_assert_eq!(set.len(), words);
    // SAFETY: a live vfio_irq_set (five words, then descriptors) of the length that it names.
    unsafe { raw::set_irqs(device.as_raw_fd(), set.as_ptr())? };
    Ok(())
}

/// Resets the function.
pub fn reset(device: BorrowedFd<'_>) -> Call<()> {
    // SAFETY: without arguments.
    unsafe { raw::reset(device.as_raw_fd())? };
    Ok(())
}

/// Lets a device read memory of this process, and write it where `writes`.
///
/// The kernel pins the pages: they stay what they are, whatever the process does.
pub fn map_dma(container: &File, addr: u64, iova: u64, len_bytes: u64, writes: bool) -> Call<()> {
    let write = if writes { VFIO_DMA_MAP_FLAG_WRITE } else { 0 };
    let map = vfio_iommu_type1_dma_map {
        argsz: size::<vfio_iommu_type1_dma_map>(),
        flags: VFIO_DMA_MAP_FLAG_READ | write,
        vaddr: addr,
        iova,
        size: len_bytes,
    };
    // SAFETY: a live structure of the length that it names. What a device then does to the memory is the business of
    // whoever made the `UserMemory`, or of this crate's own rings.
    unsafe { raw::map_dma(container.as_raw_fd(), &map)? };
    Ok(())
}

/// Ends the mappings inside a range of bus addresses; how many bytes these were.
pub fn unmap_dma(container: &File, iova: u64, len_bytes: u64) -> Call<u64> {
    let mut unmap = vfio_iommu_type1_dma_unmap {
        argsz: size::<vfio_iommu_type1_dma_unmap>(),
        flags: 0,
        iova,
        size: len_bytes,
        ..Default::default()
    };
    // SAFETY: a live structure of the length that it names; no bitmap is asked for.
    unsafe { raw::unmap_dma(container.as_raw_fd(), &mut unmap)? };
    Ok(unmap.size)
}

/// What a container's IOMMU can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IommuInfo {
    /// Smallest page.
    pub page_bytes: u64,
    /// Bus addresses that it translates, without those that are reserved.
    pub ranges: Vec<Range<u64>>,
    /// Mappings that can still be made.
    pub mappings_left: Option<u32>,
}

/// Asks for it.
pub fn iommu_info(container: &File) -> Call<IommuInfo> {
    let fixed_bytes = size_of::<vfio_iommu_type1_info>();
    let mut words = vec![0u64; fixed_bytes / 8];
    // The second time with room for what the kernel wanted to say the first time.
    for _ in 0..2 {
        let argsz = (8 * words.len()) as u32;
        words[0] = argsz.into();
        // SAFETY: a live buffer, aligned for the structure, of the length that it names.
        unsafe { raw::iommu_info(container.as_raw_fd(), words.as_mut_ptr())? };
        let wanted = (words[0] as u32 as usize).div_ceil(8);
        if wanted <= words.len() {
            break;
        }
        words = vec![0; wanted];
    }
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    Ok(parse_iommu_info(&bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(
        bytes.get(at..at.checked_add(4)?)?.try_into().ok()?,
    ))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(
        bytes.get(at..at.checked_add(8)?)?.try_into().ok()?,
    ))
}

/// A vfio_iommu_type1_info and the capabilities behind it.
fn parse_iommu_info(bytes: &[u8]) -> IommuInfo {
    const PAGE_BYTES: u64 = 4096;
    // A kernel before 5.4 names no ranges: then all that an IOMMU of 39 bits has, without the interrupts of x86.
    const ANY: [Range<u64>; 2] = [0..0xfee0_0000, 0xfef0_0000..1 << 39];
    let flags = u32_at(bytes, 4).unwrap_or(0);
    let sizes = u64_at(bytes, 8).filter(|sizes| flags & VFIO_IOMMU_INFO_PGSIZES != 0 && *sizes != 0);
    let mut info = IommuInfo {
        page_bytes: sizes.map_or(PAGE_BYTES, |sizes| 1 << sizes.trailing_zeros()),
        ranges: ANY.to_vec(),
        mappings_left: None,
    };
    let mut at = match flags & VFIO_IOMMU_INFO_CAPS {
        0 => 0,
        _ => u32_at(bytes, 16).unwrap_or(0) as usize,
    };
    // Each capability is further on than the one before, so that this ends whatever is in the bytes.
    while at != 0 {
        let Some(next) = u32_at(bytes, at.saturating_add(4)) else {
            break;
        };
        match u32_at(bytes, at).map(|word| word & 0xffff) {
            Some(VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE) => {
                let count = u32_at(bytes, at + 8).unwrap_or(0) as usize;
                let range = |i| {
                    let (start, last) = (u64_at(bytes, at + 16 + 16 * i)?, u64_at(bytes, at + 24 + 16 * i)?);
                    Some(start..last.saturating_add(1))
                };
                info.ranges = (0..count).map_while(range).collect();
            }
            Some(VFIO_IOMMU_TYPE1_INFO_DMA_AVAIL) => info.mappings_left = u32_at(bytes, at + 8),
            _ => {}
        }
        if next as usize <= at {
            break;
        }
        at = next as usize;
    }
    info
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(flags: u32, page_sizes: u64, capabilities: &[&[u64]]) -> Vec<u8> {
        let mut words = vec![u64::from(flags) << 32, page_sizes, 24];
        for (i, capability) in capabilities.iter().enumerate() {
            let at = 8 * words.len() as u64;
            words.extend_from_slice(capability);
            if i + 1 < capabilities.len() {
                let start = at as usize / 8;
                words[start] |= (8 * words.len() as u64) << 32;
            }
        }
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn capabilities_of_the_iommu() {
        let migration: &[u64] = &[2, 0, 4096, 1 << 20];
        let ranges: &[u64] = &[1 | 1 << 16, 2, 0, 0xfedf_ffff, 0xfef0_0000, (1 << 39) - 1];
        let left: &[u64] = &[3, 65_535];
        let bytes = info(3, 0x4020_1000, &[migration, ranges, left]);
        let parsed = parse_iommu_info(&bytes);
        assert_eq!(parsed.page_bytes, 4096);
        assert_eq!(parsed.ranges, [0..0xfee0_0000, 0xfef0_0000..1 << 39]);
        assert_eq!(parsed.mappings_left, Some(65_535));
        let parsed = parse_iommu_info(&info(1, 0x1_0000, &[]));
        assert_eq!((parsed.page_bytes, parsed.mappings_left), (1 << 16, None));
        assert!(!parsed.ranges.iter().any(|range| range.contains(&0xfee0_0000)));
    }

    #[test]
    fn any_bytes_are_harmless() {
        let left: &[u64] = &[3 | 24 << 32, 65_535];
        assert_eq!(parse_iommu_info(&info(2, 0, &[left])).mappings_left, Some(65_535));
        let many: &[u64] = &[1, u64::from(u32::MAX), 0, u64::MAX];
        let ranges = parse_iommu_info(&info(2, 0, &[many])).ranges;
        assert_eq!((ranges.len(), ranges[0].clone()), (1, 0..u64::MAX));
        let full = info(3, 0x1000, &[many, left]);
        (0..full.len()).for_each(|len| {
            parse_iommu_info(&full[..len]);
        });
        parse_iommu_info(&[0xff; 80]);
    }

    #[test]
    fn calls_on_something_else_fail() {
        let file = tempfile::tempfile().unwrap();
        assert!(has_type1(&file).is_err() && group_flags(&file).is_err());
        assert!(iommu_info(&file).is_err() && map_dma(&file, 0, 0, 4096, true).is_err());
        assert!(unmap_dma(&file, 0, 4096).is_err() && device_fd(&file, "a\0b").is_err());
    }
}
