"""What `hca` and the scripts say when something is wrong: one sentence on stderr that names it, an exit code
that is not 0, and never the words of a panic."""

import json
import os
import random
import re
import shutil
import socket
import subprocess

import judge
import pytest
from conftest import ROOT, Done

PANIC = re.compile(r"panicked|backtrace|thread '|Traceback|\.rs:\d+|unwrap|Os \{", re.IGNORECASE)
PROGRESS = re.compile(r"^[A-Z ]+: \d+ % of \d+ bytes\n", re.MULTILINE)
CANNOT, USAGE = 2, 2  # Exit codes: could not do its work; the command line is wrong.
RUN_FAILED = 1  # a run that began: the command that repeats it is in the sentence


def assert_sentence(done, *words, code=CANNOT, limit=400):
    """One line on stderr behind those of the progress, in which all words appear."""
    assert done.code == code and not PANIC.search(done.err), f"exit code {done.code}, {done.err}"
    sentence = PROGRESS.sub("", done.err)
    assert sentence.count("\n") == 1 and sentence.endswith("\n"), sentence
    assert sentence.startswith("hca: ") and len(sentence) < limit, sentence
    for word in words:
        assert str(word) in sentence, f"{word!r} is not in {sentence!r}"


def assert_usage(done, *words):
    """The parser's own form: `error: ...` first, and a hint."""
    assert done.code == USAGE and done.out == "", done
    assert done.err.startswith("error: ") and not PANIC.search(done.err), done.err
    for word in words:
        assert str(word) in done.err, f"{word!r} is not in {done.err!r}"


@pytest.fixture
def small_file(tmp_path):
    path = tmp_path / "small"
    path.write_bytes(bytes(range(256)) * 16)
    return path


@pytest.fixture
def full_disk(tmp_path):
    """A file system of 64 KiB; only root can mount one."""
    folder = tmp_path / "full"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small file system cannot be mounted here (root only)")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


# ---- Input -------------------------------------------------------------------------------------------


def test_captures_that_cannot_be_read(hca, tmp_path):
    missing, folder = tmp_path / "missing.pcap", tmp_path
    assert_sentence(hca("pcap", "check", missing), missing, "No such file")
    assert_sentence(hca("pcap", "check", folder), folder, "directory")
    foreign = tmp_path / "foreign.pcap"
    judge.write(foreign, 113, [bytes(60)])  # Linux cooked
    assert_sentence(hca("pcap", "check", foreign), foreign, "113")
    long = tmp_path / "long.pcap"
    judge.write(long, judge.ETHERNET, [])
    long.write_bytes(long.read_bytes() + bytes(8) + b"\xff\xff\xff\x7f" * 2)
    assert_sentence(hca("pcap", "check", long), long)


def test_random_captures(hca, tmp_path):
    """Any bytes behind a file header end in a verdict or a sentence."""
    path = tmp_path / "random.pcap"
    judge.write(path, judge.ETHERNET, [])
    head = path.read_bytes()
    for number in range(20):
        link = (judge.ETHERNET, judge.ERF, judge.INFINIBAND)[number % 3].to_bytes(4, "little")
        path.write_bytes(head[:20] + link + random.Random(number).randbytes(16 * number))
        done = hca("pcap", "check", path)
        assert done.code in (0, 1, 2) and not PANIC.search(done.err), (path.read_bytes(), done)
        assert (done.code == CANNOT) == (done.err != "")


def test_files_that_cannot_be_sent(hca, tmp_path):
    out = ["--out", tmp_path / "out"]
    assert_sentence(hca("demo", "--file", tmp_path / "missing", *out), tmp_path / "missing", "No such file")
    assert_sentence(hca("demo", "--file", tmp_path, *out), tmp_path, "regular file")
    assert_sentence(hca("demo", "--file", "/dev/zero", *out), "/dev/zero", "regular file")
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate((1 << 30) + 1)
    assert_sentence(hca("demo", "--file", huge, *out), huge, (1 << 30) + 1, 1 << 30)


