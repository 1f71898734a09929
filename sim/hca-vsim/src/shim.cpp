// C entry points around one Verilated model (MODEL, its class). Compiled once per model.
#include MODEL_HEADER
#include "verilated.h"
#if VM_TRACE
#include "verilated_fst_c.h"
#else
class VerilatedFstC;
#endif
#include "hca_ports.h"

#define CAT2(a, b) a##_##b
#define CAT(a, b) CAT2(a, b)
#define ENTRY(name) CAT(MODEL, name)

namespace {
struct Instance {
  VerilatedContext context;
  MODEL* model = nullptr;
  VerilatedFstC* trace = nullptr;
};
}  // namespace

extern "C" {

void* ENTRY(new)(int seed, HcaPorts* ports) {
  auto* self = new Instance;
  self->context.randSeed(seed);
  self->context.randReset(2);
  self->context.traceEverOn(true);
  self->context.fatalOnError(false);
  self->model = new MODEL{&self->context, "card"};
  hca_fill_ports(self->model, ports);
  return self;
}

// Returns nonzero after $fatal, $stop or a failed assertion.
int ENTRY(eval)(void* opaque) {
  auto* self = static_cast<Instance*>(opaque);
  self->model->eval();
  return self->context.gotError() || self->context.gotFinish();
}

int ENTRY(trace_open)(void* opaque, const char* path) {
#if VM_TRACE
  auto* self = static_cast<Instance*>(opaque);
  if (self->trace) return 0;
  self->trace = new VerilatedFstC;
  self->context.timeunit(-9);
  self->context.timeprecision(-12);
  self->model->trace(self->trace, 99);
  self->trace->open(path);
  return self->trace->isOpen();
#else
  return 0;  // built without waveforms
#endif
}

void ENTRY(trace_dump)(void* opaque, uint64_t time_ps) {
#if VM_TRACE
  auto* self = static_cast<Instance*>(opaque);
  if (self->trace) self->trace->dump(time_ps);
#endif
}

void ENTRY(trace_close)(void* opaque) {
#if VM_TRACE
  auto* self = static_cast<Instance*>(opaque);
  if (!self->trace) return;
  self->trace->close();
  delete self->trace;
  self->trace = nullptr;
#endif
}

void ENTRY(free)(void* opaque) {
  auto* self = static_cast<Instance*>(opaque);
  ENTRY(trace_close)(opaque);
  self->model->final();
  delete self->model;
  delete self;
}

}  // extern "C"
