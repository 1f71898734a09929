# Every target installs what it needs first (scripts/setup.sh, a fraction of a second once done) and takes arguments
# for its program in ARGS, for example: make demo ARGS="--help"
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/bash

CARGO_TARGET_DIR ?= target
HCA := $(CARGO_TARGET_DIR)/release/hca
PYTEST := .venv/bin/python -m pytest -q -p no:cacheprovider
SEEDS ?= 10000
OPERATIONS ?= 1000000
MINUTES ?= 30
RUNS ?= 300000
ARGS ?=
BLOCKS ?=
RTL_TESTS ?= tests/rtl

# The tools of the checkout come before those of the machine. VERILATOR is deliberately not set here: the simulator's
# build script finds .tools/verilator by itself, and a variable that only make sets would rebuild the model each time
# one changes between make and cargo.
export PATH := $(CURDIR)/.venv/bin:$(CURDIR)/.tools/verilator/bin:$(PATH)
export CARGO_TERM_PROGRESS_WHEN ?= never
export PYTHONDONTWRITEBYTECODE := 1

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# ---- Use it ----------------------------------------------------------------------------------------------------------

.PHONY: demo sim perf trace bench-sim bench-firmware bench-compiler model
demo: hca ## two simulated cards, one cable, verbs traffic between them
	$(HCA) demo $(ARGS)

sim: hca ## start a simulator that other processes attach to
	$(HCA) sim $(ARGS)

# For machines without Verilator and C++ compiler: what the C libraries need besides Rust is libclang and rdma-core's
# headers.
model: ## hca with cards of the model alone, in a minute or two: no RTL, no Verilator (then: hca sim --model)
	cargo build --release -p hca --no-default-features
	cargo build --release -p hca-capi -p hca-rdmacm -p hca-rspreload -p hca-umad -p hca-view -p hca-netlink

perf: hca ## bandwidth, message rate and latency in simulated time
	$(HCA) perf $(ARGS)

trace: hca ## the demo with waveforms of a window of cycles: make trace ARGS="--trace 60000:70000"
	$(HCA) demo $(or $(ARGS),--trace 60000:65000)

bench-sim: setup ## the simulator's speed against the commit before it was made faster (builds both; minutes)
	.venv/bin/python scripts/bench_sim.py $(ARGS)

bench-firmware: setup ## what the card's own processor costs the simulator while it sleeps (a minute)
	.venv/bin/python scripts/bench_firmware.py $(ARGS)

bench-compiler: setup ## what options of Verilator and the C++ compiler do to its speed (half an hour; some: --only)
	.venv/bin/python scripts/bench_compiler.py $(ARGS)

# ---- Check it --------------------------------------------------------------------------------------------------------

.PHONY: area memory coverage-requirements formal test test-rtl test-rust test-switches test-docs test-conformance
.PHONY: fabric test-programs programs test-peers peers place studies tidy timing timing-check soak fuzz lint lint-rtl
.PHONY: lint-rust miri test-soft-core test-model test-without-rtl test-least
test: setup ## everything a change must pass: lint, generated files, all tests
	@scripts/test.sh

lint: lint-rtl lint-rust ## RTL (Verilator, slang, verible) and Rust (rustfmt, clippy)

lint-rtl: setup
	scripts/lint-rtl.sh

# Release profile, as every other build here: what build scripts and macros need is then compiled once.
lint-rust: setup
	cargo fmt --all --check -- -l || { echo "lint: the files above are not formatted: run 'make fmt'"; exit 1; }
	cargo clippy --quiet --release --workspace --all-targets -- -D warnings

test-rtl: setup ## block tests of the RTL (cocotb); one of them: make test-rtl ARGS="-k fifo"
	$(PYTEST) -n 2 $(RTL_TESTS) $(ARGS)

formal: setup ## proofs of the RTL's cells (SymbiYosys); one of them: make formal ARGS=fv_fifo
	.venv/bin/python scripts/formal.py $(ARGS)

timing: setup ## worst paths of every block, by open synthesis (minutes); some: make timing BLOCKS="hca_eq hca_cq"
	.venv/bin/python scripts/timing.py $(BLOCKS) $(ARGS)

timing-check: setup ## the part of it that CI looks at, and the tests of the estimate
	$(PYTEST) tests/scripts
	.venv/bin/python scripts/timing.py --check $(ARGS)

coverage-requirements: ## statements of the requirements that a test names, by section; which are not: ARGS=--missing
	@python3 scripts/requirements_named.py $(ARGS)

memory: setup ## Bits of every RAM of the card with 1,024, 4,096 and 16,384 lines (docs/memory.md)
	.venv/bin/python scripts/memory.py $(ARGS)

area: setup ## LUTs, flip-flops and RAMs of every block, by the same synthesis; fails on a RAM that became registers
	.venv/bin/python scripts/area.py $(BLOCKS) $(ARGS)

