#!/usr/bin/env bash
# Programs for `make programs` that Debian does not have: Mooncake's transfer engine, NIXL, tests and demos of mpi4py as
# Debian has it (PyPI), and the examples of three Rust crates, built as they are. The crate ibverbs brings rdma-core's
# headers along and configures them with cmake.
# usage: setup-programs.sh PYTHON DEST
# Afterwards DEST/python and DEST/nixl are for PYTHONPATH, DEST/bin holds the examples, DEST/mpi4py the sources.
set -euo pipefail
python=$(realpath -s "$1")
dest=$(realpath -m "$2")

mkdir -p "$(dirname "$dest")"
work=$(mktemp -d "$dest.XXXXXX")
trap 'rm -rf "$work"' EXIT
# Of its dependencies the engine itself uses none.
"$python" -m pip install --quiet --no-cache-dir --disable-pip-version-check --root-user-action=ignore --no-deps \
  --target "$work/new/python" mooncake-transfer-engine-non-cuda==0.3.13.post1 </dev/null
# NIXL's Python uses numpy. Its plugins for GPUs and clouds are of no use here, and large.
"$python" -m pip install --quiet --no-cache-dir --disable-pip-version-check --root-user-action=ignore --no-deps \
  --target "$work/new/nixl" nixl-cu12==1.5.1 numpy==2.3.5 </dev/null
rm -rf "$work/new/nixl"/nixl_ep_cu12
"$python" -m pip download --quiet --no-cache-dir --disable-pip-version-check --no-deps --no-binary :all: \
  --dest "$work" mpi4py==3.1.4 </dev/null
mkdir "$work/new/mpi4py"
tar -xzf "$work"/mpi4py-*.tar.gz -C "$work/new/mpi4py" --strip-components 1
export CARGO_TARGET_DIR="$work/target"
cargo install --quiet --locked --root "$work/new" ibverbs --version 0.9.2 --example loopback </dev/null
cargo install --quiet --locked --root "$work/new" sideway --version 0.4.3 --example rc_pingpong </dev/null
cargo install --quiet --locked --root "$work/new" async-rdma --version 0.5.0 --features cm,raw --debug \
  --example rpc --example cm_server --example cm_client --example server --example client </dev/null
rm -rf "$dest"
mv "$work/new" "$dest"
