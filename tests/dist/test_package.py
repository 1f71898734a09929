"""The package in bare roots: nothing there but Debian's own programs, no network, no rights."""

import json
import re
import subprocess
import time

from conftest import ROOT

PINGPONG = ["ibv_rc_pingpong", "-g", "1", "-n", "10"]
# For a person who gives it a try, on a machine that has nothing else to do: so it is processor time that is judged.
LIMIT_S = 5



def timed(bare, *words, **options):
    """Runs a command; what it printed, and its seconds of processor time."""
    done = bare.run("bash", "-c", 'TIMEFORMAT="%U %S"; time "$@"', "-", *words, **options)
    *said, times = done.stderr.splitlines()
    assert done.returncode == 0, done
    return done.stdout, said, sum(map(float, times.split()))


def test_from_package_to_first_result(bare, deb):
    assert not list(bare.path.glob("usr/bin/*rustc*")) and not list(bare.path.glob("usr/bin/verilator*"))
    (bare.path / "openhca.deb").write_bytes(deb.read_bytes())
    begin = time.monotonic()
    _, _, install_s = timed(bare, "dpkg", "-i", "/openhca.deb", user=())
    printed, complaints, run_s = timed(bare, "hca", "run", "--pair", "--", *PINGPONG)
    elapsed_s = time.monotonic() - begin
    assert printed.count("10 iters in") == 2 and not complaints, (printed, complaints)
    print(f"\n{bare.path.name}: first result {elapsed_s:.1f} s after dpkg -i; "
          f"processor time {install_s:.1f} + {run_s:.1f} s")
    assert install_s + run_s < LIMIT_S


def test_two_ports_and_infiniband(installed):
    for options in (["--link", "ib"], ["--ports", "2", "--link", "eth,ib"]):
        done = installed.run("hca", "run", "--pair", *options, "--", *PINGPONG)
        assert done.returncode == 0, done


def test_bandwidth_with_faults(installed):
    done = installed.run("hca", "run", "--pair", "--faults", "loss=0.01", "--json", "-", "--",
                         "ib_write_bw", "-x", "1", "-n", "50")
    assert done.returncode == 0, done
    document = json.loads(done.stdout)
    assert document["links"][0]["a_to_b"]["faults"]["lost"] + document["links"][0]["b_to_a"]["faults"]["lost"] > 0


def test_what_is_in_the_package(installed):
    """Completions, man pages, licences; nothing wants a library that a bare system lacks."""
    usr = installed.path / "usr"
    for file in ("share/man/man1/hca-run.1.gz", "share/bash-completion/completions/hca",
                 "share/zsh/vendor-completions/_hca",
                 "share/fish/vendor_completions.d/hca.fish", "share/doc/openhca/copyright"):
        assert (usr / file).stat().st_size > 0, file
    licences = (usr / "share/doc/openhca/THIRD-PARTY.txt").read_text(encoding="utf-8")
    for part in ("Verilator", "Artistic", "clap ", "zlib", "libstdc++"):
        assert part in licences, part
    needed = set()
    for file in (usr / "bin/hca", *(usr / "lib/openhca").glob("lib*.so*")):
        text = subprocess.run(["objdump", "-p", file], check=True, capture_output=True, text=True).stdout
        needed |= set(re.findall(r"NEEDED +(\S+)", text))
    ours = {"libibverbs.so.1", "librdmacm.so.1"}
    assert needed <= ours | {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"}, needed


def test_nothing_tells_where_it_was_built(installed):
    for file in ("bin/hca", "lib/openhca/libibverbs.so.1", "lib/openhca/librdmacm.so.1", "lib/openhca/librspreload.so",
                 "lib/openhca/libibumad.so.3", "lib/openhca/libhcaview.so", "lib/openhca/libhcanetlink.so"):
        text = (installed.path / "usr" / file).read_bytes()
        # Verilator names its own library by its whole path in every model.
        paths = re.findall(str(ROOT).encode() + rb"/[\w./-]+", text)
        found = [path for path in paths if not path.endswith(b"verilated_std.sv")]
        assert not found, (file, found[:5])


def test_the_archive_runs_from_any_folder(bare, archive):
    folder = bare.path / "opt" / "a folder"
    folder.mkdir()
    subprocess.run(["tar", "-xf", archive, "-C", folder], check=True)
    program = next(folder.glob("*/bin/hca")).relative_to(bare.path)
    # The package, if it is there, has nothing to do with it.
    hidden = ["--tmpfs", "/usr/lib/openhca"] if (bare.path / "usr/lib/openhca").exists() else []
    done = bare.run(f"/{program}", "run", "--pair", "--", *PINGPONG, options=hidden)
    assert done.returncode == 0, done


def test_a_container_that_forbids_namespaces(installed):
    """Nothing fails; hca says in a line what is missing, or is told to do without."""
    closed = ["--disable-userns"]
    done = installed.run("hca", "run", "--pair", "--", *PINGPONG, options=closed)
    assert done.returncode == 0, done
    assert 1 <= len(done.stderr.splitlines()) <= 2 and "network" in done.stderr, done
    quiet = ["--share-network", "--no-sysfs"]
    done = installed.run("hca", "run", "--pair", *quiet, "--", *PINGPONG, options=closed)
    assert (done.returncode, done.stderr) == (0, ""), done


def test_the_same_bytes_twice(deb, archive, tmp_path):
    """For the commit that is checked out, and what was built of it."""
    subprocess.run([ROOT / "scripts" / "dist" / "pack.sh", tmp_path], check=True, capture_output=True)
    for file in (deb, archive):
        assert (tmp_path / file.name).read_bytes() == file.read_bytes(), file.name
