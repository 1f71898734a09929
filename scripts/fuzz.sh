#!/usr/bin/env bash
# Coverage-guided fuzzing of what comes from outside (libFuzzer): scripts/fuzz.sh RUNS [libFuzzer's options].
# `codec`: what a client sends by vfio-user; `packets`: what a cable brings. The stable compiler will do: the coverage
# is LLVM's, asked for by name, and libFuzzer comes with its crate.
# Starts from the corpora beside the targets; what it finds besides goes to target/fuzz/corpus.
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
fuzz() { # NAME CRATE
  local name=$1 crate=$2 corpus=("$target/corpus/$1")
  shift 2
  # With --target the flags are not those of build scripts.
  RUSTFLAGS=$flags cargo build --quiet --release --locked --target "$host" --target-dir "$target" \
    --manifest-path "$crate/Cargo.toml"
  mkdir -p "${corpus[0]}"
  [ ! -d "$crate/corpus" ] || corpus+=("$crate/corpus")
  "$target/$host/release/$name" "${corpus[@]}" -runs="$runs" -artifact_prefix="$target/" -max_len=4096 -timeout=10 \
    -rss_limit_mb=1024 -print_final_stats=1 "$@"
}
fuzz codec driver/hca-vfio-user/fuzz "$@"
fuzz packets sim/hca-model/fuzz "$@"
