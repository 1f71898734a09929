#!/usr/bin/env bash
# Builds what is given to others: models for any processor of level x86-64-v3, the C++ runtime linked in, no paths of
# this checkout inside. A cargo profile of its own: nothing of the ordinary build is compiled anew.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=$PWD
export HCA_VSIM_PORTABLE=1
export HCA_VSIM_CFLAGS="-O2 -march=x86-64-v3"
export RUSTFLAGS="--remap-path-prefix=$here=. --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"
exec cargo build --profile portable --locked -p hca -p hca-capi -p hca-rdmacm -p hca-rspreload -p hca-umad \
  -p hca-view -p hca-netlink
