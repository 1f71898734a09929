//! Both models: seeds, waveforms.

use hca_vsim::{Dut, Model};

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
    let mut dut = Dut::new(Model::Probe, 1);
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
            .trace_open("/nonexistent/folder/x.fst".as_ref())
            .is_err()
    );
}

#[test]
fn uninitialised_state_follows_the_seed() {
    let answer = |seed| {
        let mut dut = Dut::new(Model::Probe, seed);
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
        let mut dut = Dut::new(Model::Probe, seed);
        std::thread::spawn(move || {
            run(&mut dut, 100);
            dut.ports().hrd_req_valid_o.get()
        })
    });
    assert_eq!(threads.map(|thread| thread.join().unwrap()), [0, 0]);
}
