//! Opcodes, PSNs, AETH syndromes and RNR timers.

use hca_wire::*;

#[test]
fn psn_wraps_modulo_2_24_x_4() {
    assert_eq!(Psn::MAX.wrapping_add(1), Psn::new(0));
    assert_eq!(Psn::new(0).wrapping_sub(1), Psn::MAX);
    assert_eq!(Psn::new(0x01ff_ffff), Psn::MAX);
    assert!(Psn::MAX.is_before(Psn::new(0)));
    assert!(Psn::new(0).is_after(Psn::MAX));
    assert!(!Psn::new(5).is_before(Psn::new(5)) && !Psn::new(5).is_after(Psn::new(5)));
    assert_eq!(Psn::new(3).distance_from(Psn::MAX), 4);
    assert_eq!(Psn::MAX.distance_from(Psn::new(3)), -4);
}

#[test]
fn psn_half_window() {
    let origin = Psn::new(0xff_fff0);
    let half = 1 << 23;
    assert!(origin.wrapping_add(half - 1).is_after(origin));
    assert!(origin.wrapping_add(half).is_before(origin));
    assert_eq!(origin.wrapping_add(half).distance_from(origin), -(half as i32));
    assert_eq!(
        origin.wrapping_add(half - 1).distance_from(origin),
        half as i32 - 1
    );
}

#[test]
fn opcode_services_x_2() {
    let of = |byte| Opcode::try_from(byte).map(|opcode| (opcode.service(), opcode.operation()));
    assert_eq!(of(0x04), Ok((Service::Rc, Some(Operation::SendOnly))));
    assert_eq!(of(0x2b), Ok((Service::Uc, Some(Operation::WriteOnlyImm))));
    assert_eq!(of(0x55), Ok((Service::Rd, Some(Operation::Resync))));
    assert_eq!(of(0x64), Ok((Service::Ud, Some(Operation::SendOnly))));
    assert_eq!(of(0x81), Ok((Service::Cnp, None)));
    assert_eq!(of(0xb4), Ok((Service::Xrc, Some(Operation::FetchAdd))));
    assert_eq!(of(0xd3), Ok((Service::Rc, Some(Operation::MaskedCmpSwap))));
    assert_eq!(of(0xf4), Ok((Service::Xrc, Some(Operation::MaskedFetchAdd))));
    for byte in [
        0x15, 0x18, 0x1b, 0x1e, 0x2c, 0x36, 0x3d, 0x56, 0x5d, 0x60, 0x63, 0x66, 0x7d, 0x80, 0xb5, 0xb8, 0xc0,
        0xd2, 0xd5, 0xf2, 0xff,
    ] {
        assert_eq!(of(byte), Err(WireError::UnknownOpcode(byte)));
    }
    for &opcode in Opcode::ALL {
        assert_eq!(Opcode::try_from(opcode as u8), Ok(opcode));
        let same = opcode
            .operation()
            .map(|operation| Opcode::of(opcode.service(), operation));
        assert!(opcode == Opcode::Cnp || same == Some(Some(opcode)), "{opcode}");
        let classes = [
            opcode.is_first(),
            opcode.is_middle(),
            opcode.is_last(),
            opcode.is_only(),
        ];
        let expected = usize::from(opcode != Opcode::Cnp);
        assert_eq!(classes.iter().filter(|&&yes| yes).count(), expected, "{opcode}");
    }
    assert_eq!(Opcode::ALL.len(), 25 + 12 + 22 + 2 + 1 + 25 + 4);
}

