"""What `make dist` has written, and bare Debian roots to install it in."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
DIST = TARGET / "dist"
SUITES = ["bookworm", "trixie"]
LIMIT_S = 300
# A user without any rights, as whom everything is run.
NOBODY = ["--unshare-user", "--uid", "1000", "--gid", "1000"]


def only(pattern):
    found = sorted(DIST.glob(pattern))
    assert len(found) == 1, f"{DIST}/{pattern}: {found}; run 'make dist' first"
    return found[0]


@pytest.fixture(scope="session")
def deb():
    return only("openhca_*_amd64.deb")


@pytest.fixture(scope="session")
def archive():
    return only("openhca-*-x86_64.tar.gz")


class Bare:
    """A root folder in which commands run, without network and with nothing of this machine."""

    def __init__(self, path):
        self.path = path

    def run(self, *words, user=NOBODY, options=(), environment=None):
        """One command to its end, by default as somebody without rights."""
        box = ["bwrap", "--bind", self.path, "/", "--dev", "/dev", "--proc", "/proc", "--ro-bind", "/sys", "/sys",
               "--tmpfs", "/tmp", "--chdir", "/tmp",
               "--unshare-net", "--unshare-pid", "--die-with-parent", "--clearenv",
               "--setenv", "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
        for name, value in (environment or {}).items():
            box += ["--setenv", name, value]
        return subprocess.run([str(word) for word in [*box, *user, *options, *words]], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=LIMIT_S, check=False)

    def install(self, deb):
        (self.path / "openhca.deb").write_bytes(deb.read_bytes())
        return self.run("dpkg", "-i", "/openhca.deb", user=())


def unpack(suite, path):
    # Device files are bubblewrap's.
    archive = TARGET / "roots" / f"{suite}.tar"
    subprocess.run(["tar", "--exclude=./dev/*", "-xf", archive, "-C", path], check=True)
    return Bare(path)


@pytest.fixture(scope="session", params=SUITES)
def bare(request, tmp_path_factory):
    """A root with Debian's verbs programs and nothing of ours."""
    return unpack(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="session")
def installed(tmp_path_factory, deb):
    """Debian 12 with the package."""
    root = unpack(SUITES[0], tmp_path_factory.mktemp("installed"))
    done = root.install(deb)
    assert done.returncode == 0, done
    return root
