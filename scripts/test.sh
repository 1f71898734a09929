#!/usr/bin/env bash
# All checks of a change, also after a failure. Prints each step's name and seconds as it goes and ends with one line
# per step: result, seconds, number of tests. Logs: target/test-logs.
# First come the steps that keep all processors busy, one after the other, then two lanes side by side: a test of the
# others wants one processor, or waits for a process.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
logs=${CARGO_TARGET_DIR:-target}/test-logs
rm -rf "$logs"
mkdir -p "$logs"

# "12 passed, 1 failed" of a step's log, from what pytest, cargo test or cargo nextest say.
count_tests() {
  awk '
    /^test result:/ { passed += $4; failed += $6; skipped += $8; next }                # cargo test
    /^ +Summary \[/ { for (i = 2; i <= NF; i++) tally($(i - 1), $i); next }            # cargo nextest
    /[0-9]+ (passed|failed|skipped|error)/ && / in [0-9.]+s/ { for (i = 2; i <= NF; i++) tally($(i - 1), $i) }  # pytest
    function tally(number, word) {
      if (word ~ /^passed/) passed += number
      else if (word ~ /^(failed|error)/) failed += number
      else if (word ~ /^skipped/) skipped += number
    }
    END { printf "%d %d %d", passed, failed, skipped }
  ' "$1"
}

step() {
  local name=$1 rc=0 start=$SECONDS
  local passed fail skipped verdict=ok line
  shift
  printf '\n==== %s: %s\n' "$name" "$*"
  "$@" 2>&1 </dev/null | tee "$logs/$name.log" || rc=1
  # The machine ended a compiler (out of memory, most often): what was built so far stays, so go on from there, once.
  if ((rc)) && grep -qE 'Killed signal terminated program|signal: 9, SIGKILL' "$logs/$name.log"; then
    printf '==== %s: a compiler was killed; once more\n' "$name"
    rc=0
    "$@" 2>&1 </dev/null | tee "$logs/$name.log" || rc=1
  fi
  read -r passed fail skipped < <(count_tests "$logs/$name.log")
  ((rc == 0)) || verdict=FAILED
  line=$(printf '%-12s %-6s %4d s' "$name" "$verdict" $((SECONDS - start)))
  if ((passed + fail > 0)); then
    line+=$(printf '   %4d passed, %d failed, %d skipped' "$passed" "$fail" "$skipped")
  fi
  echo "$line" >>"$logs/summary"
  printf '==== %s\n' "$line"
}

# A step beside others: what it says appears in one piece, when it has ended.
beside() {
  local text
  text=$(step "$@")
  flock "$logs" printf '%s\n' "$text"
}

make=(make --no-print-directory)
# The programs are built with what the tests are built with.
crates="--exclude hca-tidy"
export BUILT="$crates --lib --bins --tests"
step tidy "${make[@]}" tidy
step lint "${make[@]}" lint-rtl
step gen-check "${make[@]}" gen-check
step clippy "${make[@]}" lint-rust
step rust "${make[@]}" test-rust ARGS="--workspace $crates"
step build "${make[@]}" built
step without-rtl scripts/test-without-rtl.sh
set -m # A lane is a process group: one signal ends it with all that it runs.
{
  beside rtl "${make[@]}" test-rtl ARGS="-n 1 --ignore=tests/rtl/link"
  beside timing "${make[@]}" timing-check
} &
lanes=("-$!")
{
  beside peers "${make[@]}" test-peers ARGS="-n 1"
  beside programs "${make[@]}" test-programs
  beside conformance "${make[@]}" test-conformance
  # Of all crates, as they are compiled by now; another one has a test of errors, too.
  beside switches "${make[@]}" test-switches SWITCHED="--workspace $crates"
  beside fuzz "${make[@]}" fuzz ARGS="-verbosity=0"
  beside doc-tests "${make[@]}" test-docs
  # Of the block tests so many that both lanes take the same time.
  beside rtl-link "${make[@]}" test-rtl RTL_TESTS=tests/rtl/link ARGS="-n 1"
  beside formal "${make[@]}" formal
} &
lanes+=("-$!")
trap 'kill -- "${lanes[@]}" 2>/dev/null; exit 1' INT TERM
wait

printf '\n'
cat "$logs/summary"
mapfile -t failed < <(awk '$2 == "FAILED" { print $1 }' "$logs/summary")
# A lane that came to an untimely end has left steps out.
mapfile -t named < <(sed -nE 's/^ *(step|beside) ([a-z-]+) .*/\2/p' scripts/test.sh)
for name in "${named[@]}"; do
  grep -q "^$name " "$logs/summary" || failed+=("$name (did not end)")
done
if ((${#failed[@]})); then
  echo "FAILED in ${SECONDS} s: ${failed[*]}; logs in $logs"
  exit 1
fi
echo "passed in ${SECONDS} s: $(awk '/passed/ { total += $5 } END { print total }' "$logs/summary") tests"
