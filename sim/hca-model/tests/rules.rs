//! Rules of the checker that depend on time and counts, each from both sides: what is just allowed, and what is not.

use hca_model::{
    Checker, ConnectionSpec, EndSpec, Frame, PIPELINE_NS, Packet, Service, ack_timeout_ns, example_link,
    reply_link, rnr_wait_ns,
};
use hca_wire::{Framing, NakCode, Opcode, Psn, RnrTimer, Syndrome, aeth, reth};

const QPNS: [u32; 2] = [0x11, 0x22];
const TIMEOUT: u8 = 4;
const MTU: u32 = 256;

/// Two ends whose every packet arrives at once, unless it is lost.
struct Talk {
    checker: Checker,
    ns: u64,
}

impl Talk {
    fn new(change: impl FnOnce(&mut ConnectionSpec)) -> Self {
        let link = example_link();
        let ends = [(QPNS[0], link), (QPNS[1], reply_link(&link))];
        let mut spec = ConnectionSpec {
            service: Service::Rc,
            ends: ends.map(|(qpn, link)| EndSpec {
                qpn,
                link,
                sq_psn: Psn::new(0xff_ffff),
            }),
            mtu_bytes: MTU,
            timeout: TIMEOUT,
            retry_cnt: 2,
            rnr_retry: 2,
            max_rd_atomic: 2,
            pipeline_ns: PIPELINE_NS,
            selective: false,
            credits: [false; 2],
            drops_inside: true,
        };
        change(&mut spec);
        let mut checker = Checker::new(Framing::Ethernet);
        checker.connect(spec);
        Self { checker, ns: 0 }
    }

    /// A packet from an end; what the checker says to it.
    fn say(&mut self, from: usize, packet: Packet, lost: bool) -> Result<(), String> {
        let link = if from == 0 {
            example_link()
        } else {
            reply_link(&example_link())
        };
        let bytes = Frame { link, packet }.emit().unwrap();
        let said = self.checker.sent(self.ns, &bytes);
        if !lost {
            self.checker.arrived(self.ns, &bytes);
        }
        said.map_err(|violation| violation.rule)
    }

    #[track_caller]
    fn fine(&mut self, from: usize, packet: Packet) {
        assert_eq!(self.say(from, packet, false), Ok(()));
    }

    #[track_caller]
    fn lost(&mut self, from: usize, packet: Packet) {
        assert_eq!(self.say(from, packet, true), Ok(()));
    }

    #[track_caller]
    fn wrong(&mut self, from: usize, packet: Packet, word: &str) {
        let said = self.say(from, packet, false).unwrap_err();
        assert!(said.contains(word), "'{said}' says nothing of '{word}'");
    }
}

fn send(psn: u32) -> Packet {
    Packet {
        ack_req: true,
        payload: vec![1; 10].into(),
        ..Packet::new(Opcode::RcSendOnly, QPNS[1], Psn::new(psn))
    }
}

fn request(opcode: Opcode, psn: u32, va: u64, len: u32) -> Packet {
    let payload = if opcode == Opcode::RcWriteOnly {
        vec![2; len as usize]
    } else {
        Vec::new()
    };
    let mut packet = Packet {
        payload: payload.into(),
        ..Packet::new(opcode, QPNS[1], Psn::new(psn))
    };
    packet.ext.reth = Some(reth::Repr {
        va,
        rkey: 1,
        dma_len: len,
    });
    packet
}

/// A packet of a WRITE on a connection with selective repeat: it stands alone.
fn write_only(psn: u32) -> Packet {
    let va = 0x1000 + u64::from(MTU) * u64::from(psn);
    Packet {
        payload: vec![7; MTU as usize].into(),
        ..request(Opcode::RcWriteOnly, psn, va, MTU)
    }
}

fn answer(opcode: Opcode, psn: u32, syndrome: Syndrome, msn: u32, len: usize) -> Packet {
    let mut packet = Packet {
        payload: vec![3; len].into(),
        ..Packet::new(opcode, QPNS[0], Psn::new(psn))
    };
    let syndrome = syndrome.to_byte();
    packet.ext.aeth = opcode
        .operation()
        .unwrap()
        .has_aeth()
        .then_some(aeth::Repr { syndrome, msn });
    packet
}

