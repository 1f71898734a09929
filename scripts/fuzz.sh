#!/usr/bin/env bash
# Coverage-guided fuzzing of the vfio-user codec (libFuzzer): scripts/fuzz.sh RUNS [libFuzzer's options].
# The stable compiler will do: the coverage is LLVM's, asked for by name, and libFuzzer comes with its crate.
# Starts from the corpus in driver/hca-vfio-user/fuzz/corpus; what it finds besides goes to target/fuzz/corpus.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
runs=${1:?usage: scripts/fuzz.sh RUNS [libFuzzer\'s options]}
shift
target=${CARGO_TARGET_DIR:-target}/fuzz
host=$(rustc -vV | sed -n 's/^host: //p')
coverage=(level=4 inline-8bit-counters pc-table trace-compares)
flags="-Cpasses=sancov-module -Ccodegen-units=1 --cfg fuzzing"
for option in "${coverage[@]}"; do
  flags+=" -Cllvm-args=-sanitizer-coverage-$option"
done
# With --target the flags are not those of build scripts.
RUSTFLAGS=$flags cargo build --quiet --release --locked --target "$host" --target-dir "$target" \
  --manifest-path driver/hca-vfio-user/fuzz/Cargo.toml
mkdir -p "$target/corpus"
"$target/$host/release/codec" "$target/corpus" driver/hca-vfio-user/fuzz/corpus -runs="$runs" \
  -artifact_prefix="$target/" -max_len=4096 -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 "$@"
