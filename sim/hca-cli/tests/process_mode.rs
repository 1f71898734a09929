//! `hca sim`, `info` and `run` from outside.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

mod common;
use common::{HCA, Simulator, refused, refused_with, run, text, with_library};

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn a_simulator_comes_and_goes() {
    let home = tempfile::tempdir().unwrap();
    let (folder, pcap) = (home.path().join("sockets"), home.path().join("link.pcap"));
    refused(&run(Path::new(HCA), &folder, &["info"]), &["sockets", "hca sim"]);

    let (pcap_name, home_name) = (pcap.to_str().unwrap(), home.path().to_str().unwrap());
    let files = [
        "--pcap",
        pcap_name,
        "--trace",
        "1000:1100",
        "--trace-dir",
        home_name,
    ];
    let simulator = Simulator::start(&folder, &[&["--cards", "3", "--link", "ib"], &files[..]].concat());
    assert_eq!(
        names(&folder).len(),
        16,
        "four of each card, the report's, the fabric's, the cards' facts and their counters"
    );
    let output = run(Path::new(HCA), &folder, &["info"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for word in ["card 0", "card 2", "254 QPs", "ib"] {
        assert!(
            text(&output.stdout).contains(word),
            "{word}: {}",
            text(&output.stdout)
        );
    }
    let output = run(Path::new(HCA), &folder, &["info", "--card", "1", "--json"]);
    let card: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (card["card"].as_u64(), card["ports"][0]["lid"].as_u64()),
        (Some(1), Some(2))
    );
    refused(
        &run(Path::new(HCA), &folder, &["info", "--card", "7"]),
        &["no card 7", "0, 1, 2"],
    );

    // A second one neither disturbs the first one's sockets nor its captures.
    let before = fs::read(&pcap).unwrap();
    let second = run(Path::new(HCA), &folder, &[&["sim"], &files[..]].concat());
    refused(&second, &["card0.0", "another simulator"]);
    assert_eq!(fs::read(&pcap).unwrap(), before);
    assert!(run(Path::new(HCA), &folder, &["info"]).status.success());

    assert!(simulator.stop("INT").contains("stopped after"));
    assert_eq!(names(&folder).len(), 0);
    for name in ["link.pcap", "link-1.pcap"] {
        let check = run(
            Path::new(HCA),
            &folder,
            &["pcap", "check", home.path().join(name).to_str().unwrap()],
        );
        assert!(check.status.success(), "{name}: {}", text(&check.stderr));
    }
    // From cycle 1000 to cycle 1099: first and last time in the header, in picoseconds.
    let wave = fs::read(home.path().join("card2.fst")).unwrap();
    let time = |at: usize| u64::from_be_bytes(wave[at..at + 8].try_into().unwrap());
    assert_eq!((time(9), time(17)), (4_000_000, 4_398_000));
}

#[test]
fn sockets_of_a_killed_simulator_are_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    drop(Simulator::start(folder.path(), &["--cards", "1"]));
    assert_eq!(names(folder.path()).len(), 8, "SIGKILL leaves them");
    refused(&run(Path::new(HCA), folder.path(), &["info"]), &["no simulator"]);
    Simulator::start(folder.path(), &["--cards", "1"]).stop("TERM");
    assert_eq!(names(folder.path()).len(), 0);
}

#[test]
fn folders_that_cannot_be() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    fs::write(&file, "x").unwrap();
    refused(&run(Path::new(HCA), &file, &["sim"]), &["file"]);
    refused(&run(Path::new(HCA), &file.join("sub"), &["sim"]), &["file/sub"]);
    let pcap = file.join("x.pcap");
    refused(
        &run(
            Path::new(HCA),
            home.path(),
            &["sim", "--pcap", pcap.to_str().unwrap()],
        ),
        &["cannot make folder"],
    );
    assert_eq!(names(home.path()), ["file"]);
}

