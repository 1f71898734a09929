//! The regions of a function: what is there, and reads and writes by message.
//!
//! Registers (BAR 0) and the MSI-X BAR take aligned accesses of 1, 2, 4 and 8 bytes, as a processor makes them.
//! Registers have 32 bits: a shorter write leaves the other bytes as they are, a shorter read is a part of the
//! register's, and 8 bytes are two registers, the lower one first, which is not one moment. Doorbells have 64 bits
//! and are rung by a write of 8 bytes, the admin doorbell by one of its bytes 0 and 1 at least; any other write to
//! them is counted as a bad doorbell. The configuration space takes any range.

use std::ops::Range;
use std::os::fd::BorrowedFd;

use hca_vfio_user::{
    Header, IoEventFd, IrqInfo, KICK_BYTES, KICK_OFFSET, RegionAccess, RegionInfo, SHARED_REGION_BYTES, irq,
    region, region_flags,
};

use super::{Answer, Endpoint};
use crate::fabric::Fabric;
use crate::server::config_space::{CONFIG_BYTES, MSIX_BAR_BYTES};
use crate::{BAR_LEN_BYTES, NUM_VECTORS};

/// Length of a register.
const REGISTER_BYTES: u16 = 4;

/// A register read under way.
pub(super) struct Read {
    header: Header,
    access: RegionAccess,
    /// Id and value of each register, the lowest first.
    words: Vec<(u64, Option<u32>)>,
}

impl Endpoint {
    pub(super) fn region_read(&mut self, fabric: &mut Fabric, header: &Header, payload: &[u8]) -> Answer {
        let (access, _) = RegionAccess::decode(payload).map_err(|_| libc::EINVAL)?;
        let data = match access.region {
            region::BAR0 => {
                let range = bar_range(&access, BAR_LEN_BYTES as usize)?;
                if self.config.decodes_memory() {
                    self.read_registers(fabric, header, access, range);
                    return Ok(None);
                }
                vec![0xff; range.len()]
            }
            region::BAR2 => {
                let range = bar_range(&access, MSIX_BAR_BYTES)?;
                if self.config.decodes_memory() {
                    self.vectors.read(range).ok_or(libc::EINVAL)?
                } else {
                    vec![0xff; range.len()]
                }
            }
            region::CONFIG => {
                let found = self.config.read(access.offset, access.count as usize);
                found.ok_or(libc::EINVAL)?.to_vec()
            }
            _ => return Err(libc::EINVAL),
        };
        Ok(Some(access.encode(&data)))
    }

    fn read_registers(
        &mut self,
        fabric: &mut Fabric,
        header: &Header,
        access: RegionAccess,
        range: Range<usize>,
    ) {
        let first = range.start as u16 & !(REGISTER_BYTES - 1);
        let count = (range.len() as u16).div_ceil(REGISTER_BYTES);
        let offsets = (0..count).map(|i| first + i * REGISTER_BYTES);
        let words = offsets.map(|offset| (fabric.mmio_read(self.card, self.func, offset), None));
        self.reads.push(Read {
            header: *header,
            access,
            words: words.collect(),
        });
    }

    /// A register value that some read of ours waited for. False: not ours.
    pub fn register_value(&mut self, id: u64, value: u32) -> bool {
        let word_of = |read: &Read| read.words.iter().position(|(found, _)| *found == id);
        let found = self.reads.iter().enumerate();
        let Some((at, word)) = found.filter_map(|(at, read)| Some((at, word_of(read)?))).next() else {
            return false;
        };
        self.reads[at].words[word].1 = Some(value);
        if self.reads[at].words.iter().any(|(_, value)| value.is_none()) {
            return true;
        }
        let Read {
            header,
            access,
            words,
        } = self.reads.swap_remove(at);
        let bytes: Vec<u8> = words
            .iter()
            .flat_map(|(_, value)| value.unwrap_or(u32::MAX).to_le_bytes())
            .collect();
        let start = (access.offset % u64::from(REGISTER_BYTES)) as usize;
        let data = &bytes[start..start + access.count as usize];
        self.reply(&header, Ok(Some(access.encode(data))), None);
        true
    }

