//! Directed routes (IBA vol1 14.2.2): a datagram names the ports through which it leaves, one after the other.

use crate::mad::{Mad, class, status, status_of, u16_at};

const HOP_POINTER: usize = 6;
const HOP_COUNT: usize = 7;
const DR_SLID: usize = 32;
const DR_DLID: usize = 34;
const INITIAL_PATH: usize = 128;
const RETURN_PATH: usize = 192;
/// Hops that a path has room for; place 0 is not used.
pub const MAX_HOPS: u8 = 63;

/// Is it one?
pub fn is_directed(mad: &Mad) -> bool {
    mad[1] == class::SM_DIRECTED
}

/// Is it on its way back?
pub fn is_back(mad: &Mad) -> bool {
    status_of(mad) & status::DIRECTION != 0
}

/// Hops of the route.
pub fn hops_of(mad: &Mad) -> u8 {
    mad[HOP_COUNT]
}

/// The ports through which it has come so far, from place 1.
pub(crate) fn return_path(mad: &Mad) -> &[u8] {
    &mad[RETURN_PATH..RETURN_PATH + usize::from(MAX_HOPS) + 1]
}

/// The directed part of the route ends at its last node: no LID behind.
fn ends_there(mad: &Mad) -> bool {
    u16_at(mad, DR_DLID) == hca_wire::LID_PERMISSIVE
}

/// The directed part begins at who asks. Otherwise LIDs lead to the switch where it begins, and back from there.
pub fn begins_here(mad: &Mad) -> bool {
    u16_at(mad, DR_SLID) == hca_wire::LID_PERMISSIVE
}

/// A request that has come through a port of a channel adapter: is it for its agent? Writes how it came.
pub fn arrive(mad: &mut Mad, port: u8) -> bool {
    let (pointer, count) = (mad[HOP_POINTER], mad[HOP_COUNT]);
    if is_back(mad) || count > MAX_HOPS || pointer != count || !ends_there(mad) {
        return false;
    }
    // C14-9. A channel adapter is the end of any route. Its answer goes back from where the pointer is.
    if count != 0 {
        mad[RETURN_PATH + usize::from(count)] = port;
    }
    true
}

/// A request that a port of a channel adapter is about to send: may it leave through it? Moves the pointer to the first
/// hop. One with no hops stays here; one that begins elsewhere leaves as it is.
pub fn depart(mad: &mut Mad, port: u8) -> bool {
    let (pointer, count) = (mad[HOP_POINTER], mad[HOP_COUNT]);
    if is_back(mad) || pointer != 0 || count > MAX_HOPS || !ends_there(mad) {
        return false;
    }
    if !begins_here(mad) {
        return true;
    }
    if count != 0 {
        mad[HOP_POINTER] = 1;
    }
    count == 0 || mad[INITIAL_PATH + 1] == port
}

/// An answer that has come through a port: is it for who asked there?
pub fn come_back(mad: &mut Mad) -> bool {
    let (pointer, count) = (mad[HOP_POINTER], mad[HOP_COUNT]);
    let last = if begins_here(mad) { count.min(1) } else { 0 };
    if !is_back(mad) || count > MAX_HOPS || pointer != last || !ends_there(mad) {
        return false;
    }
    mad[HOP_POINTER] = 0;
    true
}

/// Where a datagram goes on that has come into a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To the switch's own agent.
    Here,
    /// Out through a port.
    Out(u8),
    /// To this LID.
    Lid(u16),
    /// Nowhere.
    Lost,
}