def test_a_file_without_permission(hca, small_file, tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    small_file.chmod(0)
    assert_sentence(hca("demo", "--file", small_file, "--out", tmp_path / "out"), small_file, "Permission")
    assert_sentence(hca("pcap", "check", small_file), small_file, "Permission")


# ---- Output ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("artifact", ["link0.pcap", "summary.json", "latency.svg", "card0.fst"])
def test_artifacts_on_a_full_device(hca, small_file, tmp_path, artifact):
    """Each file alone: its name is in the sentence."""
    (tmp_path / artifact).symlink_to("/dev/full")
    trace = ["--trace", "0:2000"] if artifact.endswith(".fst") else []
    done = hca("demo", "--file", small_file, "--out", tmp_path, *trace)
    code = RUN_FAILED if trace else CANNOT
    assert_sentence(done, artifact, "No space left", code=code)
    assert done.err.count("No space left") == 1, done.err


def test_a_capture_that_outgrows_its_disk(hca, full_disk, tmp_path):
    """The first packets fit; the sentence comes at the one that does not."""
    file = tmp_path / "file"
    file.write_bytes(bytes(300_000))
    assert_sentence(hca("demo", "--file", file, "--out", full_disk), "link0.pcap", "No space left")


def test_folders_that_cannot_be_made(hca, small_file):
    done = hca("demo", "--file", small_file, "--out", small_file)
    assert_sentence(done, small_file)
    assert_sentence(hca("demo", "--file", small_file, "--out", "/proc/hca-demo"), "/proc/hca-demo")


def test_a_full_standard_output(hca, small_file, tmp_path):
    judge.write(tmp_path / "empty.pcap", judge.ETHERNET, [])
    with open("/dev/full", "w", encoding="ascii") as full:
        for command in (["pcap", "check", tmp_path / "empty.pcap"],
                        ["demo", "--file", small_file, "--out", tmp_path / "out"],
                        ["perf", "--size", "64", "--iters", "4"]):
            done = hca(*command, stdout=full)
            assert done.code != 0 and "No space left" in done.err, (command, done)
            assert not PANIC.search(done.err), (command, done)


def test_a_reader_that_has_gone(hca, small_file, tmp_path):
    """`hca demo | head -0` is no error."""
    reader, writer = os.pipe()
    os.close(reader)
    done = hca("demo", "--file", small_file, "--out", tmp_path / "out", stdout=writer)
    os.close(writer)
    assert done.code == 0 and not PANIC.search(done.err), done


# ---- Command line ------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [
    "loss=2", "loss=-0.1", "loss=nan", "loss", "loss=", "=1", "wet=0.1", "loss=0,1", "delay_ns=-1",
    "delay_ns=1.5", "delay_ns=99999999999999999999", "loss=0.1;dup=0.1", "loss=0.1,loss=0.1"])
def test_bad_faults(hca, small_file, tmp_path, spec):
    done = hca("demo", "--file", small_file, "--out", tmp_path / "out", "--faults", spec)
    assert_usage(done, "--faults", spec)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("arguments", "words"), [
    ([], ["Usage"]),
    (["fly"], ["fly"]),
    (["demo", "--link", "token-ring"], ["token-ring", "eth", "ib"]),
    (["demo", "--seed", "-1"], ["-1"]),
    (["demo", "--trace", "9:5"], ["9:5", "ends before"]),
    (["demo", "--trace", "x"], ["FROM:TO"]),
    (["perf", "--size", "0x40"], ["0x40"]),
    (["perf", "--mtu", "1500"], ["1500", "4096"]),
    (["perf", "--qps", "0"], ["0"]),
    (["pcap", "check"], ["FILE"]),
], ids=lambda value: " ".join(value) if isinstance(value, list) else None)
def test_bad_command_lines(hca, arguments, words):
    done = hca(*arguments)
    assert done.code == USAGE and not PANIC.search(done.err), done
    for word in words:
        assert word in done.err, f"{word!r} is not in {done.err!r}"