#[test]
fn run_sets_what_a_program_needs() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("sockets");
    let script = "echo $HCA_SIM $HCA_CARD ${LD_LIBRARY_PATH%%:*}; exit 7";
    let arguments = ["run", "--card", "1", "--", "sh", "-c", script];
    refused_with(
        125,
        &run(Path::new(HCA), &folder, &arguments),
        &["no simulator", "hca sim --dir"],
    );

    let _simulator = Simulator::start(&folder, &[]);
    let alone = home.path().join("alone");
    fs::create_dir(&alone).unwrap();
    let bare = alone.join("hca");
    fs::copy(HCA, &bare).unwrap();
    refused_with(
        125,
        &run(&bare, &folder, &arguments),
        &["libibverbs.so", "cargo build --release -p hca-capi"],
    );

    let program = with_library(home.path());
    let output = run(&program, &folder, &arguments);
    let verbs = home.path().join("verbs");
    let wanted = [folder.as_os_str(), OsStr::new("1"), verbs.as_os_str()].join(OsStr::new(" "));
    assert_eq!(text(&output.stdout).trim_end(), wanted);
    assert_eq!(output.status.code(), Some(7));
    assert!(verbs.join("libibverbs.so.1").exists());
    refused_with(
        127,
        &run(&program, &folder, &["run", "--", "no-such-program"]),
        &["no-such-program"],
    );
    refused_with(
        125,
        &run(&program, &folder, &["run", "--seed", "2", "--", "true"]),
        &["--pair"],
    );
}

#[test]
fn run_a_pair() {
    let home = tempfile::tempdir().unwrap();
    let program = with_library(home.path());
    let pair = |server: &str, client: &str| {
        let arguments = [
            "run", "--pair", "--", "sh", "-c", server, "---", "sh", "-c", client,
        ];
        run(&program, home.path(), &arguments)
    };
    let sockets = "echo card $HCA_CARD of $(ls $HCA_SIM | wc -l)";
    let output = pair(&format!("{sockets}; echo oh >&2"), &format!("{sockets}; exit 3"));
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    for line in ["server: card 0 of 10", "client: card 1 of 10"] {
        assert!(stdout.lines().any(|found| found == line), "{line}: {stdout}");
    }
    assert_eq!(text(&output.stderr), "server: oh\n");
    assert_eq!(pair("kill -9 $$", "true").status.code(), Some(128 + 9));
    refused_with(
        125,
        &run(&program, home.path(), &["run", "--pair", "--", "true", "---"]),
        &["---", "SERVER"],
    );
    refused_with(
        127,
        &run(
            &program,
            home.path(),
            &["run", "--pair", "--", "nothing-here", "---", "true"],
        ),
        &["nothing-here"],
    );
}

/// Runs `hca run --pair` by way of another program, with scripts that tell their network; the two networks, and what
/// hca said on standard error.
fn networks_of_a_pair(by_way_of: &[&str], options: &[&str]) -> ([String; 2], String) {
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let program = with_library(home.path());
    let sees = ["sh", "-c", "readlink /proc/self/ns/net; id -u"];
    let mut command = Command::new(by_way_of[0]);
    command.args(&by_way_of[1..]).arg(program).args(["run", "--pair"]);
    command.args(options).arg("--").args(sees).arg("---").args(sees);
    let output = command.output().unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    let of = |end: &str| {
        let lines = stdout.lines().filter_map(|line| line.strip_prefix(end));
        lines.collect::<Vec<_>>().join(" ")
    };
    ([of("server: "), of("client: ")], stderr)
}

/// Two pairs at once do not meet: the programs' network is theirs, for root and for others, who stay who they are.
/// With --share-network, and where the kernel forbids it, the network is the machine's, and hca says so.
#[test]
fn a_pair_has_a_network_of_its_own() {
    let ours = fs::read_link("/proc/self/ns/net").unwrap();
    let ours = ours.to_str().unwrap();
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let is_root = text(&Command::new("id").arg("-u").output().unwrap().stdout) == "0\n";
    let users: &[(&[&str], &str)] = &[(&["env"], " 0"), (&nobody, " 65534")];
    let users = if is_root { users } else { &[(&["env"][..], "")][..] };
    for (by_way_of, user) in users {
        let ([server, client], stderr) = networks_of_a_pair(by_way_of, &[]);
        assert_eq!((&server, stderr.as_str()), (&client, ""));
        assert!(server.starts_with("net:[") && server.ends_with(user), "{server}");
        assert!(!server.starts_with(ours), "{server}");
        let ([server, client], stderr) = networks_of_a_pair(by_way_of, &["--share-network"]);
        assert_eq!((&server, stderr.as_str()), (&client, ""));
        assert!(server.starts_with(ours), "{server}");
    }
    // A user namespace that may have no further namespaces in it.
    let limits = "for kind in user net; do echo 0 > /proc/sys/user/max_${kind}_namespaces; done; exec \"$@\"";
    let ([server, client], stderr) = networks_of_a_pair(
        &["unshare", "--user", "--map-root-user", "sh", "-c", limits, "-"],
        &[],
    );
    assert!(
        server.starts_with(ours) && client.starts_with(ours),
        "{server} {client}"
    );
    assert!(
        stderr.starts_with(
            "hca: the programs use the machine's network (the kernel allows this user no namespaces: "
        ) && stderr.contains("other TCP ports")
            && stderr.lines().count() == 1,
        "{stderr}"
    );
}

