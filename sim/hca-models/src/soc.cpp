// C entry points around the model of the soft core: a clock cycle each call.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include MODEL_HEADER
#include ROOT_HEADER
#include "verilated.h"

// Verilator's own functions: what follows from inputs, and what happens at the edge of the only clock.
#define CAT3(a, b) a##___##b
#define METHOD(class, name) CAT3(class, name)
#define EVAL_ICO METHOD(ROOT, eval_ico)
#define EVAL_NBA METHOD(ROOT, eval_nba)
void EVAL_ICO(ROOT*);
void EVAL_NBA(ROOT*);

// The same structures as in sim/hca-vsim/src/soc.rs.
struct SocInputs {
  uint64_t now;
  uint32_t fw_rdata;
  uint32_t load_addr;
  uint32_t load_data;
  uint8_t rst;
  uint8_t fw_req_stall;
  uint8_t fw_rd_ack;
  uint8_t fw_wr_ack;
  uint8_t fw_irq;
  uint8_t load_valid;
  uint8_t board_event;
};

struct SocOutputs {
  uint64_t timer_at;
  uint32_t fw_addr;
  uint32_t fw_wdata;
  uint32_t tell_addr;
  uint32_t tell_data;
  uint32_t restarts;
  uint32_t journal_most;
  uint8_t fw_req;
  uint8_t fw_we;
  uint8_t tell_valid;
  uint8_t sleeps;
  uint8_t timer_active;
};

namespace {
// Of the image, the board's data and the boot program.
constexpr size_t kHalfWords = 1 << 17;

struct Instance {
  VerilatedContext context;
  MODEL* model = nullptr;
  // With HCA_FIRMWARE_PROFILE=FILE: cycles that each half word of the image has been at, for
  // scripts/profile_firmware.py.
  const char* profile_path = std::getenv("HCA_FIRMWARE_PROFILE");
  std::vector<uint64_t> profile = std::vector<uint64_t>(profile_path != nullptr ? kHalfWords : 0);
};

void write_profile(const Instance& self) {
  if (std::FILE* file = std::fopen(self.profile_path, "a")) {
    for (size_t at = 0; at < self.profile.size(); at++) {
      if (self.profile[at] != 0) std::fprintf(file, "%zx %llu\n", 2 * at, (unsigned long long)self.profile[at]);
    }
    std::fclose(file);
  }
}
}  // namespace

extern "C" {

void* Vsoc_new(int seed) {
  auto* self = new Instance;
  self->context.randSeed(seed);
  self->context.randReset(2);
  self->context.fatalOnError(false);
  // The model's scopes are entered into the thread's context, and taken out of it.
  Verilated::threadContextp(&self->context);
  self->model = new MODEL{&self->context, "soc"};
  self->model->eval();
  return self;
}

void Vsoc_step(void* opaque, const SocInputs* in, SocOutputs* out) {
  auto& self = *static_cast<Instance*>(opaque);
  auto& model = *self.model;
  model.rst_i = in->rst;
  model.now_i = in->now;
  model.fw_rdata_i = in->fw_rdata;
  model.fw_req_stall_i = in->fw_req_stall;
  model.fw_rd_ack_i = in->fw_rd_ack;
  model.fw_wr_ack_i = in->fw_wr_ack;
  model.fw_irq_i = in->fw_irq;
  model.load_valid_i = in->load_valid;
  model.load_addr_i = in->load_addr;
  model.load_data_i = in->load_data;
  model.board_event_i = in->board_event;
  ROOT& root = *model.rootp;
  root.__VicoTriggered[0] = 1;
  EVAL_ICO(&root);
  root.__VicoTriggered[0] = 0;
  root.__VnbaTriggered[0] = 1;
  EVAL_NBA(&root);
  root.__VnbaTriggered[0] = 0;
  out->timer_at = model.timer_at_o;
  out->fw_addr = model.fw_addr_o;
  out->fw_wdata = model.fw_wdata_o;
  out->tell_addr = model.tell_addr_o;
  out->tell_data = model.tell_data_o;
  out->restarts = model.restarts_o;
  out->journal_most = model.journal_most_o;
  out->fw_req = model.fw_req_o;
  out->fw_we = model.fw_we_o;
  out->tell_valid = model.tell_valid_o;
  out->sleeps = model.sleeps_o;
  out->timer_active = model.timer_active_o;
  if (self.profile_path != nullptr) {
    const size_t at = root.hca_fw_soc__DOT__u_cpu__DOT__u_ibex__DOT__u_ibex_core__DOT__pc_id / 2;
    // Before the first reset it is anywhere.
    if (at < self.profile.size()) self.profile[at]++;
  }
}

void Vsoc_free(void* opaque) {
  auto* self = static_cast<Instance*>(opaque);
  if (self->profile_path != nullptr) write_profile(*self);
  self->model->final();
  Verilated::threadContextp(&self->context);
  delete self->model;
  Verilated::threadContextp(Verilated::defaultContextp());
  delete self;
}

}  // extern "C"
