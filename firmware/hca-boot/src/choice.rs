//! Which slot's image is started.

use hca_abi::{BoardBoot, SLOT_NONE};

/// Starts of an image that has not come up yet.
const TRIES: u8 = 2;

/// Slots in the order in which they are tried: the new one while it has tries left, the one that last came up, then
/// whatever there is.
pub fn order(boot: &BoardBoot) -> [u8; 3] {
    let next = if boot.tries() < TRIES {
        boot.next()
    } else {
        SLOT_NONE as u8
    };
    let good = boot.good();
    [next, good, if good == 0 { 1 } else { 0 }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_image_is_tried_twice_and_the_good_one_is_behind_it() {
        let none = SLOT_NONE as u8;
        for (next, good, tries, wanted) in [
            (none, 0, 0, [none, 0, 1]),
            (1, 0, 0, [1, 0, 1]),
            (1, 0, 1, [1, 0, 1]),
            (1, 0, 2, [none, 0, 1]),
            (0, 1, 0, [0, 1, 0]),
        ] {
            let mut boot = BoardBoot::new();
            boot.set_next(next);
            boot.set_good(good);
            boot.set_tries(tries);
            assert_eq!(order(&boot), wanted);
        }
    }
}
