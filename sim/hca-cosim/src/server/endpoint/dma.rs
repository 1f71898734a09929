//! Memory that a client maps and unmaps.

use hca_dev::RING_IOVA_BASE;
use hca_host::{Access, IommuMap, MapError, Memory};
use hca_vfio_user::{DmaMap, DmaUnmap, Header};

use super::{Answer, Endpoint, MAX_MAPPINGS};
use crate::fabric::Fabric;
use crate::server::lane::Given;

/// Mappings that end in one turn, which others wait for.
const UNMAPS_PER_TURN: usize = 4096;

/// An unmapping of many mappings, which goes on in every turn.
pub(super) struct Unmapping {
    header: Header,
    unmap: DmaUnmap,
    ended_bytes: u64,
}

/// What the card may do there; or EINVAL.
fn access_of(flags: u32) -> Result<Access, i32> {
    const BOTH: u32 = DmaMap::READ | DmaMap::WRITE;
    match flags {
        BOTH => Ok(Access::ReadWrite),
        DmaMap::READ => Ok(Access::ReadOnly),
        DmaMap::WRITE => Ok(Access::WriteOnly),
        _ => Err(libc::EINVAL),
    }
}

impl Endpoint {
    fn iommu<'a>(&self, fabric: &'a mut Fabric) -> Result<&'a mut IommuMap, i32> {
        let host = fabric.host_mut(self.card);
        host.function(self.func).ok_or(libc::ENODEV)
    }

    pub(super) fn dma_map(&mut self, fabric: &mut Fabric, map: &DmaMap, given: Given) -> Result<(), i32> {
        let process_memory = self.client.as_ref().is_some_and(|client| client.process_memory);
        let access = access_of(map.flags)?;
        let iommu = self.iommu(fabric)?;
        if iommu.len() >= MAX_MAPPINGS {
            return Err(libc::ENOSPC);
        }
        let mapped = match given {
            // Registered memory of a program that has it from a file: buffers overlap there, too.
            Given::Memory { memory, offset } if process_memory && map.address < RING_IOVA_BASE => {
                if access != Access::ReadWrite {
                    return Err(libc::ENOTSUP);
                }
                iommu.map_shared_process(map.address, map.size, (memory, offset))
            }
            Given::Memory { memory, offset } => {
                iommu.map_for(map.address, map.size, Memory::Shared { memory, offset }, access)
            }
            Given::Refused(errno) => return Err(errno),
            Given::Eventfds(_) => return Err(libc::EINVAL),
            Given::Nothing if !process_memory => {
                iommu.map_for(map.address, map.size, Memory::Messages, access)
            }
            Given::Nothing if access == Access::ReadWrite => iommu.map_process(map.address, map.size),
            // Registered buffers overlap, and it is the program's page tables that say what may be done.
            Given::Nothing => return Err(libc::ENOTSUP),
        };
        mapped.map_err(|error| match error {
            MapError::Overlap { .. } => libc::EEXIST,
            MapError::Pieces { .. } => libc::ENOSPC,
            _ => libc::EINVAL,
        })
    }

    /// Ends mappings. As with the kernel's VFIO it is no error to end nothing, the answer says how many bytes it was: a
    /// virtual IOMMU ends whole address spaces without a look at what is in them.
    pub(super) fn dma_unmap(&mut self, fabric: &mut Fabric, header: &Header, unmap: DmaUnmap) -> Answer {
        let iommu = self.iommu(fabric)?;
        match unmap.flags {
            0 => {}
            DmaUnmap::ALL if (unmap.address, unmap.size) == (0, 0) => {
                self.lane.discard(iommu.take());
                return self.unmapped(fabric, header, unmap);
            }
            // The other flag asks for a bitmap of dirty pages.
            DmaUnmap::DIRTY_BITMAP => return Err(libc::ENOTSUP),
            _ => return Err(libc::EINVAL),
        }
        if iommu.unmap(unmap.address, unmap.size).is_ok() {
            self.lane.kick_door();
            return self.unmapped(fabric, header, unmap);
        }
        let unmapping = Unmapping {
            header: *header,
            unmap,
            ended_bytes: 0,
        };
        self.unmap_some(fabric, unmapping)
    }

    /// Goes on with an unmapping that has not ended.
    pub(super) fn go_on_unmapping(&mut self, fabric: &mut Fabric) {
        if let Some(unmapping) = self.unmapping.take() {
            let header = unmapping.header;
            let answer = self.unmap_some(fabric, unmapping);
            self.reply(&header, answer, None);
        }
    }

    fn unmap_some(&mut self, fabric: &mut Fabric, mut unmapping: Unmapping) -> Answer {
        let unmap = unmapping.unmap;
        let some = self
            .iommu(fabric)?
            .unmap_range(unmap.address, unmap.size, UNMAPS_PER_TURN);
        let some = some.map_err(|_| libc::EINVAL)?;
        // The door unmaps files: that takes a while for much memory.
        self.lane.kick_door();
        unmapping.ended_bytes += some.len_bytes;
        if some.goes_on {
            self.unmapping = Some(unmapping);
            return Ok(None);
        }
        let size = unmapping.ended_bytes;
        self.unmapped(fabric, &unmapping.header, DmaUnmap { size, ..unmap })
    }

    /// The answer, once no access of the card from before is under way.
    fn unmapped(&mut self, fabric: &mut Fabric, header: &Header, done: DmaUnmap) -> Answer {
        if self.iommu(fabric)?.is_settled() {
            return Ok(Some(done.encode()));
        }
        self.unmaps.push((*header, done));
        Ok(None)
    }
}