#[test]
fn a_report_follows_the_program() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("sockets");
    let _simulator = Simulator::start(&folder, &[]);
    let program = with_library(home.path());
    // hca info opens the cards itself, here as a grandchild. What others do is none of its business.
    assert!(run(Path::new(HCA), &folder, &["info"]).status.success());
    let script = format!("{HCA} info; exit 5");
    let output = run(&program, &folder, &["run", "--report", "--", "sh", "-c", &script]);
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stderr));
    let stdout = text(&output.stdout);
    let (before, report) = stdout
        .split_once("What the card saw, in simulated time:\n")
        .unwrap();
    assert!(before.contains("254 QPs"), "{stdout}");
    let sessions: Vec<&str> = report.lines().filter(|line| line.contains("function")).collect();
    assert_eq!(sessions.len(), 2, "one on each card: {stdout}");
    assert!(
        sessions[0].starts_with("card0 function 3: hca (process "),
        "{stdout}"
    );
    assert_eq!(report.matches("no QPs").count(), 2, "{stdout}");

    let output = run(&program, &folder, &["run", "--report", "--", "true"]);
    assert!(
        text(&output.stdout).contains("opened no card"),
        "{}",
        text(&output.stdout)
    );
    let output = run(
        &program,
        &folder,
        &["run", "--report", "--", "sh", "-c", "kill -9 $$"],
    );
    assert_eq!(output.status.code(), Some(128 + 9));
}

/// Issue "process mode": topology, link kind, rate, faults and PCIe model by flags or a file.
#[test]
fn a_topology_file_is_served() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("sockets");
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/topologies");
    let file = examples.join("two-switches.toml");
    let file = file.to_str().unwrap();
    // Two functions of each card have what there is: half of it each.
    let arguments = [
        "--topology",
        file,
        "--pcie-read-latency",
        "700",
        "--functions",
        "2",
    ];
    let simulator = Simulator::start(&folder, &arguments);
    let sockets = names(&folder).into_iter().filter(|name| name.starts_with("card"));
    assert_eq!(sockets.count(), 8);
    let output = run(Path::new(HCA), &folder, &["info", "--card", "3", "--json"]);
    let card: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(card["ports"][0]["lid"].as_u64(), Some(4));
    let rest = simulator.stop("INT");
    assert!(rest.contains("trunk: 0 from sw0:8, 0 from sw1:8"), "{rest}");

    let bad = home.path().join("bad.toml");
    fs::write(&bad, "[[card]]\nlid = 0\n").unwrap();
    let bad = bad.to_str().unwrap();
    for (arguments, words) in [
        (
            vec!["sim", "--topology", bad],
            vec!["bad.toml", "card card0", "lid is 0", "1 to 49151"],
        ),
        (vec!["sim", "--pcie-mps", "48"], vec!["max_payload_bytes = 48"]),
        (
            vec!["sim", "--pcie-mrrs", "300"],
            vec!["max_read_request_bytes = 300"],
        ),
    ] {
        refused(&run(Path::new(HCA), &folder, &arguments), &words);
    }
    let both = run(
        Path::new(HCA),
        &folder,
        &["sim", "--topology", bad, "--link", "ib"],
    );
    assert_eq!(both.status.code(), Some(2));
    assert!(
        text(&both.stderr).contains("cannot be used with"),
        "{}",
        text(&both.stderr)
    );
}

/// A simulator that is stopped completes its timeline; one that is killed leaves whole events without the bracket.
#[test]
fn a_timeline_ends_with_the_simulator() {
    let home = tempfile::tempdir().unwrap();
    let (folder, file) = (home.path().join("sockets"), home.path().join("timeline.json"));
    let options = ["--cards", "2", "--timeline", file.to_str().unwrap()];
    let simulator = Simulator::start(&folder, &options);
    assert!(run(Path::new(HCA), &folder, &["info"]).status.success());
    simulator.stop("TERM");
    let events: Vec<serde_json::Value> = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    for name in ["process_name", "register", "firmware"] {
        assert!(events.iter().any(|event| event["name"] == name), "no {name}");
    }
    drop(Simulator::start(&folder, &options));
    let text = fs::read_to_string(&file).unwrap() + "]";
    serde_json::from_str::<Vec<serde_json::Value>>(&text).unwrap();
}