fn ack(psn: u32, msn: u32) -> Packet {
    answer(
        Opcode::RcAcknowledge,
        psn,
        Syndrome::Ack { credit_code: 31 },
        msn,
        0,
    )
}

fn rnr(psn: u32, msn: u32) -> Packet {
    answer(
        Opcode::RcAcknowledge,
        psn,
        Syndrome::RnrNak(RnrTimer::new(5)),
        msn,
        0,
    )
}

fn data(opcode: Opcode, psn: u32, len: usize) -> Packet {
    answer(opcode, psn, Syndrome::Ack { credit_code: 31 }, 1, len)
}

/// All data of a READ of the first three PSNs.
#[track_caller]
fn answer_three(talk: &mut Talk) {
    for (opcode, psn) in [
        (Opcode::RcReadResponseFirst, 0xff_ffff),
        (Opcode::RcReadResponseMiddle, 0),
        (Opcode::RcReadResponseLast, 1),
    ] {
        talk.fine(1, data(opcode, psn, MTU as usize));
    }
}

/// REL-3, REL-6: not before the time is over, and not more often than `retry_cnt`.
#[test]
fn repetitions_wait_and_are_counted() {
    let limit = ack_timeout_ns(TIMEOUT).unwrap();
    let mut talk = Talk::new(|_| ());
    talk.lost(0, send(0xff_ffff));
    talk.ns = limit - 1;
    talk.wrong(0, send(0xff_ffff), "before a timeout");
    let mut talk = Talk::new(|_| ());
    talk.lost(0, send(0xff_ffff));
    talk.ns = limit;
    talk.lost(0, send(0xff_ffff));
    talk.ns += limit;
    talk.lost(0, send(0xff_ffff));
    talk.ns += limit;
    talk.wrong(0, send(0xff_ffff), "retry 3 of 2");
    // Progress gives all of them back (REL-5).
    let mut talk = Talk::new(|_| ());
    for psn in [0xff_ffff, 0] {
        talk.lost(0, send(psn));
        talk.ns += limit;
        talk.lost(0, send(psn));
        talk.ns += limit;
        talk.fine(0, send(psn));
        talk.fine(1, ack(psn, if psn == 0 { 2 } else { 1 }));
    }
}

/// REL-3: everything behind what is sent again is sent again, or has been answered.
#[test]
fn nothing_is_left_out_of_a_repetition() {
    let mut talk = Talk::new(|_| ());
    for psn in [0xff_ffff, 0, 1] {
        talk.lost(0, send(psn));
    }
    talk.ns = ack_timeout_ns(TIMEOUT).unwrap();
    talk.fine(0, send(0xff_ffff));
    talk.wrong(0, send(1), "has yet to be sent again");
    let mut talk = Talk::new(|_| ());
    for psn in [0xff_ffff, 0, 1] {
        talk.fine(0, send(psn));
    }
    talk.ns = ack_timeout_ns(TIMEOUT).unwrap();
    talk.fine(0, send(0xff_ffff));
    talk.fine(1, ack(0, 2));
    talk.fine(0, send(1));
}

/// REL-8, REL-11.
#[test]
fn rnr_waits_are_kept_and_counted() {
    let wait = rnr_wait_ns(RnrTimer::new(5));
    for (early, retries) in [(1, 1), (0, 2), (0, 3)] {
        let mut talk = Talk::new(|_| ());
        talk.fine(0, send(0xff_ffff));
        for retry in 1..=retries {
            talk.fine(1, rnr(0xff_ffff, 0));
            talk.ns += wait - early;
            match (early, retry) {
                (1, _) => talk.wrong(0, send(0xff_ffff), "before its RNR time is over"),
                (_, 3) => talk.wrong(0, send(0xff_ffff), "RNR retry 3 of 2"),
                _ => talk.fine(0, send(0xff_ffff)),
            }
        }
    }
}

