use super::*;

/// VL-14: exactly these moves can be asked for.
#[test]
fn moves_between_states() {
    use PortState::*;
    let wanted = [
        (Down, Down),
        (Down, Init),
        (Init, Down),
        (Init, Init),
        (Init, Armed),
        (Armed, Down),
        (Armed, Armed),
        (Armed, Active),
        (Active, Down),
        (Active, Active),
        (ActiveDefer, Down),
        (ActiveDefer, Active),
        (Nop, Down),
    ];
    for from in PortState::ALL {
        for to in PortState::ALL {
            assert_eq!(
                legal(*from, *to),
                wanted.contains(&(*from, *to)),
                "{from:?} to {to:?}"
            );
        }
    }
}
