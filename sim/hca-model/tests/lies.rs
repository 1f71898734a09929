//! The checker notices each kind of broken rule, at the first packet that breaks it. In each case two models talk, and
//! one packet of one of them is changed before it leaves.

mod common;

use common::{Faults, Pair, QPNS};
use hca_model::{Access, Frame, Op, RecvRequest, SendRequest, Service, Sge, example_link};
use hca_wire::{Framing, NakCode, Opcode, Psn, Syndrome};

const LEN: usize = 5_000;

/// Connects, posts one message of each kind from node 0, lets `lie` change packets, and returns the verdict.
fn verdict(
    service: Service,
    lose: Option<usize>,
    mut lie: impl FnMut(usize, &mut Frame) + 'static,
) -> String {
    let mut pair = Pair::new(1, Faults::default());
    pair.connect(example_link(), |_, config| {
        config.service = service;
        config.max_rd_atomic = 2;
        config.max_dest_rd_atomic = 2;
    });
    let here = pair.models[0].register(0, 0, vec![1; 1 << 16], Access::ALL);
    let there = pair.models[1].register(0, 0, vec![2; 1 << 16], Access::ALL);
    let place = |key, index: u64| Sge::new(key, 6_000 * index, LEN as u32);
    let write = |imm| Op::Write {
        va: 0,
        rkey: there,
        imm,
    };
    let read = |index: u64| Op::Read {
        va: 6_000 * index,
        rkey: there,
    };
    let mut ops = vec![Op::SEND, write(None), write(Some(1))];
    if service == Service::Rc {
        ops.extend([read(1), Op::SEND, read(2), read(3), write(None)]);
    }
    for (index, op) in (0..).zip(ops) {
        let receive = RecvRequest::new(index, vec![place(there, 4)]);
        pair.models[1].post_recv(QPNS[1], receive).unwrap();
        let request = SendRequest::new(index, op, vec![place(here, index)]);
        pair.models[0].post_send(QPNS[0], request).unwrap();
    }
    let mut number = 0;
    pair.lie = Some(Box::new(move |from, bytes| {
        let mut frame = Frame::parse(Framing::Ethernet, bytes).unwrap();
        lie(from, &mut frame);
        *bytes = frame.emit().unwrap();
    }));
    pair.drop_packet = Some(Box::new(move |_| {
        number += 1;
        lose == Some(number)
    }));
    pair.run(20_000);
    pair.violation.map(|violation| violation.rule).unwrap_or_default()
}

#[track_caller]
fn caught(word: &str, lie: impl FnMut(usize, &mut Frame) + 'static) {
    let found = verdict(Service::Rc, None, lie);
    assert!(found.contains(word), "'{found}' says nothing of '{word}'");
}

/// Changes the first packet with an opcode, once.
fn once(
    opcode: Opcode,
    skip: usize,
    mut change: impl FnMut(&mut Frame) + 'static,
) -> impl FnMut(usize, &mut Frame) + 'static {
    let mut seen = 0;
    move |_, frame| {
        if frame.packet.opcode == opcode {
            seen += 1;
            if seen == skip + 1 {
                change(frame);
            }
        }
    }
}

fn set_aeth(frame: &mut Frame, change: impl FnOnce(&mut hca_wire::aeth::Repr)) {
    frame.packet.ext.aeth.as_mut().map(change).unwrap();
}

#[test]
fn nothing_is_found_where_nobody_lies() {
    for service in [Service::Rc, Service::Uc] {
        assert_eq!(verdict(service, None, |_, _| ()), "");
    }
    for lost in 1..60 {
        assert_eq!(
            verdict(Service::Rc, Some(lost), |_, _| ()),
            "",
            "packet {lost} lost"
        );
    }
}

/// WIRE-21, REL-2.
#[test]
fn a_psn_that_is_skipped() {
    caught(
        "is the next one",
        once(Opcode::RcSendMiddle, 0, |frame| {
            frame.packet.psn = frame.packet.psn.wrapping_add(1);
        }),
    );
}

/// WIRE-13, SYS-9.
#[test]
fn a_message_that_is_torn() {
    caught(
        "torn",
        once(Opcode::RcSendMiddle, 1, |frame| {
            frame.packet.opcode = Opcode::RcWriteMiddle
        }),
    );
    caught(
        "bytes",
        once(Opcode::RcSendMiddle, 1, |frame| frame.packet.payload.truncate(99)),
    );
    caught(
        "RETH",
        once(Opcode::RcWriteFirst, 0, |frame| {
            frame.packet.ext.reth.as_mut().unwrap().dma_len += 1;
        }),
    );
    caught(
        "of no message",
        once(Opcode::RcSendFirst, 0, |frame| {
            frame.packet.opcode = Opcode::RcSendMiddle
        }),
    );
}

/// REL-1, X-3.
#[test]
fn an_acknowledge_of_what_has_not_arrived() {
    caught(
        "has not arrived",
        once(Opcode::RcAcknowledge, 1, |frame| {
            frame.packet.psn = frame.packet.psn.wrapping_add(40);
        }),
    );
    caught(
        "after it had expected",
        once(Opcode::RcAcknowledge, 2, |frame| {
            frame.packet.psn = frame.packet.psn.wrapping_sub(30);
        }),
    );
    caught(
        "MSN",
        once(Opcode::RcAcknowledge, 1, |frame| {
            set_aeth(frame, |aeth| aeth.msn += 1)
        }),
    );
}