/// REL-8: the answer to an older copy does not prolong the wait.
#[test]
fn a_second_rnr_nak_says_nothing_new() {
    let wait = rnr_wait_ns(RnrTimer::new(5));
    let mut talk = Talk::new(|_| ());
    talk.fine(0, send(0xff_ffff));
    talk.fine(1, rnr(0xff_ffff, 0));
    talk.ns = wait - 1;
    talk.fine(1, rnr(0xff_ffff, 0));
    talk.ns = wait;
    talk.fine(0, send(0xff_ffff));
}

/// REL-11: NAKs that said the same thing more often than it was acted on do not count against what waits for a receive.
#[test]
fn waits_for_receives_are_told_from_repetitions() {
    let wait = rnr_wait_ns(RnrTimer::new(5));
    let gap = || {
        let syndrome = Syndrome::Nak(NakCode::PsnSequence);
        answer(Opcode::RcAcknowledge, 0xff_ffff, syndrome, 0, 0)
    };
    let mut talk = Talk::new(|spec| spec.rnr_retry = 7);
    talk.lost(0, send(0xff_ffff));
    talk.fine(0, send(0));
    for _ in 0..6 {
        talk.fine(1, gap());
    }
    talk.fine(0, send(0xff_ffff));
    talk.fine(0, send(0));
    talk.fine(1, ack(0, 2));
    talk.fine(0, send(1));
    for _ in 0..5 {
        talk.fine(1, rnr(1, 2));
        talk.ns += wait;
        talk.fine(0, send(1));
    }
}

/// REL-8: what was made before the NAK came may wait long for a slow host, and still goes out; going back may not.
#[test]
fn a_pass_ends_behind_an_rnr_nak() {
    let mut talk = Talk::new(|_| ());
    for psn in [0xff_ffff, 0, 1] {
        talk.fine(0, send(psn));
    }
    talk.ns = ack_timeout_ns(TIMEOUT).unwrap();
    talk.fine(0, send(0xff_ffff));
    talk.fine(1, ack(0xff_ffff, 1));
    talk.fine(1, rnr(0, 1));
    talk.ns += 10_000;
    talk.fine(0, send(0));
    talk.fine(0, send(1));
    talk.wrong(0, send(0), "before its RNR time is over");
}

/// REL-8: only what needs a receive can lack one.
#[test]
fn a_write_needs_no_receive() {
    let mut talk = Talk::new(|_| ());
    talk.fine(0, request(Opcode::RcWriteOnly, 0xff_ffff, 0, 10));
    talk.wrong(1, rnr(0xff_ffff, 0), "needs no receive");
}

/// D14, OP-5: of a READ that is asked for again, what is left.
#[test]
fn a_read_is_asked_for_again_from_the_right_place() {
    for (va, len, right) in [
        (0x1000 + u64::from(MTU), 2 * MTU, true),
        (0x1000, 2 * MTU, false),
        (0x1000 + u64::from(MTU), 3 * MTU, false),
    ] {
        let mut talk = Talk::new(|_| ());
        talk.fine(0, request(Opcode::RcReadRequest, 0xff_ffff, 0x1000, 3 * MTU));
        talk.fine(1, data(Opcode::RcReadResponseFirst, 0xff_ffff, MTU as usize));
        talk.ns = ack_timeout_ns(TIMEOUT).unwrap();
        let again = request(Opcode::RcReadRequest, 0, va, len);
        if right {
            talk.fine(0, again);
        } else {
            talk.wrong(0, again, "another packet");
        }
    }
}

/// Selective: of a READ that comes again with less in it, both are answered, each with what it asked for.
#[test]
fn a_read_is_answered_in_full_behind_its_hole() {
    let mut talk = Talk::new(|spec| spec.selective = true);
    let len = MTU as usize;
    talk.fine(0, request(Opcode::RcReadRequest, 0xff_ffff, 0x1000, 3 * MTU));
    talk.ns = ack_timeout_ns(TIMEOUT).unwrap();
    talk.fine(0, request(Opcode::RcReadRequest, 0xff_ffff, 0x1000, MTU));
    talk.fine(1, data(Opcode::RcReadResponseFirst, 0xff_ffff, len));
    talk.fine(1, data(Opcode::RcReadResponseMiddle, 0, len));
    talk.fine(1, data(Opcode::RcReadResponseLast, 1, len));
    talk.fine(1, data(Opcode::RcReadResponseOnly, 0xff_ffff, len));
    talk.fine(1, data(Opcode::RcReadResponseFirst, 0xff_ffff, len));
    talk.wrong(1, data(Opcode::RcReadResponseLast, 0, len), "bytes instead of");
}

