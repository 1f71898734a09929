// Parts of a model whose clock is left out of a cycle because nothing in them would change (see shim.cpp).
//
// What an edge does to a part follows from the members that its code may read, its own registers included. Two edges
// with the same values in all of them: the second has changed nothing but memories, and repeated what the first wrote
// there. After a third with the same no further one changes anything until a member changes that others write too, or
// until the time comes that the card has named. What the code reads is taken from it by build/code.rs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace hca {

// Collects whether any of so many bytes differ, without a branch: most of what is compared is the same.
class Difference {
 public:
  template <size_t kBytes>
  [[gnu::always_inline]] void add(const unsigned char* a, const unsigned char* b) {
    constexpr size_t kWide = kBytes / sizeof(Lane) * sizeof(Lane);
    for (size_t at = 0; at < kWide; at += sizeof(Lane)) wide_ |= load<Lane>(a + at) ^ load<Lane>(b + at);
    constexpr size_t kWords = kBytes / sizeof bits_ * sizeof bits_;
    for (size_t at = kWide; at < kWords; at += sizeof bits_) word<uint64_t>(a + at, b + at);
    // What is left is less than a word: the last word of all has it, too.
    constexpr size_t kLeft = kBytes - kWords;
    if constexpr (kLeft > 0 && kBytes > sizeof(uint64_t)) {
      word<uint64_t>(a + kBytes - sizeof(uint64_t), b + kBytes - sizeof(uint64_t));
    } else if constexpr (kLeft >= sizeof(uint32_t)) {
      word<uint32_t>(a, b);
      word<uint32_t>(a + kBytes - sizeof(uint32_t), b + kBytes - sizeof(uint32_t));
    } else {
      for (size_t at = kWords; at < kBytes; at++) word<unsigned char>(a + at, b + at);
    }
  }

  bool any() const { return bits_ | wide_[0] | wide_[1] | wide_[2] | wide_[3]; }

 private:
  // As wide as the compiler's target has registers, or made of several.
  typedef uint64_t Lane __attribute__((vector_size(32)));

  template <class T>
  static T load(const unsigned char* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }

  template <class T>
  [[gnu::always_inline]] void word(const unsigned char* a, const unsigned char* b) {
    bits_ |= load<T>(a) ^ load<T>(b);
  }

  uint64_t bits_ = 0;
  Lane wide_ = {};
};

// A byte that had changed when a part was last looked at. While it goes on changing nobody need look further.
class Witness {
 public:
  void call(const unsigned char* now, const unsigned char* before) {
    while (*now == *before) now++, before++;
    byte_ = now;
    last_ = *now;
  }

  // Whether it has changed since the last time.
  bool changed() {
    const bool changed = *byte_ != last_;
    last_ = *byte_;
    return changed;
  }

 private:
  static constexpr unsigned char kNone = 0;
  const unsigned char* byte_ = &kNone;
  unsigned char last_ = 0;
};

// Takes bytes over; whether any had changed.
template <size_t kBytes>
bool take(unsigned char* to, const unsigned char* from, Witness* witness) {
  Difference difference;
  difference.add<kBytes>(to, from);
  if (!difference.any()) return false;
  if (witness) witness->call(from, to);
  std::memcpy(to, from, kBytes);
  return true;
}

// A part. Seen is made from the lists in hca_state.h: what its edge reads as it was once, what it alone writes and what
// others write.
template <class Seen>
class Part {
 public:
  // Before each edge: whether it wants it. `is_due`: the time that it follows has come. `may_rest`: who kept it at work
  // has stopped, so it is looked at often until it rests.
  template <class Root>
  bool wants_edge(const Root& root, bool is_due, bool may_rest) {
    if (is_asleep_) {
      if (!is_due && !seen_.reads_differ(root)) return false;
      is_asleep_ = false;
      look(root);
      return true;
    }
    if (may_rest) {
      eager_ = kEager;
      pause_ = rest_ = kPause;
    }
    if (same_ == kNotLooking) {
      if (--rest_ > 0) return true;
      if (is_due || witness_.changed()) {
        rest_ = kPause;
      } else {
        look(root);
      }
      return true;
    }
    if (seen_.take(root, &witness_) | is_due) {
      same_ = kNotLooking;
      rest_ = pause_;
      if (eager_ > 0) {
        eager_--;
      } else {
        pause_ = pause_ < kLongestPause ? 2 * pause_ : kLongestPause;
      }
    } else if (++same_ == kEnough) {
      pause_ = kPause;
      is_asleep_ = true;
    }
    return !is_asleep_;
  }

  // Whether what it alone writes is what it was when it fell asleep, if it sleeps.
  template <class Root>
  bool holds(const Root& root) const {
    return !is_asleep_ || !seen_.own_differs(root);
  }

 private:
  static constexpr int kNotLooking = -1;
  // Edges that have changed nothing before the next one is left out.
  static constexpr int kEnough = 2;
  // Edges between two looks at a part that is at work; more after looks in vain.
  static constexpr int kPause = 1, kLongestPause = 16;
  // So many looks in vain make no pause longer.
  static constexpr int kEager = 8;

  template <class Root>
  void look(const Root& root) {
    seen_.take(root, &witness_);
    same_ = 0;
  }

  Seen seen_;
  Witness witness_;
  int same_ = kNotLooking, rest_ = kPause, pause_ = kPause, eager_ = 0;
  bool is_asleep_ = false;
};

}  // namespace hca