/// REL-16, REL-8.
#[test]
fn a_nak_without_a_reason() {
    let nak = |syndrome: Syndrome| {
        once(Opcode::RcAcknowledge, 1, move |frame| {
            set_aeth(frame, |aeth| aeth.syndrome = syndrome.to_byte());
        })
    };
    caught(
        "nothing behind it",
        once(Opcode::RcAcknowledge, 4, |frame| {
            frame.packet.psn = frame.packet.psn.wrapping_add(1);
            set_aeth(frame, |aeth| {
                aeth.syndrome = Syndrome::Nak(NakCode::PsnSequence).to_byte()
            });
        }),
    );
    caught("syndrome", nak(Syndrome::Reserved(0x45)));
    caught("after the NAK", {
        let mut done = false;
        move |from, frame: &mut Frame| {
            if from == 1 && !done && frame.packet.opcode == Opcode::RcAcknowledge {
                done = true;
                // Of another partition: its receiver does not hear it, and goes on.
                frame.packet.pkey = 0x8001;
                set_aeth(frame, |aeth| {
                    aeth.syndrome = Syndrome::Nak(NakCode::RemoteAccess).to_byte()
                });
            }
        }
    });
}

/// IBA vol1 9.7.5: data comes where it was asked for, whole and in order.
#[test]
fn data_that_nobody_asked_for() {
    caught(
        "no READ that has arrived",
        once(Opcode::RcAcknowledge, 1, |frame| {
            frame.packet.opcode = Opcode::RcReadResponseOnly;
        }),
    );
    caught(
        "continues nothing",
        once(Opcode::RcReadResponseMiddle, 0, |frame| {
            frame.packet.psn = frame.packet.psn.wrapping_add(1);
        }),
    );
    caught(
        "bytes instead of",
        once(Opcode::RcReadResponseLast, 0, |frame| {
            frame.packet.payload.truncate(99)
        }),
    );
    caught(
        "MSN",
        once(Opcode::RcReadResponseFirst, 0, |frame| {
            set_aeth(frame, |aeth| aeth.msn += 9)
        }),
    );
}

/// An acknowledge in front of a READ's data.
#[test]
fn an_answer_that_overtakes() {
    caught("overtakes", {
        let mut done = false;
        move |_, frame: &mut Frame| {
            if !done && frame.packet.opcode == Opcode::RcReadResponseFirst {
                done = true;
                let psn = frame.packet.psn.wrapping_add(4);
                frame.packet.opcode = Opcode::RcAcknowledge;
                (frame.packet.psn, frame.packet.payload) = (psn, Vec::new().into());
            }
        }
    });
}

/// OP-23: the model has been told of four where the connection allows two.
#[test]
fn too_many_reads() {
    let mut pair = Pair::new(1, Faults::default());
    pair.connect(example_link(), |_, config| config.max_rd_atomic = 2);
    // Built anew, without the limit.
    let link = example_link();
    pair.models[0] = hca_model::Model::new();
    pair.models[0]
        .create_qp(hca_model::QpConfig::rc(QPNS[0], QPNS[1], link))
        .unwrap();
    let here = pair.models[0].register(0, 0, vec![1; LEN], Access::ALL);
    let there = pair.models[1].register(0, 0, vec![2; LEN], Access::ALL);
    for wr_id in 0..4 {
        let op = Op::Read { va: 0, rkey: there };
        let request = SendRequest::new(wr_id, op, vec![Sge::new(here, 0, LEN as u32)]);
        pair.models[0].post_send(QPNS[0], request).unwrap();
    }
    pair.run(1_000);
    assert!(
        pair.violation
            .unwrap()
            .rule
            .contains("3 READs and atomics outstanding of 2")
    );
}

/// REL-3, D14: what comes again is what was there before, and for a reason.
#[test]
fn a_repetition_that_is_none() {
    let changed = verdict(Service::Rc, Some(3), {
        let mut seen = std::collections::BTreeSet::new();
        move |from, frame: &mut Frame| {
            let is_send = frame.packet.opcode == Opcode::RcSendMiddle;
            if from == 0 && is_send && !seen.insert(frame.packet.psn.get()) {
                frame.packet.payload[0] ^= 1;
            }
        }
    });
    assert!(changed.contains("another packet than before"), "{changed}");
    caught(
        "without a NAK",
        once(Opcode::RcWriteMiddle, 0, |frame| frame.packet.psn = Psn::new(0)),
    );
}

/// REL-17, XPORT-2: nothing is sent twice, and nobody answers.
#[test]
fn an_unreliable_connection_that_repeats_or_answers() {
    let again = verdict(
        Service::Uc,
        None,
        once(Opcode::UcSendMiddle, 1, |frame| {
            frame.packet.psn = frame.packet.psn.wrapping_sub(1);
        }),
    );
    assert!(again.contains("nothing is sent twice"), "{again}");
}
