#!/usr/bin/env bash
# Everything OpenHCA needs beyond Rust and git: Debian packages, .venv, Verilator, pyverbs. Quiet and quick when there
# is nothing to do. Writes only inside the checkout (.venv, .tools), except for the Debian packages.
# usage: scripts/setup.sh [apt|venv|verilator|core|pyverbs|programs|peers|studies|dist ...]
# Without an argument all in this order, but for programs, peers, studies and dist.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
stamps=.tools/stamps
mkdir -p "$stamps"

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# A part is done when its stamp holds the checksum of the files that define it.
is_done() { [[ -f $stamps/$1 && $(<"$stamps/$1") == "$(checksum "${@:2}")" ]]; }
mark_done() { checksum "${@:2}" >"$stamps/$1"; }
checksum() { cat -- "$@" | sha256sum | cut -d ' ' -f 1; }

# A list of Debian packages; a part of that name.
install_packages() {
  local part=$1 list=$2 missing=() package
  if is_done "$part" "$list"; then return; fi
  command -v dpkg-query >/dev/null ||
    die "this is not a Debian system: install what $list names by hand, then" \
        "run 'sha256sum < $list | cut -d \" \" -f 1 > $stamps/$part'"
  while read -r package _; do
    [[ -z $package || $package == \#* ]] && continue
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
  done <"$list"
  if ((${#missing[@]})); then
    [[ $(id -u) == 0 ]] || die "not root: run 'sudo apt-get install ${missing[*]}' and try again"
    say "Debian packages: ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq || say "apt-get update failed: trying with the package lists that are there"
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >.tools/apt.log 2>&1 </dev/null ||
      { tail -n 5 .tools/apt.log >&2; die "apt-get could not install ${missing[*]} (whole output: .tools/apt.log)"; }
  fi
  mark_done "$part" "$list"
}

setup_apt() { install_packages apt scripts/packages.txt; }

# Bare roots and tools of containers, for `make oci` and `make test-dist` alone.
setup_dist() { install_packages dist scripts/packages-dist.txt; }

# Debian's own Python: cocotb embeds it, which needs the shared libpython of the same build.
find_python() {
  local python
  for python in ${HCA_PYTHON:-/usr/bin/python3 python3}; do
    "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break
    python=
  done
  [[ $python ]] || die "no Python 3.11 or newer with the venv module: install python3-venv, or set HCA_PYTHON"
  echo "$python"
}

setup_venv() {
  local python
  if [[ -x .venv/bin/python ]] && is_done venv scripts/requirements.txt; then return; fi
  python=$(find_python)
  say "Python packages into .venv"
  .venv/bin/python -m pip --version >/dev/null 2>&1 || "$python" -m venv --clear .venv
  .venv/bin/python -m pip install --quiet --no-cache-dir --disable-pip-version-check --root-user-action=ignore \
    -r scripts/requirements.txt </dev/null ||
    die "pip could not install scripts/requirements.txt into .venv: check the network and run scripts/setup.sh again"
  mark_done venv scripts/requirements.txt
}

setup_verilator() {
  if [[ -x .tools/verilator/bin/verilator ]] && is_done verilator scripts/setup-verilator.sh; then return; fi
  say "Verilator into .tools/verilator"
  scripts/setup-verilator.sh .venv/bin/python .tools/verilator || die "Verilator could not be installed (see above)"
  mark_done verilator scripts/setup-verilator.sh
}

# The soft core: its sources, patched, and Rust's library for it. Without the latter there is no image, and firmware
# runs natively alone.
setup_core() {
  local target=riscv32imc-unknown-none-elf
  if [[ ! -f .tools/ibex/ibex.f ]] || ! is_done soft-core scripts/setup_ibex.py scripts/requirements.txt; then
    say "the soft core's sources into .tools/ibex"
    .venv/bin/python scripts/setup_ibex.py .tools/ibex || die "the soft core's sources are missing (see above)"
    mark_done soft-core scripts/setup_ibex.py scripts/requirements.txt
  fi
  [[ -d $(rustc --print target-libdir --target "$target") ]] ||
    rustup target add "$target" >.tools/target.log 2>&1 ||
    say "no Rust library for $target: firmware runs natively, not on the soft core (log: .tools/target.log)"
}

# Only tests of the C library want it: without it they are skipped, and say so.
setup_pyverbs() {
  if is_done pyverbs scripts/setup-pyverbs.sh; then return; fi
  say "rdma-core's Python tests into .tools/pyverbs"
  if scripts/setup-pyverbs.sh .tools/pyverbs >.tools/pyverbs.log 2>&1; then
    mark_done pyverbs scripts/setup-pyverbs.sh
  else
    tail -n 3 .tools/pyverbs.log >&2
    say "Debian's python3-pyverbs could not be had: the tests of pyverbs will be skipped (log: .tools/pyverbs.log)"
  fi
}

# Minutes, and for `make programs` alone.
setup_programs() {
  if is_done programs scripts/setup-programs.sh; then return; fi
  say "programs of others into .tools/programs (some minutes)"
  if scripts/setup-programs.sh .venv/bin/python .tools/programs >.tools/programs.log 2>&1; then
    mark_done programs scripts/setup-programs.sh
  else
    tail -n 3 .tools/programs.log >&2
    say "some could not be had: their tests will be skipped (log: .tools/programs.log)"
  fi
}

# A kernel, a user land and a QEMU for `make peers` alone.
setup_peers() {
  if [[ -d .tools/guests ]] && is_done peers scripts/setup-guests.sh; then return; fi
  say "what guests are made of into .tools/guests (half a minute)"
  scripts/setup-guests.sh .tools/guests || die "the guests of 'make peers' could not be prepared (see above)"
  mark_done peers scripts/setup-guests.sh
}

# A Slurm, Dask, and a browser: for `make studies` alone. What cannot be had is skipped there, and said.
setup_studies() {
  local packages
  if is_done studies scripts/packages-studies.txt scripts/requirements-studies.txt; then return; fi
  say "Dask and Selenium into .venv; Chromium and Slurm from Debian (a minute)"
  .venv/bin/python -m pip install --quiet --no-cache-dir --disable-pip-version-check --root-user-action=ignore \
    -r scripts/requirements-studies.txt </dev/null || die "pip could not install scripts/requirements-studies.txt"
  mapfile -t packages < <(sed 's/#.*//; /^ *$/d; s/ *$//' scripts/packages-studies.txt)
  export DEBIAN_FRONTEND=noninteractive
  if [[ $(id -u) != 0 ]]; then
    say "not root: run 'sudo apt-get install ${packages[*]}' for the tests that need them"
  elif ! { apt-get update -qq; apt-get install -y -qq --no-install-recommends "${packages[@]}"; } \
    >.tools/studies.log 2>&1 </dev/null; then
    tail -n 3 .tools/studies.log >&2
    say "some could not be had: their tests will be skipped (log: .tools/studies.log)"
    return
  fi
  mark_done studies scripts/packages-studies.txt scripts/requirements-studies.txt
}

# Place and route: for `make place` alone.
setup_place() {
  if is_done place scripts/requirements-place.txt; then return; fi
  say "nextpnr into .venv (seconds)"
  .venv/bin/python -m pip install --quiet --no-cache-dir --disable-pip-version-check --root-user-action=ignore \
    -r scripts/requirements-place.txt </dev/null || die "pip could not install scripts/requirements-place.txt"
  mark_done place scripts/requirements-place.txt
}

for part in "${@:-all}"; do
  case $part in
    all | apt | venv | verilator | core | pyverbs | programs | peers | studies | dist | place) ;;
    *) die "unknown part '$part': use apt, venv, verilator, core, pyverbs, programs, peers, studies, dist or place" ;;
  esac
done
# Two builds started at once must not install twice; flock comes with every Debian.
# The guests take long, and nothing else waits for them.
lock=$stamps/lock
[[ $* != peers ]] || lock+=-peers
exec 9>"$lock"
flock 9
for part in apt venv verilator core pyverbs programs peers studies dist place; do
  if [[ $# == 0 && ! $part =~ ^(programs|peers|studies|dist|place)$ || " $* " == *" $part "* ]]; then "setup_$part"; fi
done
