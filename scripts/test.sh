#!/usr/bin/env bash
# All checks of a change, one after the other, also after a failure. Prints each step's name and seconds as it goes and
# ends with one line per step: result, seconds, number of tests. Logs: target/test-logs.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
logs=${CARGO_TARGET_DIR:-target}/test-logs
rm -rf "$logs"
mkdir -p "$logs"
summary=() failed=() passed_total=0

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
  ((rc == 0)) || { verdict=FAILED; failed+=("$name"); }
  line=$(printf '%-12s %-6s %4d s' "$name" "$verdict" $((SECONDS - start)))
  if ((passed + fail > 0)); then
    line+=$(printf '   %4d passed, %d failed, %d skipped' "$passed" "$fail" "$skipped")
  fi
  ((passed_total += passed))
  summary+=("$line")
  printf '==== %s\n' "$line"
}

make=(make --no-print-directory)
step tidy "${make[@]}" tidy
step lint "${make[@]}" lint-rtl
step gen-check "${make[@]}" gen-check
step clippy "${make[@]}" lint-rust
step rust "${make[@]}" test-rust ARGS="--workspace --exclude hca-tidy"
step switches "${make[@]}" test-switches
step fuzz "${make[@]}" fuzz ARGS="-verbosity=0"
step doc-tests "${make[@]}" test-docs
step formal "${make[@]}" formal
step timing "${make[@]}" timing-check
step rtl "${make[@]}" test-rtl
step conformance "${make[@]}" test-conformance
step programs "${make[@]}" test-programs
step peers "${make[@]}" test-peers

printf '\n'
printf '%s\n' "${summary[@]}"
if ((${#failed[@]})); then
  echo "FAILED in ${SECONDS} s: ${failed[*]}; logs in $logs"
  exit 1
fi
echo "passed in ${SECONDS} s: $passed_total tests"
