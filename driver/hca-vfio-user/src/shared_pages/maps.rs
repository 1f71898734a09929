//! /proc/self/maps: what lies where in this process.

use std::{fs, io};

/// A line: pages of one kind that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub start: u64,
    pub end: u64,
    rights: &'a str,
    /// Where in the file the first page is.
    pub offset: u64,
    /// Of the file; 0 without one.
    inode: u64,
    name: &'a str,
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let rights = words.next()?;
        let offset = words.next()?;
        let _device = words.next()?;
        let inode = words.next()?;
        Some(Self {
            start: u64::from_str_radix(start, 16).ok()?,
            end: u64::from_str_radix(end, 16).ok()?,
            rights,
            offset: u64::from_str_radix(offset, 16).ok()?,
            inode: inode.parse().ok()?,
            name: words.next().unwrap_or_default(),
        })
    }

    /// The inode, if it is a memfd of this name: that of another file system's file may be the same.
    pub fn memfd(&self, name: &str) -> Option<u64> {
        let of_line = self.name.strip_prefix("/memfd:");
        (of_line == Some(name)).then_some(self.inode)
    }

    /// Memory that a program has allocated, to be read and written, and no stack, which grows.
    pub fn is_plain(&self) -> bool {
        let is_allocated = self.name.is_empty() || self.name == "[heap]" || self.name.starts_with("[anon:");
        self.rights == "rw-p" && self.inode == 0 && is_allocated
    }
}

/// The maps as they were read.
pub(super) struct Maps(String);

impl Maps {
    pub fn read() -> io::Result<Self> {
        fs::read_to_string("/proc/self/maps").map(Self)
    }

    fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        self.0.lines().filter_map(Line::parse)
    }

    /// The lines that a range lies in. None: not all of it is mapped.
    pub fn of(&self, start: u64, end: u64) -> Option<Vec<Line<'_>>> {
        let mut covered = start;
        let mut found = Vec::new();
        for line in self.lines().filter(|line| line.end > start && line.start < end) {
            if line.start > covered {
                return None;
            }
            covered = line.end;
            found.push(line);
        }
        (covered >= end).then_some(found)
    }

    /// Where memfds of a name are mapped and shared: addresses and lengths.
    pub fn shared_of(&self, name: &str, inodes: &[u64]) -> Vec<(u64, usize)> {
        self.lines()
            .filter(|line| line.rights.ends_with('s'))
            .filter(|line| line.memfd(name).is_some_and(|inode| inodes.contains(&inode)))
            .map(|line| (line.start, (line.end - line.start) as usize))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
1000-3000 rw-p 00000000 00:00 0                          [heap]
3000-4000 rw-p 00000000 00:00 0 
4000-5000 rw-s 00002000 00:01 77                         /memfd:hca-memory (deleted)
5000-6000 r--p 00000000 00:00 0 
8000-9000 rw-p 00000000 00:00 0                          [stack]
9000-a000 rw-s 00001000 08:01 77                         /usr/lib/x.so
a000-b000 rw-p 00000000 00:00 0                          [anon:malloc]
no line
";

    #[test]
    fn a_range_is_found_in_its_lines() {
        let maps = Maps(TEXT.into());
        let starts = |start, end| {
            let lines = maps.of(start, end)?;
            Some(lines.iter().map(|line| line.start).collect::<Vec<_>>())
        };
        assert_eq!(starts(0x2000, 0x3000), Some(vec![0x1000]));
        assert_eq!(starts(0x2000, 0x4001), Some(vec![0x1000, 0x3000, 0x4000]));
        for gap in [
            (0x0, 0x2000),
            (0x5000, 0x7000),
            (0x5000, 0x9000),
            (0x6000, 0x7000),
            (0xa000, 0xc000),
        ] {
            assert_eq!(starts(gap.0, gap.1), None, "{gap:#x?}");
        }
    }

    #[test]
    fn plain_is_what_a_program_allocates() {
        let maps = Maps(TEXT.into());
        let plain: Vec<u64> = maps
            .lines()
            .filter(Line::is_plain)
            .map(|line| line.start)
            .collect();
        assert_eq!(plain, [0x1000, 0x3000, 0xa000]);
        assert_eq!(maps.shared_of("hca-memory", &[77, 0]), [(0x4000, 0x1000)]);
        let line = maps.of(0x4000, 0x5000).unwrap()[0];
        assert_eq!((line.memfd("hca-memory"), line.offset), (Some(77), 0x2000));
        assert_eq!(line.memfd("hca"), None);
        // The number of the same inode, of another file system.
        assert_eq!(maps.of(0x9000, 0xa000).unwrap()[0].memfd("hca-memory"), None);
    }
}
