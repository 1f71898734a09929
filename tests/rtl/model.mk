# A model of the block tests (model.py). What all models share lies in RUNTIME: Verilator's headers, precompiled, and
# its runtime. A model itself is one C++ file with cocotb's main function; as models run for seconds, more than -O1
# would lose in the compiler what it gains.
SELF := $(lastword $(MAKEFILE_LIST))
include Vtop_classes.mk

INCLUDE := $(VERILATOR_ROOT)/include
FLAGS := -std=gnu++20 -fcoroutines -faligned-new -w -I$(INCLUDE) -I$(INCLUDE)/vltstd -DVERILATOR=1 -DVM_COVERAGE=0 \
  -DVM_SC=0 -DVM_TIMING=1 -DVM_TRACE=$(TRACE) -DVM_TRACE_FST=0 -DVM_TRACE_VCD=$(TRACE) -DVM_TRACE_SAIF=0
MODEL_FLAGS := $(FLAGS) -O1
CLASSES := $(VM_CLASSES_FAST) $(VM_CLASSES_SLOW) $(VM_SUPPORT_FAST) $(VM_SUPPORT_SLOW)
PARTS := verilated verilated_vpi verilated_timing verilated_threads $(if $(filter 1,$(TRACE)),verilated_vcd_c)
OBJECTS := $(PARTS:%=$(RUNTIME)/%.o)

$(TOP): model.o $(OBJECTS)
	$(CXX) -o $@ $^ -Wl,-rpath,$(COCOTB_LIBS) -L$(COCOTB_LIBS) -lcocotbvpi_verilator -pthread -latomic

model.o: model.cpp $(CLASSES:%=%.cpp) $(wildcard *.h) $(RUNTIME)/all.h.gch $(SELF)
	$(CXX) $(MODEL_FLAGS) -I. -include $(RUNTIME)/all.h -c -o $@ $<

model.cpp: Vtop_classes.mk
	printf '#include "%s"\n' $(CLASSES:%=%.cpp) $(COCOTB_SHARE)/lib/verilator/verilator.cpp >$@

.PHONY: runtime
runtime: $(OBJECTS) $(RUNTIME)/all.h.gch

$(RUNTIME)/%.o: $(INCLUDE)/%.cpp
	$(CXX) $(FLAGS) -O2 -c -o $@ $<

$(RUNTIME)/all.h: $(SELF)
	printf '#include "%s"\n' verilated.h verilated_vpi.h verilated_timing.h >$@

$(RUNTIME)/all.h.gch: $(RUNTIME)/all.h
	$(CXX) $(MODEL_FLAGS) -x c++-header -o $@ $<