place: setup ## the worst blocks of make timing, placed and routed on an ECP5; some: make place BLOCKS=hca_eq
	@scripts/setup.sh place
	.venv/bin/python scripts/place.py $(BLOCKS) $(ARGS)

test-conformance: built ## packets judged by tools that are not ours (tshark, scapy)
	$(PYTEST) tests/conformance $(ARGS)

fabric: built ## fabrics that OpenSM sets up: rings, partitions, standby, pulled cables (minutes)
	$(PYTEST) tests/fabric $(ARGS)

test-programs: built ## unmodified verbs programs on simulated cards: one of each kind
	$(PYTEST) tests/programs -m quick $(ARGS)

programs: built ## all of them (minutes); ends with a table. Some: make programs ARGS="-k ib_write_bw"
	@scripts/setup.sh programs
	$(PYTEST) tests/programs $(ARGS)

test-peers: built ## cards in guests with Linux, and Linux's soft-RoCE as the peer: a two-minute part
	@scripts/setup.sh peers
	$(PYTEST) -n 2 --dist loadfile tests/peers -m quick $(ARGS)

studies: hca ## sweeps on Dask and Slurm, the page of a run in a browser (installs them; minutes)
	@scripts/setup.sh studies
	$(PYTEST) tests/studies $(ARGS)

peers: built ## all of it (minutes); ends with a table. Some: make peers ARGS="-k rxe"
	@scripts/setup.sh peers
	$(PYTEST) -n 2 --dist loadfile tests/peers $(ARGS)

test-rust: setup ## unit and system tests; one crate: make test-rust ARGS="-p hca-wire"
	@if cargo nextest --version >/dev/null 2>&1; then \
	  set -x; cargo nextest run --release --no-fail-fast --show-progress none --status-level fail \
	    $(or $(ARGS),--workspace); \
	else \
	  set -x; cargo test --release --no-fail-fast $(or $(ARGS),--workspace --lib --bins --tests); \
	fi

# Transfers, errors and NAKs as over a cable; what a test does not say about switches is here two of them.
test-switches: setup ## the transport's system tests through two switches
	HCA_SWITCHES=2 cargo test --quiet --release --no-fail-fast $(or $(SWITCHED),-p hca-system-tests) \
	  --test transfer --test naks --test errors

# Tests of fast cards, which have no processor of their own.
OF_FAST_CARDS := model_seeds model_and_rtl rtl_and_model both_designs one_program_is_told who_looks random_programs
# The quick part of it is in make test (soft_core.rs). The second part runs though the first one has failed.
test-soft-core: setup ## every system test with firmware on the card's own processor (half an hour)
	@set -x; ok=true; \
	cargo test --quiet --release --no-fail-fast -p hca-system-tests --test soft_core -- --include-ignored || ok=false; \
	HCA_FIRMWARE=core cargo test --quiet --release --no-fail-fast -p hca-system-tests $(or $(ARGS),--tests) -- \
	  $(addprefix --skip ,$(OF_FAST_CARDS)) || ok=false; \
	$$ok

# What is left away is about cycles, lanes or the host's PCIe, which such a card does not have (docs/model.md).
test-model: setup ## system tests on cards without gates (a minute, once they are compiled)
	HCA_CARD=model cargo test --quiet --release --no-fail-fast -p hca-system-tests $(or $(ARGS),\
	  $(addprefix --test ,design transfer states errors data_path unreliable datagrams atomics masked_atomics migration \
	  flush shared shared_failures xrc windows loopback events drain keys control_plane device_memory groups partitions \
	  naks fence refused wrap generations parity vpi management overrun soak) -- $(addprefix --skip ,functions_take_turns \
	  a_send_queue_drains_and_goes_on a_key_that_never_comes a_repeated_request_does_not_take_away_a_nak \
	  key_3_a_locked_port_serves_the_holder_alone))

# Everything that a card may be built without is left out (decision 0081). Its build lies beside the usual one.
test-least: setup ## the least card: what it refuses, and what every card has (a quarter of an hour)
	HCA_VSIM_FEATURES=none HCA_VSIM_POOLS=small HCA_VSIM_FUNCS=4 CARGO_TARGET_DIR=target/least \
	  cargo test --quiet --release --no-fail-fast -p hca-system-tests $(or $(ARGS),$(addprefix --test ,features \
	  transfer data_path datagrams unreliable errors naks wrap fence loopback parity vpi \
	  lanes rates groups management push generations liveness))

test-without-rtl: built ## hca builds and works without Verilator and a C++ compiler (half a minute)
	scripts/test-without-rtl.sh

# A toolchain of its own, which scripts/setup.sh does not install: rustup toolchain install nightly -c miri,rust-src
# Devices are kept for the life of a process (leaks). Races are loom's: Rust's memory model has no words of which one
# side writes eight bytes and the other reads four, as card and driver do.
MIRIFLAGS := -Zmiri-disable-isolation -Zmiri-permissive-provenance -Zmiri-ignore-leaks \
  -Zmiri-disable-data-race-detector