/// A datagram that has come into a switch through a port (C14-9, C14-13): which way it goes. Writes how it came and
/// moves the pointer.
pub fn pass(mad: &mut Mad, input: u8) -> Way {
    let (pointer, count) = (mad[HOP_POINTER], mad[HOP_COUNT]);
    if count > MAX_HOPS || !ends_there(mad) {
        return Way::Lost;
    }
    let begins_here = !begins_here(mad) && pointer == u8::from(is_back(mad));
    if begins_here && is_back(mad) && count != 0 {
        mad[HOP_POINTER] = 0;
        return Way::Lid(u16_at(mad, DR_SLID));
    }
    if begins_here && !is_back(mad) {
        if count == 0 {
            return Way::Here;
        }
        mad[HOP_POINTER] = 1;
        return Way::Out(mad[INITIAL_PATH + 1]);
    }
    if is_back(mad) {
        // Behind the first hop is who asked, and that is no switch.
        if !(2..=count).contains(&pointer) {
            return Way::Lost;
        }
        mad[HOP_POINTER] = pointer - 1;
        return Way::Out(mad[RETURN_PATH + usize::from(pointer) - 1]);
    }
    if pointer == 0 || pointer > count {
        return Way::Lost;
    }
    mad[RETURN_PATH + usize::from(pointer)] = input;
    if pointer == count {
        return Way::Here;
    }
    mad[HOP_POINTER] = pointer + 1;
    Way::Out(mad[INITIAL_PATH + usize::from(pointer) + 1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::{MAD_BYTES, answer, put_u16};

    fn directed(pointer: u8, count: u8) -> Mad {
        let mut mad = [0; MAD_BYTES];
        mad[1] = class::SM_DIRECTED;
        mad[HOP_POINTER] = pointer;
        mad[HOP_COUNT] = count;
        put_u16(&mut mad, DR_SLID, 0xffff);
        put_u16(&mut mad, DR_DLID, 0xffff);
        mad[INITIAL_PATH + 1] = 2;
        mad
    }

    /// MGMT-2: there and back between two channel adapters.
    #[test]
    fn one_hop() {
        let mut mad = directed(0, 1);
        assert!(!depart(&mut mad.clone(), 1), "through the other port");
        assert!(depart(&mut mad, 2));
        assert!(arrive(&mut mad, 1));
        assert_eq!(mad[RETURN_PATH + 1], 1);
        answer(&mut mad, 0);
        assert!(!arrive(&mut mad.clone(), 1), "an answer is nobody's request");
        assert!(come_back(&mut mad));
        assert_eq!(mad[HOP_POINTER], 0);
    }

    #[test]
    fn no_hop_is_the_port_itself() {
        let mut mad = directed(0, 0);
        assert!(depart(&mut mad, 1) && arrive(&mut mad, 1));
        answer(&mut mad, 0);
        assert!(come_back(&mut mad));
    }

    /// Every pointer and count, in both directions: the only ones that arrive at a channel adapter are the last hop's.
    #[test]
    fn only_the_end_of_a_route_arrives() {
        for count in 0..=255 {
            for pointer in 0..=255 {
                let mut mad = directed(pointer, count);
                assert_eq!(arrive(&mut mad.clone(), 1), pointer == count && count <= 63);
                assert!(!come_back(&mut mad.clone()));
                put_u16(&mut mad, 4, status::DIRECTION);
                assert!(!arrive(&mut mad.clone(), 1));
                assert_eq!(come_back(&mut mad), pointer == count.min(1) && count <= 63);
            }
        }
    }

    /// Over two switches to a channel adapter and back; each sees the ports that it must.
    #[test]
    fn through_switches() {
        let mut mad = directed(0, 3);
        mad[INITIAL_PATH + 1..][..3].copy_from_slice(&[1, 5, 6]);
        assert!(depart(&mut mad, 1));
        assert_eq!(pass(&mut mad, 2), Way::Out(5));
        assert_eq!(pass(&mut mad, 3), Way::Out(6));
        let mut last = mad;
        assert!(arrive(&mut mad, 1));
        assert_eq!(mad[RETURN_PATH + 1..][..3], [2, 3, 1]);
        answer(&mut mad, 0);
        assert_eq!(pass(&mut mad, 6), Way::Out(3));
        assert_eq!(pass(&mut mad, 5), Way::Out(2));
        assert!(come_back(&mut mad));
        // The same to the agent of a switch at its end.
        assert_eq!(pass(&mut last, 9), Way::Here);
        answer(&mut last, 0);
        assert_eq!(last[HOP_POINTER], 3);
    }

    /// Every pointer and count: nothing panics, and nobody gets what is not on its way.
    #[test]
    fn strange_routes_are_lost() {
        for count in 0..=255 {
            for pointer in 0..=255 {
                let mut there = directed(pointer, count);
                let is_on_its_way = (1..=count).contains(&pointer) && count <= 63;
                assert_eq!(pass(&mut there, 1) != Way::Lost, is_on_its_way);
                let mut back = directed(pointer, count);
                put_u16(&mut back, 4, status::DIRECTION);
                let is_on_its_way = (2..=count).contains(&pointer) && count <= 63;
                assert_eq!(pass(&mut back, 1) != Way::Lost, is_on_its_way);
            }
        }
    }

    /// LIDs lead to a switch, where the directed part begins: over another one to a channel adapter, and back.
    #[test]
    fn a_route_may_begin_at_a_switch() {
        let mut mad = directed(0, 2);
        mad[INITIAL_PATH + 1..][..2].copy_from_slice(&[5, 6]);
        put_u16(&mut mad, DR_SLID, 9);
        assert!(depart(&mut mad, 1), "whatever its first hop is");
        assert_eq!(pass(&mut mad, 1), Way::Out(5));
        assert_eq!(pass(&mut mad, 3), Way::Out(6));
        assert!(arrive(&mut mad, 1));
        answer(&mut mad, 0);
        assert_eq!(pass(&mut mad, 6), Way::Out(3));
        assert_eq!(pass(&mut mad, 5), Way::Lid(9));
        assert!(come_back(&mut mad));
        let mut none = directed(0, 0);
        put_u16(&mut none, DR_SLID, 9);
        assert!(depart(&mut none, 1));
        assert_eq!(pass(&mut none, 1), Way::Here);
    }

    #[test]
    fn routes_with_lids_behind_are_none_of_ours() {
        let mut mad = directed(1, 1);
        put_u16(&mut mad, DR_DLID, 5);
        assert!(!arrive(&mut mad.clone(), 1) && !depart(&mut mad.clone(), 2));
        assert_eq!(pass(&mut mad, 1), Way::Lost);
    }
}
