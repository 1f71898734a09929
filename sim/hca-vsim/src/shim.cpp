// C entry points around one Verilated model (MODEL, its class). Compiled once per model.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include MODEL_HEADER
#include ROOT_HEADER
#include "verilated.h"
#if VM_TRACE
#include "verilated_fst_c.h"
#else
class VerilatedFstC;
#endif
#include "hca_ports.h"
#include "hca_state.h"

#define CAT2(a, b) a##_##b
#define CAT(a, b) CAT2(a, b)
#define ENTRY(name) CAT(MODEL, name)

namespace {
struct Instance {
  VerilatedContext context;
  MODEL* model = nullptr;
  VerilatedFstC* trace = nullptr;
  std::vector<unsigned char> seen;
};

// What decides the future of a model is its registers and inputs. Left out: the time, and memories that are read
// through a register. A write into such a memory repeats itself while all else stands still, so after two cycles
// without a change it has happened, and what a read returns has been seen.
struct Span {
  size_t from, to;
};
constexpr size_t kSmallestMemory = 1024;

std::vector<Span> state_spans() {
  std::vector<Span> out;
  auto leave_out = [&](size_t from, size_t size) { out.push_back({from, from + size}); };
#define MEMORY(name) \
  if (sizeof(ROOT::name) >= kSmallestMemory) leave_out(offsetof(ROOT, name), sizeof(ROOT::name));
  HCA_MEMORIES(MEMORY)
  leave_out(offsetof(ROOT, now_i), sizeof(ROOT::now_i));
  std::sort(out.begin(), out.end(), [](const Span& a, const Span& b) { return a.from < b.from; });
  std::vector<Span> spans;
  size_t from = 0;
  for (const Span& gap : out) {
    if (gap.from > from) spans.push_back({from, gap.from});
    from = gap.to;
  }
  spans.push_back({from, sizeof(ROOT)});
  return spans;
}
const std::vector<Span> kSpans = state_spans();
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

// Nonzero: all state is as it was at the last call.
int ENTRY(same)(void* opaque) {
  auto* self = static_cast<Instance*>(opaque);
  const auto* state = reinterpret_cast<const unsigned char*>(self->model->rootp);
  bool same = !self->seen.empty();
  if (!same) self->seen.resize(sizeof(ROOT));
  for (const Span& span : kSpans) {
    const size_t size = span.to - span.from;
    if (same && !std::memcmp(&self->seen[span.from], state + span.from, size)) continue;
    same = false;
    std::memcpy(&self->seen[span.from], state + span.from, size);
  }
  return same;
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
