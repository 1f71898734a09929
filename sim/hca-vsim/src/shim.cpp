// C entry points around one Verilated model (MODEL, its class). Compiled once per model.
#include <cstddef>
#include <cstring>

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
#include "parts.h"

#define CAT2(a, b) a##_##b
#define CAT(a, b) CAT2(a, b)
#define ENTRY(name) CAT(MODEL, name)

// Verilator's own function: all logic behind the clocks that __VnbaTriggered names.
#define CAT3(a, b) a##___##b
#define METHOD(class, name) CAT3(class, name)
#define EVAL_NBA METHOD(ROOT, eval_nba)
void EVAL_NBA(ROOT*);

namespace {
constexpr uint64_t kAllParts = ~0ull;
// Stands for no part: for whoever drives the inputs.
constexpr uint64_t kInputs = 1ull << 62;

// Members of the model that lie next to each other, from the first to the last.
#define LENGTH(first, last) (offsetof(ROOT, last) + sizeof(ROOT::last) - offsetof(ROOT, first))
#define PLACE(first) (reinterpret_cast<const unsigned char*>(&root) + offsetof(ROOT, first))
#define MEMBER(first, last) unsigned char first[LENGTH(first, last)];
#define DIFFER(first, last) difference.add<LENGTH(first, last)>(first, PLACE(first));
#define TAKE(first, last) \
  different |= hca::take<LENGTH(first, last)>(first, PLACE(first), different ? nullptr : &witness);
#define ALL(writers, members) members
#define IF_WRITTEN(writers, members) \
  if (ticked & (writers)) { members }
#define PART(n)                                                      \
  struct Members##n {                                                \
    HCA_OWN_##n(MEMBER) HCA_SHARED_##n(ALL, MEMBER)                  \
    bool own_differ(const ROOT& root) const {                        \
      hca::Difference difference;                                    \
      HCA_OWN_##n(DIFFER) return difference.any();                   \
    }                                                                \
    bool shared_differ(const ROOT& root, uint64_t ticked) const {    \
      hca::Difference difference;                                    \
      HCA_SHARED_##n(IF_WRITTEN, DIFFER) return difference.any();    \
    }                                                                \
    bool take(const ROOT& root, hca::Witness& witness) {             \
      bool different = false;                                        \
      HCA_OWN_##n(TAKE) HCA_SHARED_##n(ALL, TAKE) return different;  \
    }                                                                \
  };
HCA_PARTS(PART)

struct Parts {
#define HELD(n) hca::Part<Members##n> part##n;
  HCA_PARTS(HELD)

  // The parts that want an edge, after one of the parts in `ticked`.
  uint64_t choose(const ROOT& root, bool is_due, uint64_t ticked) {
    uint64_t mask = 0;
#define CHOOSE(n)                                  \
  if (is_due && (HCA_TIMED >> n & 1)) part##n.wake(); \
  mask |= uint64_t{part##n.wants_edge(root, ticked)} << n;
    HCA_PARTS(CHOOSE)
    return mask;
  }

  bool hold(const ROOT& root) const {
    bool held = true;
#define HOLD(n) held &= part##n.holds(root);
    HCA_PARTS(HOLD)
    return held;
  }
};

// All parts before an edge at which none is to change.
struct Before {
#define MEMBERS(n) Members##n part##n;
  HCA_PARTS(MEMBERS)

  void take(const ROOT& root) {
    hca::Witness nobody;
#define REMEMBER(n) part##n.take(root, nobody);
    HCA_PARTS(REMEMBER)
  }

  bool holds(const ROOT& root) const {
    bool held = true;
#define SAME(n) held &= !part##n.own_differ(root) && !part##n.shared_differ(root, kAllParts);
    HCA_PARTS(SAME)
    return held;
  }
};

struct Instance {
  VerilatedContext context;
  MODEL* model = nullptr;
  VerilatedFstC* trace = nullptr;
  Parts parts;
  Before before;
  // Parts that the last edge was given to, and the inputs.
  uint64_t ticked = kAllParts;
  bool still = false;
};

void enable_parts(Instance* self, uint64_t mask) {
#if HCA_GATED
  self->model->part_en_i = mask & HCA_GATED;
#endif
}
// What Verilator does at a rising edge of clocks that follow from inputs alone, without the search for them.
void edge(ROOT& root, uint64_t parts) {
  uint64_t triggers = 0;
#define TRIGGER(n) triggers |= (parts >> n & 1) << HCA_TRIGGER_##n;
  HCA_PARTS(TRIGGER)
  root.__VnbaTriggered[0] = triggers;
  EVAL_NBA(&root);
  root.__VnbaTriggered[0] = 0;
}
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
  enable_parts(self, kAllParts);
  return self;
}

// Returns nonzero after $fatal, $stop or a failed assertion.
int ENTRY(eval)(void* opaque) {
  auto* self = static_cast<Instance*>(opaque);
  if (self->model->clk_i) self->ticked = kAllParts;
  self->model->eval();
  return self->context.gotError() || self->context.gotFinish();
}

// What is looked at besides: nothing, parts that the edge was to be left out of, all parts.
enum Check { kNone, kSleeping, kAll };

// The edge of the clock, after what it reads has settled. `is_due`: the time has come that the card named. With a
// `check` all parts get the edge, also those in which it must change nothing. 1 after $fatal, $stop or a failed
// assertion; 2 after a change in such a part.
int ENTRY(clock)(void* opaque, int is_due, int check) {
  auto* self = static_cast<Instance*>(opaque);
  ROOT& root = *self->model->rootp;
  const uint64_t wanted = self->parts.choose(root, is_due, self->ticked);
  const uint64_t mask = check == kNone ? wanted : kAllParts;
  self->ticked = mask | kInputs;
  self->still = wanted == 0;
  if (check == kAll) self->before.take(root);
  if (self->trace) {
    enable_parts(self, mask);
    self->model->clk_i = 1;
    self->model->eval();
    enable_parts(self, kAllParts);  // for those who drive the clock themselves
  } else {
    edge(root, mask);
  }
  if (self->context.gotError() || self->context.gotFinish()) return 1;
  if (check == kAll) return self->before.holds(root) ? 0 : 2;
  return check == kNone || self->parts.hold(root) ? 0 : 2;
}

// Nonzero: the last edge has changed nothing in any part.
int ENTRY(still)(void* opaque) { return static_cast<Instance*>(opaque)->still; }

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