    pub(super) fn region_write(&mut self, fabric: &mut Fabric, payload: &[u8]) -> Result<Vec<u8>, i32> {
        let (access, data) = RegionAccess::decode(payload).map_err(|_| libc::EINVAL)?;
        if data.len() != access.count as usize {
            return Err(libc::EINVAL);
        }
        match access.region {
            region::BAR0 => self.write_register(fabric, &access, data)?,
            region::BAR2 => {
                let range = bar_range(&access, MSIX_BAR_BYTES)?;
                if self.config.decodes_memory() {
                    self.vectors.write(range.start, data).ok_or(libc::EINVAL)?;
                    self.vectors.release(&self.signals, &self.config);
                }
            }
            region::CONFIG => {
                let written = self.config.write(access.offset, data).ok_or(libc::EINVAL)?;
                if written.flr {
                    self.reset(fabric);
                } else {
                    self.follow_config(fabric);
                }
            }
            _ => return Err(libc::EINVAL),
        }
        Ok(access.encode(&[]))
    }

    /// A register write; lost where the function does not answer.
    pub(super) fn write_register(
        &mut self,
        fabric: &mut Fabric,
        access: &RegionAccess,
        data: &[u8],
    ) -> Result<(), i32> {
        let range = bar_range(access, BAR_LEN_BYTES as usize)?;
        if !self.config.decodes_memory() {
            return Ok(());
        }
        let (lane, offset) = (range.start % 8, range.start as u16);
        let mut word = [0; 8];
        word[lane..lane + data.len()].copy_from_slice(data);
        let word = u64::from_le_bytes(word);
        let strb = (0xffu16 >> (8 - data.len()) << lane) as u8;
        fabric.mmio_write(self.card, self.func, offset, word, strb);
        let observer = self.client.as_mut().and_then(|client| client.observer.as_mut());
        let now_ns = fabric.now_ns(self.card);
        let map = fabric.host_mut(self.card).function(self.func);
        if let (Some(observer), Some(map)) = (observer, map) {
            let bytes = offset..offset.saturating_add(data.len() as u16);
            observer.register_written(now_ns, bytes, word >> (8 * lane), map);
        }
        Ok(())
    }
}

/// The bytes of an access to a BAR: of a length that processors have, aligned, inside.
fn bar_range(access: &RegionAccess, bar_bytes: usize) -> Result<Range<usize>, i32> {
    let count = access.count as usize;
    let inside = access.offset < bar_bytes as u64;
    if ![1, 2, 4, 8].contains(&count) || !inside || !access.offset.is_multiple_of(count as u64) {
        return Err(libc::EINVAL);
    }
    let start = access.offset as usize;
    Ok(start..start + count)
}

/// What there is behind a region number.
pub(super) fn region_info(payload: &[u8], is_shared: bool) -> Result<RegionInfo, i32> {
    let ask = RegionInfo::decode(payload).map_err(|_| libc::EINVAL)?;
    if ask.index >= region::COUNT {
        return Err(libc::EINVAL);
    }
    let rw = region_flags::READ | region_flags::WRITE;
    let (flags, size) = match ask.index {
        region::BAR0 => (rw, u64::from(BAR_LEN_BYTES)),
        region::BAR2 => (rw, MSIX_BAR_BYTES as u64),
        region::BAR4 if is_shared => (rw | region_flags::MMAP, SHARED_REGION_BYTES as u64),
        region::CONFIG => (rw, CONFIG_BYTES as u64),
        _ => (0, 0),
    };
    Ok(RegionInfo {
        index: ask.index,
        flags,
        size,
        offset: 0,
    })
}

/// Parts of a region that an eventfd stands for, and that eventfd.
pub(super) fn region_io_fds<'a>(
    index: u32,
    kick: Option<BorrowedFd<'a>>,
) -> Result<(Vec<u8>, Option<BorrowedFd<'a>>), i32> {
    match index {
        region::BAR4 if kick.is_some() => {
            let (offset, size) = (KICK_OFFSET, KICK_BYTES);
            Ok((IoEventFd { index, offset, size }.encode(), kick))
        }
        index if index < region::COUNT => Ok((IoEventFd::none(index), None)),
        _ => Err(libc::EINVAL),
    }
}

/// Interrupts of a kind: MSI-X vectors, and one for errors of the card.
pub(super) fn irq_info(payload: &[u8]) -> Result<IrqInfo, i32> {
    const EVENTFD: u32 = 1;
    const MASKABLE: u32 = 2;
    let ask = IrqInfo::decode(payload).map_err(|_| libc::EINVAL)?;
    let (flags, count) = match ask.index {
        irq::MSIX => (EVENTFD | MASKABLE, NUM_VECTORS.into()),
        irq::ERR => (EVENTFD, 1),
        index if index < irq::COUNT => (0, 0),
        _ => return Err(libc::EINVAL),
    };
    Ok(IrqInfo {
        index: ask.index,
        flags,
        count,
    })
}