/// Selective: the answer of an ATOMIC WRITE looks like READ data, and behind a gap nobody keeps it.
#[test]
fn only_read_data_is_kept_behind_a_gap() {
    let mut talk = Talk::new(|spec| spec.selective = true);
    let read = |psn| request(Opcode::RcReadRequest, psn, 0x1000, MTU);
    let store = Packet {
        payload: vec![4; 8].into(),
        ..request(Opcode::RcAtomicWrite, 0, 0x2000, 8)
    };
    let only = |psn, len| data(Opcode::RcReadResponseOnly, psn, len);
    talk.fine(0, read(0xff_ffff));
    talk.fine(0, store);
    talk.lost(1, only(0xff_ffff, MTU as usize));
    talk.fine(1, only(0, 0));
    talk.fine(0, read(0xff_ffff));
    talk.fine(1, only(0xff_ffff, MTU as usize));
    talk.fine(0, read(1));
    talk.wrong(0, read(2), "3 READs and atomics outstanding of 2");
}

/// Selective: data behind a gap says, too, that what is in front of the READ is there.
#[test]
fn what_is_in_front_of_a_gap_is_answered_by_what_is_behind_it() {
    let mut talk = Talk::new(|spec| spec.selective = true);
    let len = MTU as usize;
    talk.fine(0, send(0xff_ffff));
    talk.fine(0, request(Opcode::RcReadRequest, 0, 0x1000, 3 * MTU));
    talk.lost(1, data(Opcode::RcReadResponseFirst, 0, len));
    talk.fine(1, data(Opcode::RcReadResponseMiddle, 1, len));
    talk.fine(1, data(Opcode::RcReadResponseLast, 2, len));
    talk.fine(0, request(Opcode::RcReadRequest, 0, 0x1000, MTU));
    talk.fine(1, data(Opcode::RcReadResponseOnly, 0, len));
    // All of the first one is there: two more may be under way.
    for psn in [3, 4] {
        talk.fine(0, request(Opcode::RcReadRequest, psn, 0x1000, MTU));
    }
    talk.wrong(
        0,
        request(Opcode::RcReadRequest, 5, 0x1000, MTU),
        "3 READs and atomics outstanding of 2",
    );
}

/// Where ports drop nothing, data that has arrived is there; where the wire makes copies on InfiniBand, it need not be.
#[test]
fn what_a_port_may_drop_is_asked_for_again() {
    for drops_inside in [true, false] {
        let mut talk = Talk::new(|spec| spec.drops_inside = drops_inside);
        let read = request(Opcode::RcReadRequest, 0xff_ffff, 0x1000, MTU);
        talk.fine(0, read.clone());
        talk.fine(1, data(Opcode::RcReadResponseOnly, 0xff_ffff, MTU as usize));
        if drops_inside {
            talk.fine(0, read);
        } else {
            talk.wrong(0, read, "without a NAK");
        }
    }
}

/// Selective: data that a port may have dropped is asked for as often as it takes.
#[test]
fn holes_of_dropped_data_cost_no_retry() {
    let mut talk = Talk::new(|spec| spec.selective = true);
    talk.fine(0, request(Opcode::RcReadRequest, 0xff_ffff, 0x1000, 3 * MTU));
    answer_three(&mut talk);
    for _ in 0..9 {
        talk.fine(0, request(Opcode::RcReadRequest, 0, 0x1000 + u64::from(MTU), MTU));
    }
}

/// Selective: where a pass was when the first hole came is remembered, however many others are asked for.
#[test]
fn a_pass_goes_on_behind_any_number_of_holes() {
    let mut talk = Talk::new(|spec| spec.selective = true);
    talk.fine(0, request(Opcode::RcReadRequest, 0xff_ffff, 0x1000, 3 * MTU));
    talk.fine(0, write_only(2));
    answer_three(&mut talk);
    for _ in 0..40 {
        talk.fine(0, request(Opcode::RcReadRequest, 0, 0x1000 + u64::from(MTU), MTU));
    }
    talk.fine(0, write_only(3));
}