/// Extended headers as IBA vol1 table 38 and annex A14 list them.
#[test]
fn opcode_headers() {
    use ExtHeader::*;
    let table: &[(Opcode, &[ExtHeader])] = &[
        (Opcode::RcSendOnly, &[]),
        (Opcode::RcSendLastImm, &[ImmDt]),
        (Opcode::RcSendLastInv, &[Ieth]),
        (Opcode::RcWriteFirst, &[Reth]),
        (Opcode::RcWriteMiddle, &[]),
        (Opcode::RcWriteLastImm, &[ImmDt]),
        (Opcode::RcWriteOnlyImm, &[Reth, ImmDt]),
        (Opcode::RcReadRequest, &[Reth]),
        (Opcode::RcReadResponseFirst, &[Aeth]),
        (Opcode::RcReadResponseMiddle, &[]),
        (Opcode::RcReadResponseLast, &[Aeth]),
        (Opcode::RcReadResponseOnly, &[Aeth]),
        (Opcode::RcAcknowledge, &[Aeth]),
        (Opcode::RcAtomicAcknowledge, &[Aeth, AtomicAckEth]),
        (Opcode::RcCmpSwap, &[AtomicEth]),
        (Opcode::RcAtomicWrite, &[Reth]),
        (Opcode::XrcAtomicWrite, &[Xrceth, Reth]),
        (Opcode::RcFlush, &[Feth, Reth]),
        (Opcode::XrcFlush, &[Xrceth, Feth, Reth]),
        (Opcode::UcWriteOnly, &[Reth]),
        (Opcode::RdSendOnlyImm, &[Rdeth, Deth, ImmDt]),
        (Opcode::RdWriteOnlyImm, &[Rdeth, Deth, Reth, ImmDt]),
        (Opcode::RdReadRequest, &[Rdeth, Deth, Reth]),
        (Opcode::RdReadResponseFirst, &[Rdeth, Aeth]),
        (Opcode::RdReadResponseMiddle, &[Rdeth]),
        (Opcode::RdAtomicAcknowledge, &[Rdeth, Aeth, AtomicAckEth]),
        (Opcode::RdFetchAdd, &[Rdeth, Deth, AtomicEth]),
        (Opcode::RdResync, &[Rdeth, Deth]),
        (Opcode::UdSendOnly, &[Deth]),
        (Opcode::UdSendOnlyImm, &[Deth, ImmDt]),
        (Opcode::XrcSendFirst, &[Xrceth]),
        (Opcode::XrcSendOnlyInv, &[Xrceth, Ieth]),
        (Opcode::XrcWriteOnlyImm, &[Xrceth, Reth, ImmDt]),
        (Opcode::XrcReadResponseOnly, &[Aeth]),
        (Opcode::XrcCmpSwap, &[Xrceth, AtomicEth]),
        (Opcode::RcMaskedFetchAdd, &[AtomicEth]),
        (Opcode::XrcMaskedCmpSwap, &[Xrceth, AtomicEth]),
        (Opcode::Cnp, &[]),
    ];
    for (opcode, expected) in table {
        let found: Vec<_> = ExtHeader::ALL
            .into_iter()
            .filter(|&header| opcode.has(header))
            .collect();
        assert_eq!(&found, expected, "{opcode}");
    }
}

#[test]
fn opcode_directions() {
    assert!(Opcode::RcReadRequest.is_request() && !Opcode::RcReadRequest.has_payload());
    assert!(Opcode::RcReadResponseMiddle.is_response());
    assert!(!Opcode::Cnp.is_request() && !Opcode::Cnp.is_response());
    assert!(Opcode::RcMaskedCmpSwap.has_payload() && !Opcode::RcMaskedFetchAdd.has_payload());
    assert!(!Opcode::RcAcknowledge.has_payload() && !Opcode::RdResync.has_payload());
    assert_eq!(
        Opcode::UcWriteLastImm.to_string(),
        "UC RDMA WRITE Last with Immediate"
    );
}

#[test]
fn syndrome_x_3() {
    assert_eq!(Syndrome::from_byte(0x1f), Syndrome::Ack { credit_code: 31 });
    assert_eq!(Syndrome::from_byte(0x60), Syndrome::Nak(NakCode::PsnSequence));
    assert_eq!(Syndrome::from_byte(0x62), Syndrome::Nak(NakCode::RemoteAccess));
    assert_eq!(
        Syndrome::from_byte(0x64),
        Syndrome::Nak(NakCode::InvalidRdRequest)
    );
    assert_eq!(Syndrome::from_byte(0x65), Syndrome::Reserved(0x65));
    assert_eq!(Syndrome::from_byte(0x40), Syndrome::Reserved(0x40));
    assert_eq!(Syndrome::from_byte(0x2c), Syndrome::RnrNak(RnrTimer::new(12)));
    for byte in 0..0x80 {
        assert_eq!(Syndrome::from_byte(byte).to_byte(), byte);
    }
    let counts: Vec<_> = (0..8).map(Syndrome::credit_count).collect();
    assert_eq!(counts, [0, 1, 2, 3, 4, 6, 8, 12].map(Some));
    assert_eq!(Syndrome::credit_count(29), Some(24_576));
    assert_eq!(Syndrome::credit_count(30), Some(32_768));
    assert_eq!(Syndrome::credit_count(31), None);
    for code in 0..31 {
        let count = Syndrome::credit_count(code).unwrap();
        assert_eq!(Syndrome::credit_code(count), code);
        assert_eq!(
            Syndrome::credit_code(count + 1),
            if code < 4 { code + 1 } else { code }
        );
    }
    assert_eq!(Syndrome::credit_code(u32::MAX), 30);
}

#[test]
fn rnr_timer_rel_11() {
    assert_eq!(RnrTimer::new(0).time_us(), 655_360);
    assert_eq!(RnrTimer::new(1).time_us(), 10);
    assert_eq!(RnrTimer::new(12).time_us(), 640);
    assert_eq!(RnrTimer::new(31).time_us(), 491_520);
    // From code 6 on the time doubles every second code.
    for code in 6..30 {
        assert_eq!(
            RnrTimer::new(code + 2).time_us(),
            2 * RnrTimer::new(code).time_us()
        );
    }
}