MIRI := CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/miri MIRIFLAGS="$(MIRIFLAGS)" cargo +nightly miri test
miri: ## pointers of the driver's unsafe code, judged by Miri (minutes; needs Rust's nightly)
	$(MIRI) -p hca-capi --lib flow
	$(MIRI) -p hca-capi --lib live
	$(MIRI) -p hca-dev --lib copy

test-docs: setup ## the examples in the Rust documentation
	cargo test --quiet --release --no-fail-fast --doc --workspace

tidy: setup ## house rules: sizes, names, file lists, links, names in docs
	RUST_BACKTRACE=0 cargo test --quiet --no-fail-fast --release -p hca-tidy

fuzz: setup ## whatever bytes a client sends decode or fail (libFuzzer): make fuzz RUNS=100000000
	scripts/fuzz.sh $(RUNS) $(ARGS)

soak: hca ## random faults and sieges by seed, a link, the QoS paper's sweep, peers: make soak SEEDS=9 MINUTES=1
	HCA_SWITCHES=2 cargo test --release --no-fail-fast -p hca-system-tests
	SEEDS=$(SEEDS) OPERATIONS=$(OPERATIONS) cargo test --release -p hca-system-tests -- \
	  --ignored --nocapture soak
	$(HCA) soak --seeds $(SEEDS)0 --start 10000 --cards model,model
	$(HCA) soak --seeds $(SEEDS) --start 1000 --cards model,rtl
	$(MAKE) --no-print-directory test-least
	cargo test --release -p hca-verbs --test errors -- --ignored a_million_regions
	scripts/fuzz.sh $(OPERATIONS)0
	HCA_AGENT_CASES=1000000 cargo test --release -p hca-agents hostile
	HCA_COMMAND_CASES=200000 cargo test --release -p hca-driver --test bring_up garbage
	HCA_SWITCH_SOAK=1000000 cargo test --release -p hca-switch --test traffic random_traffic
	LINK_PACKETS=1000000 LINK_VLS=1,2,4,15 .venv/bin/python -m pytest -q tests/rtl/link/test_link.py
	$(HCA) qos --random 200 --within 1
	$(HCA) qos --paper --within 1
	$(MAKE) --no-print-directory peers ARGS="-k soak --soak-minutes $(MINUTES)"

# ---- Change it -------------------------------------------------------------------------------------------------------

.PHONY: gen gen-check fmt
gen: setup ## write the files generated from abi/ (layouts, registers)
	cargo run --quiet --release -p hca-abi-gen -- write
	scripts/gen-regs.sh
	.venv/bin/python tests/peers/listing.py write

gen-check: setup ## fail if a generated file is not what abi/ says
	cargo run --quiet --release -p hca-abi-gen -- check
	scripts/gen-check-regs.sh
	.venv/bin/python tests/peers/listing.py check

fmt: ## format the Rust code
	cargo fmt --all

# ---- The checkout ----------------------------------------------------------------------------------------------------

.PHONY: setup hca doctor clean
setup: ## install what is missing (Debian packages, .venv, Verilator)
	@scripts/setup.sh

hca: setup
	cargo build --release -p hca

.PHONY: built libibverbs
# All crates at once: what the tests have compiled serves here too. The tests of libraries ask for features of other
# libraries which the programs do without: with BUILT="--lib --bins --tests" nothing is compiled for want of them.
built: setup
	cargo build --release --workspace $(BUILT)

libibverbs: setup ## the drop-in libraries that unmodified programs load
	cargo build --release -p hca-capi -p hca-rdmacm -p hca-rspreload -p hca-umad -p hca-view -p hca-netlink

# ---- Give it away ----------------------------------------------------------------------------------------------------

.PHONY: dist oci test-dist
DIST := $(CARGO_TARGET_DIR)/dist
dist: setup ## a .deb and an archive with hca, libraries, man pages, in target/dist (docs/ci.md)
	scripts/dist/build.sh
	scripts/dist/pack.sh $(DIST)

oci: dist ## the same as an OCI image, on a bare Debian
	@scripts/setup.sh dist
	scripts/setup-roots.sh $(CARGO_TARGET_DIR)/roots bookworm
	.venv/bin/python scripts/dist/oci.py $(CARGO_TARGET_DIR)/roots/bookworm.tar $(DIST)/openhca_*.deb $(DIST)

test-dist: oci ## install it in bare Debian roots, run the image and what docs/ci.md says (minutes)
	scripts/setup-roots.sh $(CARGO_TARGET_DIR)/roots
	$(PYTEST) tests/dist $(ARGS)

doctor: ## say which tools are there, which are missing, and what they are for
	@scripts/doctor.sh

clean: ## remove what was built (tools stay; for those: rm -rf .venv .tools)
	cargo clean --quiet
	find tests hw -name sim_build -prune -exec rm -rf {} +