/// Selective: a pass goes on from where it was, though the hole that came in between reached further.
#[test]
fn a_pass_goes_on_behind_a_hole_that_reached_further() {
    let mut talk = Talk::new(|spec| spec.selective = true);
    for psn in [0xff_ffff, 0, 1, 2, 3] {
        talk.fine(0, write_only(psn));
    }
    // All of them again, and in its middle two packets are named.
    talk.fine(
        1,
        answer(
            Opcode::RcAcknowledge,
            0xff_ffff,
            Syndrome::Nak(NakCode::PsnSequence),
            0,
            0,
        ),
    );
    for psn in [0xff_ffff, 0, 1] {
        talk.fine(0, write_only(psn));
    }
    let named = 2 << 16 | 3;
    talk.fine(
        1,
        answer(Opcode::RcAcknowledge, 1, Syndrome::Reserved(0x68), named, 0),
    );
    for psn in [1, 2, 2, 3] {
        talk.fine(0, write_only(psn));
    }
    talk.wrong(0, write_only(2), "without a NAK");
}

/// Selective: a hole may begin where a pass has gone on before, and then it goes on again from where it was.
#[test]
fn a_hole_begins_where_a_pass_went_on() {
    let mut talk = Talk::new(|spec| spec.selective = true);
    let names = |psn: u32| {
        let word = 1 << 16 | (psn + 1);
        answer(Opcode::RcAcknowledge, psn, Syndrome::Reserved(0x68), word, 0)
    };
    for psn in [0xff_ffff, 0, 1, 2, 3] {
        talk.fine(0, write_only(psn));
    }
    talk.fine(1, names(0));
    for psn in [0, 4, 5] {
        talk.fine(0, write_only(psn));
    }
    talk.fine(1, names(4));
    for psn in [4, 6] {
        talk.fine(0, write_only(psn));
    }
}

/// A notification of congestion has a PSN that says nothing.
#[test]
fn notifications_are_no_requests() {
    let mut talk = Talk::new(|_| ());
    for qp in QPNS {
        let notification = Packet {
            payload: vec![0; 16].into(),
            ..Packet::new(Opcode::Cnp, qp, Psn::new(0))
        };
        talk.fine(usize::from(qp == QPNS[0]), notification);
    }
    talk.fine(0, send(0xff_ffff));
}

/// REL-19, IBA vol1 9.7.5.1.2: a READ that is asked for twice takes nothing away from the one in front.
#[test]
fn data_in_front_is_not_given_up() {
    for again in [false, true] {
        let mut talk = Talk::new(|_| ());
        talk.fine(0, request(Opcode::RcReadRequest, 0xff_ffff, 0x1000, 3 * MTU));
        talk.fine(0, request(Opcode::RcReadRequest, 2, 0x9000, 10));
        talk.fine(1, data(Opcode::RcReadResponseFirst, 0xff_ffff, MTU as usize));
        if again {
            talk.ns = ack_timeout_ns(TIMEOUT).unwrap();
            let rest = (0x1000 + u64::from(MTU), 2 * MTU);
            talk.fine(0, request(Opcode::RcReadRequest, 0, rest.0, rest.1));
            talk.fine(0, request(Opcode::RcReadRequest, 2, 0x9000, 10));
        }
        talk.wrong(1, data(Opcode::RcReadResponseOnly, 2, 10), "overtakes");
    }
}

/// XPORT-2: on UC nobody answers; REL-4: on RC nobody answers what has not come.
#[test]
fn answers_need_a_question() {
    let mut talk = Talk::new(|spec| spec.service = Service::Uc);
    talk.wrong(1, ack(0xff_ffff, 1), "unreliable");
    let mut talk = Talk::new(|_| ());
    talk.lost(0, send(0xff_ffff));
    talk.wrong(1, ack(0xff_ffff, 1), "no request has arrived");
}

