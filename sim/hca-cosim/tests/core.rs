//! The real card comes up: reset, firmware, registers. No driver, no packets.

use hca_cosim::{CardConfig, Fabric, Identity, OpVls, Server, SimDevice, Simulation};
use hca_dev::Device;
use hca_models as _;
use hca_regs as reg;

fn identity() -> Identity {
    let mac = [2, 0, 0, 0, 0, 1];
    Identity {
        guid: [0, 0, 0, 0xff, 0xfe, 0, 0, 1],
        mac,
        ipv4: [10, 0, 0, 1],
        ipv6: [0; 16],
        lid: 1,
        infiniband: false,
        self_active: true,
        peer_vls: OpVls::Fifteen,
        rate_mbps: 100_000,
    }
}

fn boot() -> (Simulation, SimDevice) {
    let mut fabric = Fabric::new(5);
    let identity = identity();
    let card = fabric.add_card(CardConfig::core("card0", identity)).unwrap();
    let sim = Simulation::new(fabric);
    let dev = sim.device(card, 1).unwrap();
    (sim, dev)
}

#[test]
fn firmware_brings_the_card_up_and_then_it_sleeps() {
    let (sim, dev) = boot();
    let deadline_ns = dev.now_ns() + 2_000_000;
    while dev.mmio_read32(reg::FUNC_STATUS) & reg::FUNC_STATUS_READY_MASK == 0 {
        assert!(
            dev.now_ns() < deadline_ns,
            "not ready after 2 ms of simulated time"
        );
        dev.progress();
    }
    println!("ready after {} ns", dev.now_ns());
    assert_eq!(dev.mmio_read32(reg::FUNC_ID), 0x4843_4131);
    let mut fabric = sim.fabric();
    fabric.run(100_000);
    assert!(!fabric.is_active(), "an idle card must not be busy");
    assert_eq!(fabric.card(dev.card()).violations(), [] as [String; 0]);
}

#[test]
fn the_driver_opens_a_function_behind_a_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("card0.2");
    let server_path = path.clone();
    let (sender, receiver) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let mut fabric = Fabric::new(5);
        let card = fabric.add_card(CardConfig::core("card0", identity())).unwrap();
        let mut server = Server::new(fabric);
        server.serve(card, 2, &server_path).unwrap();
        sender.send(server.stop_handle()).unwrap();
        server.run();
        let card = server.fabric().card_mut(card);
        assert_eq!((card.host().fault_count(), card.violations().len()), (0, 0));
    });
    let stop = receiver.recv().unwrap();
    for _ in 0..2 {
        // The second one comes while the server cleans up behind the first.
        let dev = std::rc::Rc::new(hca_vfio_user::VfioUserDevice::connect(&path).unwrap());
        let function = hca_driver::Function::open(dev, &hca_driver::OpenOptions::default()).unwrap();
        assert_eq!(function.info().func, 2);
        assert!(function.time_cycles() > 0);
    }
    stop.stop();
    thread.join().unwrap();
}
