//! Packets inside a switch.

/// Where a packet came in: port, and VL or on Ethernet priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Source {
    pub port: u8,
    pub vl: u8,
}

/// A packet in the switch.
#[derive(Debug)]
pub(crate) struct Stored {
    pub bytes: Vec<u8>,
    pub source: Source,
    pub blocks: u16,
    /// Copies still to be sent.
    pub copies: u32,
}

/// All packets in the switch, by number.
#[derive(Debug, Default)]
pub(crate) struct Store {
    slots: Vec<Option<Stored>>,
    free: Vec<usize>,
}

impl Store {
    pub fn insert(&mut self, packet: Stored) -> usize {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = Some(packet);
                slot
            }
            None => {
                self.slots.push(Some(packet));
                self.slots.len() - 1
            }
        }
    }

    pub fn get(&self, slot: usize) -> Option<&Stored> {
        self.slots.get(slot)?.as_ref()
    }

    /// A copy has left. The packet, if that was the last one.
    pub fn copy_left(&mut self, slot: usize) -> Option<Stored> {
        let packet = self.slots.get_mut(slot)?;
        let copies = &mut packet.as_mut()?.copies;
        *copies = copies.saturating_sub(1);
        if *copies > 0 {
            return None;
        }
        self.free.push(slot);
        packet.take()
    }

    /// Packets inside.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_leaves_with_its_last_copy() {
        let mut store = Store::default();
        let packet = |copies| Stored {
            bytes: vec![1],
            source: Source { port: 1, vl: 0 },
            blocks: 1,
            copies,
        };
        let (a, b) = (store.insert(packet(2)), store.insert(packet(1)));
        assert!(store.copy_left(a).is_none() && store.len() == 2);
        assert!(store.copy_left(b).is_some() && store.copy_left(b).is_none());
        assert!(store.copy_left(a).is_some() && store.len() == 0);
        assert_eq!(store.insert(packet(1)), a);
        assert!(store.get(b).is_none());
    }
}
