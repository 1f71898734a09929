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
    for (size_t at = kWide; at < kWords; at += sizeof bits_) bits_ |= load<uint64_t>(a + at) ^ load<uint64_t>(b + at);
    for (size_t at = kWords; at < kBytes; at++) bits_ |= a[at] ^ b[at];
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

// A part that is awake. Own is made from the lists in hca_state.h: the members that it alone writes.
template <class Own>
class Part {
 public:
  // Before each edge. False: it falls asleep. `changed`: what it reads and others write has since the last edge, or
  // the time that it follows has come.
  template <class Root>
  bool wants_edge(const Root& root, bool changed) {
    if (same_ == kNotLooking) {
      if (--rest_ > 0) return true;
      if (changed || witness_.changed()) {
        rest_ = kPause;
        return true;
      }
      seen_.take(root, &witness_);
      same_ = 0;
      return true;
    }
    changed |= seen_.take(root, &witness_);
    if (changed) {
      same_ = kNotLooking;
      rest_ = pause_;
      pause_ = pause_ < kLongestPause ? 2 * pause_ : kLongestPause;
    } else if (++same_ == kEnough) {
      pause_ = kPause;
      return false;
    }
    return true;
  }

  // Ends its sleep. What it alone writes is what it was.
  void wake() { same_ = 0; }

  // Whether that is so.
  template <class Root>
  bool holds(const Root& root) const {
    return !seen_.differ(root);
  }

 private:
  static constexpr int kNotLooking = -1;
  // Edges that have changed nothing before the next one is left out.
  static constexpr int kEnough = 2;
  // Edges between two looks at a part that is at work; more after looks in vain.
  static constexpr int kPause = 1, kLongestPause = 16;

  Own seen_;
  Witness witness_;
  int same_ = kNotLooking, rest_ = kPause, pause_ = kPause;
};

}  // namespace hca