/// REL-12, QPS-13: a NAK that ends the QP is the last word of both.
#[test]
fn nothing_follows_a_fatal_nak() {
    let last = Syndrome::Nak(hca_wire::NakCode::RemoteAccess);
    for from in [0, 1] {
        let mut talk = Talk::new(|_| ());
        talk.fine(0, send(0xff_ffff));
        talk.fine(1, answer(Opcode::RcAcknowledge, 0xff_ffff, last, 0, 0));
        // What was on its way.
        talk.ns += PIPELINE_NS;
        talk.fine(0, send(0));
        talk.ns += 1;
        let late = if from == 0 { send(1) } else { ack(0xff_ffff, 1) };
        talk.wrong(from, late, "has ended the QP");
    }
}

/// Packets that wait for their payload behind a slow host leave as long as there may be some: a card with one PCIe tag
/// needed 6 us for two of them.
#[test]
fn a_slow_host_keeps_what_was_on_its_way() {
    let last = Syndrome::Nak(hca_wire::NakCode::RemoteAccess);
    const SLOW_NS: u64 = 100_000;
    let mut talk = Talk::new(|spec| spec.pipeline_ns = SLOW_NS);
    talk.fine(0, send(0xff_ffff));
    talk.fine(1, answer(Opcode::RcAcknowledge, 0xff_ffff, last, 0, 0));
    talk.ns += SLOW_NS;
    talk.fine(0, send(0));
    talk.ns += 1;
    talk.wrong(0, send(1), "has ended the QP");
}

/// Decision 0068, IBA vol1 9.7.7.2: a message that needs a receive has one that was told of, or begins alone and asks
/// for an answer; what needs none goes; 31 ends all limits, and nobody is held to what he has not agreed to.
#[test]
fn messages_wait_for_credits() {
    const FULL: usize = MTU as usize;
    let told = |psn, msn, credit_code| {
        let syndrome = Syndrome::Ack { credit_code };
        answer(Opcode::RcAcknowledge, psn, syndrome, msn, 0)
    };
    let part = |opcode, psn, ack_req, len| Packet {
        ack_req,
        payload: vec![1; len].into(),
        ..Packet::new(opcode, QPNS[1], Psn::new(psn))
    };
    let talk = || Talk::new(|spec| spec.credits = [true, false]);
    // Nobody knows of a receive: one message, then none; a WRITE is no such message.
    let mut first = talk();
    first.fine(0, send(0xff_ffff));
    first.fine(0, request(Opcode::RcWriteOnly, 0, 0, 8));
    first.wrong(0, send(1), "message 3 though there are receives for 0");
    let mut first = talk();
    let asks_not = part(Opcode::RcSendOnly, 0xff_ffff, false, 8);
    first.wrong(0, asks_not, "asks for no answer");
    // Code 3: three more behind the first one, and again no more.
    let mut some = talk();
    some.fine(0, send(0xff_ffff));
    some.fine(1, told(0xff_ffff, 1, 3));
    (0..3).for_each(|psn| some.fine(0, send(psn)));
    some.wrong(0, send(3), "message 5 though there are receives for 4");
    // What was told is not taken back.
    let mut some = talk();
    some.fine(0, send(0xff_ffff));
    some.fine(1, told(0xff_ffff, 1, 3));
    some.fine(0, send(0));
    some.fine(1, told(0, 2, 0));
    (1..3).for_each(|psn| some.fine(0, send(psn)));
    some.wrong(0, send(3), "message 5 though there are receives for 4");
    // The rest of a message that began without one waits for an answer.
    let mut long = talk();
    long.fine(0, part(Opcode::RcSendFirst, 0xff_ffff, true, FULL));
    let rest = part(Opcode::RcSendMiddle, 0, false, FULL);
    long.wrong(0, rest.clone(), "message 1 goes on without a credit");
    let mut long = talk();
    long.fine(0, part(Opcode::RcSendFirst, 0xff_ffff, true, FULL));
    long.fine(1, told(0xff_ffff, 0, 0));
    long.fine(0, rest);
    // No limit: told so, and never agreed to.
    let mut free = talk();
    free.fine(0, send(0xff_ffff));
    free.fine(1, ack(0xff_ffff, 1));
    (0..9).for_each(|psn| free.fine(0, send(psn)));
    let mut other = Talk::new(|_| ());
    other.fine(0, send(0xff_ffff));
    (0..9).for_each(|psn| other.fine(0, send(psn)));
}
