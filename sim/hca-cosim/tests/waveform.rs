//! Waveforms hold the cycles that were asked for and no others, and errors say their reason once.

use std::error::Error as _;
use std::ops::Range;
use std::path::Path;

use hca_cosim::{CardConfig, CardId, Fabric};
use hca_models as _;

fn fabric() -> (Fabric, CardId) {
    let mut fabric = Fabric::new(1);
    let card = fabric.add_card(CardConfig::probe("card0")).unwrap();
    (fabric, card)
}

/// Keeps the card busy for some cycles, then lets it sleep, for 1000 cycles altogether.
fn burst(fabric: &mut Fabric, card: CardId) {
    fabric.mmio_write(card, 0, 0, 1, 0xf);
    fabric.run(1000);
}

/// First and last time in a waveform, from its header block: type 0, length, start and end, big endian.
fn times_ps(path: &Path) -> (u64, u64) {
    let bytes = std::fs::read(path).unwrap();
    let word = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
    assert_eq!((bytes[0], word(1)), (0, 329), "not an FST header");
    (word(9), word(17))
}

fn record(window: Range<u64>) -> (Option<Range<u64>>, (u64, u64)) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.fst");
    let (mut fabric, card) = fabric();
    fabric.card_mut(card).trace_window(&path, window).unwrap();
    for _ in 0..4 {
        burst(&mut fabric, card);
    }
    let cycles = fabric.card_mut(card).trace_close().unwrap();
    (cycles, times_ps(&path))
}

#[test]
fn a_waveform_has_the_cycles_of_its_window() {
    let cycle_ps = {
        let (fabric, card) = fabric();
        fabric.card(card).cycle_ps()
    };
    let (all, times) = record(0..u64::MAX);
    let all = all.unwrap();
    assert!(all.start < 1000 && all.end > 3000, "{all:?}");
    assert_eq!(
        times,
        (all.start * cycle_ps, (all.end - 1) * cycle_ps + cycle_ps / 2)
    );
    // The card works in the first and the last cycle of these windows, so the waveform fills them.
    let busy = all.end - 4;
    for window in [busy - 3000..busy, busy..busy + 1] {
        let (cycles, times) = record(window.clone());
        assert_eq!(cycles, Some(window.clone()));
        let last_ps = (window.end - 1) * cycle_ps + cycle_ps / 2;
        assert_eq!(times, (window.start * cycle_ps, last_ps));
    }
    // An idle card does not change and is not recorded.
    let (cycles, _) = record(all.end..u64::MAX);
    assert_eq!(cycles, None);
}

#[test]
fn a_card_can_be_traced_again_after_its_window() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["a.fst", "b.fst"].map(|name| folder.path().join(name));
    let (mut fabric, card) = fabric();
    for path in &paths {
        let window = fabric.now()..fabric.now() + 500;
        fabric.card_mut(card).trace_window(path, window.clone()).unwrap();
        assert!(
            fabric.card_mut(card).trace_window(path, 0..1).is_err(),
            "one at a time"
        );
        burst(&mut fabric, card);
        burst(&mut fabric, card);
        let cycles = fabric.card_mut(card).trace_close().unwrap().unwrap();
        assert!(
            window.start <= cycles.start && cycles.end <= window.end,
            "{cycles:?}"
        );
    }
    assert!(times_ps(&paths[0]).1 < times_ps(&paths[1]).0);
    assert_eq!(fabric.card_mut(card).trace_close().unwrap(), None);
}

#[test]
fn what_goes_wrong_is_said_once() {
    let (mut fabric, card) = fabric();
    let path = Path::new("/no/such/folder/x.fst");
    let error = fabric.card_mut(card).trace_window(path, 0..9).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("card0") && text.contains("/no/such/folder/x.fst") && text.contains("No such file"),
        "{text}"
    );
    assert!(error.source().is_none(), "the chain would say it again: {text}");
}
