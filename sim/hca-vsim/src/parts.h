// Parts of a model whose clock is left out of a cycle because nothing in them would change (see shim.cpp).
//
// What an edge does to a part follows from the members that its code may read, its own registers included. Two edges
// with the same values in all of them: the second has changed nothing but memories, and repeated what the first wrote
// there. After a third with the same no further one changes anything until a member changes that others write too, or
// until the time comes that the card has named. What the code reads is taken from it by build/state.rs.
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

// A part: Members is made from the lists in hca_state.h, members of the model as they were when they were last taken.
template <class Members>
class Part {
 public:
  // Before each edge. False: it would change nothing. `ticked`: bits of the parts that had the last one.
  template <class Root>
  bool wants_edge(const Root& root, uint64_t ticked) {
    if (asleep_ && !seen_.shared_differ(root, ticked)) return false;
    if (!asleep_ && same_ == kNotLooking) {
      if (--rest_ > 0) return true;
      if (witness_.changed()) {
        rest_ = kPause;
        return true;
      }
    }
    const bool changed = seen_.take(root, witness_);
    // A first look only remembers, and so does the one that ends a sleep.
    if (asleep_ || same_ == kNotLooking) {
      asleep_ = false;
      same_ = 0;
    } else if (changed) {
      same_ = kNotLooking;
      rest_ = pause_;
      pause_ = pause_ < kLongestPause ? 2 * pause_ : kLongestPause;
    } else if (++same_ == 2) {
      asleep_ = true;
      pause_ = kPause;
    }
    return !asleep_;
  }

  void wake() {
    asleep_ = false;
    same_ = kNotLooking;
    rest_ = kPause;
  }

  // Whether its registers are what they were when it fell asleep.
  template <class Root>
  bool holds(const Root& root) const {
    return !asleep_ || !seen_.own_differ(root);
  }

 private:
  static constexpr int kNotLooking = -1;
  // Edges between two looks at a part that is at work; more after looks in vain.
  static constexpr int kPause = 1, kLongestPause = 16;

  Members seen_;
  Witness witness_;
  bool asleep_ = false;
  int same_ = kNotLooking, rest_ = kPause, pause_ = kPause;
};

}  // namespace hca