def test_perf_with_impossible_limits(hca, tmp_path):
    """Numbers beyond what a card has are refused by a sentence, not by running out of memory."""
    for arguments in (["--qps", "4294967295"], ["--size", "64G"],
                      ["--outstanding", "4294967295", "--iters", "1"]):
        done = hca("perf", *arguments, "--plot", tmp_path)
        assert done.code != 0 and done.err and not PANIC.search(done.err), (arguments, done)


# ---- Verdicts ----------------------------------------------------------------------------------------


def test_exit_code_and_report_agree(hca, small_file, tmp_path):
    done = hca("demo", "--file", small_file, "--out", tmp_path / "out")
    report = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert done.code == 0 and report["digests_match"] is True


def test_a_cable_that_loses_everything(hca, small_file, tmp_path):
    """Exit code 1, and a sentence that says how to repeat it."""
    done = hca("demo", "--file", small_file, "--out", tmp_path / "out", "--faults", "loss=1", "--seed", 9)
    assert_sentence(done, "repeat with: hca demo", "--faults loss=1 --seed 9", code=1)


# ---- Other processes, missing tools ------------------------------------------------------------------


def test_a_socket_that_is_in_use(hca, tmp_path):
    path = tmp_path / "card0.0"
    with socket.socket(socket.AF_UNIX) as owner:
        owner.bind(str(path))
        owner.listen()
        done = hca("sim", "--dir", tmp_path, timeout=60)
    assert_sentence(done, path, code=done.code or CANNOT)
    assert path.exists(), "the other process's socket has been removed"


def test_a_program_without_a_simulator(hca, tmp_path):
    done = hca("run", "--dir", tmp_path, "--", "/nonexistent/ib_write_bw", timeout=60)
    assert_sentence(done, "no simulator runs", "hca sim", code=done.code or CANNOT)


@pytest.fixture
def bare_checkout(tmp_path):
    """The scripts in a folder where nothing has been set up."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    (tmp_path / ".tools" / "stamps").mkdir(parents=True)
    return tmp_path


def script(folder, name, *arguments, **environment):
    done = subprocess.run([folder / "scripts" / name, *arguments], cwd=folder, capture_output=True, text=True,
                          env=os.environ | environment, stdin=subprocess.DEVNULL, timeout=60, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


def test_setup_without_python(bare_checkout):
    """PATH holds what the script itself needs, and no Python."""
    tools = bare_checkout / "bin"
    tools.mkdir()
    for name in ("bash", "env", "dirname", "mkdir", "cat", "sha256sum", "cut", "flock"):
        (tools / name).symlink_to(shutil.which(name))
    done = script(bare_checkout, "setup.sh", "venv", HCA_PYTHON="/nonexistent/python", PATH=str(tools))
    assert done.code != 0 and done.err.count("\n") == 1, done
    assert "no Python 3.11 or newer" in done.err and "HCA_PYTHON" in done.err


def test_setup_with_an_unknown_part(bare_checkout):
    done = script(bare_checkout, "setup.sh", "everything")
    assert done.code != 0 and done.err.count("\n") == 1 and "everything" in done.err, done


def test_doctor_names_what_is_missing(bare_checkout):
    done = script(bare_checkout, "doctor.sh")
    assert done.code != 0 and not PANIC.search(done.out + done.err), done
    assert re.search(r"MISSING +verilator ", done.out) and "run scripts/setup.sh" in done.out


@pytest.mark.parametrize("name", ["lint-rtl.sh", "gen-regs.sh"])
def test_scripts_before_setup(bare_checkout, name):
    """They say that .venv is not there; they do not pass."""
    done = script(bare_checkout, name)
    assert done.code != 0 and not PANIC.search(done.err), done
    assert ".venv/bin/python" in done.err
