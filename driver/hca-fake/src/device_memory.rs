//! The card's RAM for programs.

use std::collections::HashMap;

use hca_abi::{DM_BUS_HIGH, DM_BYTES, DM_PAGE_BYTES, DM_PAGES, DmRow};

/// Pages that are there, by function and page.
#[derive(Debug, Default)]
pub(crate) struct DeviceMemory {
    pages: HashMap<u32, Box<[u8]>>,
}

impl DeviceMemory {
    pub fn new() -> Self {
        Self::default()
    }

    /// The row of the page that a bus address of a function is in; none of its pages is behind the last. `None`: it is
    /// no address of device memory.
    pub fn page_of(func: Option<u32>, addr: u64) -> Option<u32> {
        let page = (addr << 16 >> 16) / u64::from(DM_PAGE_BYTES);
        let page = u32::try_from(page).unwrap_or(DM_PAGES).min(DM_PAGES);
        let row = func.unwrap_or(0) * DM_PAGES + page;
        (addr >> 48 == u64::from(DM_BUS_HIGH)).then_some(if page < DM_PAGES { row } else { u32::MAX })
    }

    /// A page is cleared when it comes.
    pub fn set_row(&mut self, row: u32, bytes: &[u8]) {
        if DmRow::read_from(bytes).is_some_and(|row| row.there()) {
            self.pages
                .insert(row, vec![0; DM_PAGE_BYTES as usize].into_boxed_slice());
        } else {
            self.pages.remove(&row);
        }
    }

    /// False: some of it is not there. `row` is that of the first page.
    pub fn read(&self, row: u32, addr: u64, out: &mut [u8]) -> bool {
        out.iter_mut().zip(places(row, addr)).all(|(byte, (row, at))| {
            let page = self.pages.get(&row);
            *byte = page.map_or(0, |page| page[at]);
            page.is_some()
        })
    }

    /// What goes to pages that are not there is lost.
    pub fn write(&mut self, row: u32, addr: u64, bytes: &[u8]) -> bool {
        for (byte, (row, at)) in bytes.iter().zip(places(row, addr)) {
            if let Some(page) = self.pages.get_mut(&row) {
                page[at] = *byte;
            }
        }
        true
    }
}

/// Row and place of each byte from there on.
fn places(row: u32, addr: u64) -> impl Iterator<Item = (u32, usize)> {
    let first = addr as usize % DM_PAGE_BYTES as usize;
    (first..DM_BYTES as usize).map(move |at| {
        let page = row.checked_add((at / DM_PAGE_BYTES as usize) as u32);
        let page = page.filter(|page| page / DM_PAGES == row / DM_PAGES);
        (page.unwrap_or(u32::MAX), at % DM_PAGE_BYTES as usize)
    })
}
