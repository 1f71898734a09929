//! What is written to nowhere. It ends a device, so it is the list's last.

use hca_verbs::{Error, MrOptions, PageSize, WorkCompletion, WrData};

use crate::bench::{ALL_RIGHTS, connect, expect, pair, write_to, wrong};
use crate::refusals::NOBODYS_PAGE;
use crate::{Ends, Outcome};

/// A region whose bus address nobody has mapped, and a peer that writes there. The card posts its writes and hears of
/// nothing, but its host does: the function is cut off, and its program finds out. The peer's card works on.
pub fn write_that_is_lost(ends: &Ends) -> Outcome {
    let mut sides = pair(ends, 8192)?;
    let [a, b] = &mut sides;
    let options = MrOptions {
        page_size: PageSize::KiB4,
        addr: Some(0x5000_0000_0000),
        length: Some(4096),
        ..MrOptions::new(ALL_RIGHTS)
    };
    let nowhere = b.pd.reg_pages(&[NOBODYS_PAGE], &options)?;
    let sges = [a.mr.sge(0, 512)];
    a.post(1, write_to(&nowhere, 0), WrData::Sges(&sges))?;
    // The acknowledge may have been faster than the host.
    a.wait()?;
    let deadline_ns = b.deadline_ns();
    while !b.dev.is_gone() {
        if b.dev.now_ns() > deadline_ns {
            return wrong("a device that has lost a write does not say so");
        }
        b.dev.progress();
    }
    expect("a reason", b.dev.why_gone().is_some(), true)?;
    let mut wc = [WorkCompletion::default()];
    let polled = b.cq.poll_all(&mut wc, b.deadline_ns());
    expect("an end of polling", matches!(polled, Err(Error::Driver(_))), true)?;

    let mut own = [a.another_qp()?, a.another_qp()?];
    let [first, second] = &mut own;
    connect(first, second)?;
    let sges = [a.mr.sge(0, 64)];
    crate::bench::post(first, 2, a.write_here(4096), WrData::Sges(&sges))?;
    a.wait_ok(2)?;
    drop((own, nowhere));
    Ok(())
}
