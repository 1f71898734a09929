//! Both models: seeds, waveforms.

use hca_models as _;
use hca_vsim::{Check, Dut, Model, PartChanged};

fn run(dut: &mut Dut, cycles: u64) {
    for cycle in 0..cycles {
        dut.ports().rst_i.set(u8::from(cycle < 4));
        dut.ports().now_i.set(cycle);
        for clk in [0, 1] {
            dut.ports().clk_i.set(clk);
            assert!(dut.eval());
            dut.trace_dump(cycle * 4000 + u64::from(clk) * 2000);
        }
    }
}

#[test]
fn a_waveform_can_be_written_once() {
    let path = std::env::temp_dir().join(format!("hca-vsim-{}.fst", std::process::id()));
    let mut dut = Dut::new(Model::Probe, 1).unwrap();
    if let Err(error) = dut.trace_open(&path) {
        assert!(error.to_string().contains("HCA_VSIM_TRACE"), "{error}");
        return;
    }
    assert!(dut.trace_open(&path).is_err());
    run(&mut dut, 20);
    dut.trace_close().unwrap();
    assert!(std::fs::metadata(&path).unwrap().len() > 100);
    std::fs::remove_file(&path).unwrap();
    assert!(
        Dut::new(Model::Probe, 1)
            .unwrap()
            .trace_open("/nonexistent/folder/x.fst".as_ref())
            .is_err()
    );
}

#[test]
fn uninitialised_state_follows_the_seed() {
    let answer = |seed| {
        let mut dut = Dut::new(Model::Probe, seed).unwrap();
        run(&mut dut, 6);
        // Not reset: the word for firmware.
        dut.ports().fw_req_i.set(1);
        run(&mut dut, 6);
        dut.ports().fw_rdata_o.get()
    };
    assert_eq!(answer(1 << 40), answer(1 << 40));
    assert!((1..8).any(|seed| answer(seed) != answer(seed + 1)));
}

#[test]
fn instances_are_independent_and_may_move_between_threads() {
    let threads = [1, 2].map(|seed| {
        let mut dut = Dut::new(Model::Probe, seed).unwrap();
        std::thread::spawn(move || {
            run(&mut dut, 100);
            dut.ports().hrd_req_valid_o.get()
        })
    });
    assert_eq!(threads.map(|thread| thread.join().unwrap()), [0, 0]);
}

/// The sweep after reset, and something after it.
const CYCLES: u64 = 30_000;

/// What can be seen of a card, payloads where they are valid.
fn seen(dut: &Dut) -> Vec<u64> {
    let ports = dut.ports();
    let mut seen = vec![
        ports.fw_irq_o.get().into(),
        ports.fw_req_stall_o.get().into(),
        ports.fw_wr_ack_o.get().into(),
        ports.hwr_valid_o.get().into(),
        ports.link_active_o.get().into(),
        ports.timer_active_o.get().into(),
        ports.trace_strobe_o.get().into(),
        ports.mmio_wr_ready_o.get().into(),
    ];
    if ports.fw_rd_ack_o.get() != 0 {
        seen.push(ports.fw_rdata_o.get().into());
    }
    if ports.mmio_rdata_valid_o.get() != 0 {
        seen.push(ports.mmio_rdata_o.get().into());
    }
    if ports.hrd_req_valid_o.get() != 0 {
        seen.extend([ports.hrd_req_addr_o.get(), ports.hrd_req_tag_o.get().into()]);
    }
    if ports.mac_tx_valid_o.get() != 0 {
        seen.extend(ports.mac_tx_data_o.get().map(u64::from));
    }
    seen
}

/// Firmware and host at work on any register, with pauses, in both cards alike.
fn drive(dut: &Dut, cycle: u64) {
    let mut draw = cycle.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    draw = (draw ^ (draw >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let works = cycle / 200 % 3 != 2;
    draw = if works { draw ^ (draw >> 32) } else { 0 };
    let ports = dut.ports();
    ports.rst_i.set(u8::from(cycle < 4));
    ports.now_i.set(cycle);
    ports.mac_up_i.set(1);
    ports.mac_tx_ready_i.set(1);
    ports.hrd_req_ready_i.set(1);
    ports.hwr_ready_i.set(u8::from(draw >> 60 & 1 == 0));
    ports.fw_req_i.set(u8::from(works && draw & 3 == 0));
    ports.fw_we_i.set((draw >> 2 & 1) as u8);
    ports
        .fw_addr_i
        .set((draw >> 8 & 0xffc) as u32 | if draw >> 3 & 1 == 0 { 0x4_0000 } else { 0 });
    ports.fw_wdata_i.set((draw >> 24) as u32);
    ports.mmio_rd_valid_i.set(u8::from(works && draw >> 4 & 7 == 0));
    ports.mmio_rd_addr_i.set((draw >> 16 & 0xfc) as u16);
    ports.clk_i.set(0);
}

#[test]
fn edges_that_are_left_out_change_nothing() {
    for model in [Model::Core, Model::Probe] {
        let [mut whole, mut parts] = [(); 2].map(|()| Dut::new(model, 7).unwrap());
        let (mut still, mut named) = (0, u64::MAX);
        for cycle in 0..CYCLES {
            drive(&whole, cycle);
            drive(&parts, cycle);
            assert!(whole.eval() && parts.eval());
            assert_eq!(seen(&whole), seen(&parts), "{model:?}, cycle {cycle}");
            whole.ports().clk_i.set(1);
            assert!(whole.eval());
            assert_eq!(parts.clock(named <= cycle, Check::None, false), Ok(true));
            still += u64::from(parts.is_still());
            let ports = parts.ports();
            named = if ports.link_active_o.get() != 0 {
                ports.link_wake_at_o.get()
            } else {
                u64::MAX
            };
        }
        assert!(
            (100..CYCLES).contains(&still),
            "{model:?} was still in {still} cycles"
        );
    }
}

#[test]
fn registers_of_parts_that_sleep_would_have_stayed() {
    let mut dut = Dut::new(Model::Core, 3).unwrap();
    for cycle in 0..CYCLES {
        drive(&dut, cycle);
        assert!(dut.eval());
        assert_eq!(
            dut.clock(false, Check::Sleeping, false),
            Ok(true),
            "cycle {cycle}"
        );
    }
}

#[test]
fn a_card_at_work_does_not_stand_still() {
    let mut dut = Dut::new(Model::Core, 3).unwrap();
    let changed = |cycle| {
        drive(&dut, cycle);
        assert!(dut.eval());
        dut.clock(false, Check::All, false) == Err(PartChanged)
    };
    let cycles = (0..CYCLES).map(changed).filter(|changed| *changed).count() as u64;
    // It works in two thirds of them, and after reset.
    assert!((CYCLES / 2..CYCLES).contains(&cycles), "{cycles}");
}
