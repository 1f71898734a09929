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
// All logic that follows from inputs.
#define EVAL_ICO METHOD(ROOT, eval_ico)
void EVAL_ICO(ROOT*);

namespace {
#define BIT(n) | 1ull << n
constexpr uint64_t kAllParts = ~0ull, kParts = 0 HCA_PARTS(BIT);

// Members of the model that lie next to each other, from the first to the last.
#define LENGTH(first, last) (offsetof(ROOT, last) + sizeof(ROOT::last) - offsetof(ROOT, first))
#define PLACE(first) (reinterpret_cast<const unsigned char*>(&root) + offsetof(ROOT, first))

#define MEMBER(first, last) unsigned char first[LENGTH(first, last)];
#define TAKE(first, last) different |= hca::take<LENGTH(first, last)>(first, PLACE(first), witness);
#define DIFFER(first, last) difference.add<LENGTH(first, last)>(first, PLACE(first));
#define SEEN(n)                                             \
  struct Seen##n {                                          \
    HCA_OWN_##n(MEMBER)                                     \
    HCA_READS_##n(MEMBER)                                   \
    bool take(const ROOT& root, hca::Witness* witness) {    \
      bool different = false;                               \
      HCA_OWN_##n(TAKE) HCA_READS_##n(TAKE)                 \
      return different;                                     \
    }                                                       \
    bool own_differs(const ROOT& root) const {              \
      hca::Difference difference;                           \
      HCA_OWN_##n(DIFFER) return difference.any();          \
    }                                                       \
    bool reads_differ(const ROOT& root) const {             \
      hca::Difference difference;                           \
      HCA_READS_##n(DIFFER) return difference.any();        \
    }                                                       \
  };
HCA_PARTS(SEEN)

class Parts {
 public:
  // The parts that want an edge.
  uint64_t choose(const ROOT& root, bool is_due, bool may_rest) {
    const uint64_t due = is_due ? HCA_TIMED : 0;
    uint64_t wanted = 0;
#define WANTS(n) wanted |= uint64_t{part##n.wants_edge(root, due >> n & 1, may_rest)} << n;
    HCA_PARTS(WANTS)
    return wanted;
  }

  // Whether what a part that sleeps alone writes is what it was when it fell asleep.
  bool hold(const ROOT& root) const {
    bool held = true;
#define HOLD(n) held &= part##n.holds(root);
    HCA_PARTS(HOLD)
    return held;
  }

 private:
#define HELD(n) hca::Part<Seen##n> part##n;
  HCA_PARTS(HELD)
};

// All parts before an edge at which none is to change.
struct Before {
#define BEFORE(n) Seen##n seen##n;
  HCA_PARTS(BEFORE)

  void take(const ROOT& root) {
#define REMEMBER(n) seen##n.take(root, nullptr);
    HCA_PARTS(REMEMBER)
  }

  bool holds(const ROOT& root) const {
    bool held = true;
#define SAME(n) held &= !seen##n.own_differs(root) && !seen##n.reads_differ(root);
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
  // Verilator has seen the clock low, and has not seen the edges since.
  bool is_low = false;
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
  if (self->is_low && !self->trace && !self->model->clk_i) {
    // What Verilator does when no clock has changed, without the search for clocks.
    self->model->rootp->__VicoTriggered[0] = 1;
    EVAL_ICO(self->model->rootp);
  } else {
    self->model->eval();
    self->is_low = !self->model->clk_i;
  }
  return self->context.gotError() || self->context.gotFinish();
}

// What is looked at besides: nothing, parts that the edge was to be left out of, all parts.
enum Check { kNone, kSleeping, kAll };

// The edge of the clock, after what it reads has settled. `is_due`: the time has come that the card named. With a
// `check` all parts get the edge, also those in which it must change nothing. `may_rest`: who kept parts at work has
// stopped. 1 after $fatal, $stop or a failed assertion; 2 after a change in such a part.
int ENTRY(clock)(void* opaque, int is_due, int check, int may_rest) {
  auto* self = static_cast<Instance*>(opaque);
  ROOT& root = *self->model->rootp;
  const uint64_t wanted = self->parts.choose(root, is_due, may_rest);
  const uint64_t mask = check == kNone ? wanted : kAllParts;
  self->still = wanted == 0;
  if (check == kAll) self->before.take(root);
  if (self->trace) {
    enable_parts(self, mask);
    self->model->clk_i = 1;
    self->model->eval();
    self->is_low = false;
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
