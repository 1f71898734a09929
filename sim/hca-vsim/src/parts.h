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
#include <type_traits>

namespace hca {

// Nonzero: they differ. Small ones without a branch, as most of what is compared is the same.
template <class T>
inline uint64_t differ(const T& a, const T& b) {
  static_assert(std::is_trivially_copyable_v<T>);
  constexpr size_t kSize = sizeof(T);
  if constexpr (std::is_integral_v<T>) {
    return a ^ b;
  } else if constexpr (kSize > 32 || kSize % 4) {
    return std::memcmp(&a, &b, kSize) != 0;
  } else {
    uint32_t x[kSize / 4], y[kSize / 4], different = 0;
    std::memcpy(x, &a, kSize);
    std::memcpy(y, &b, kSize);
    for (size_t i = 0; i < kSize / 4; i++) different |= x[i] ^ y[i];
    return different;
  }
}

// A byte of a member that changed when a part was last looked at. While it goes on changing nobody need look further.
class Witness {
 public:
  template <class T>
  void call(const T& member, const T& before) {
    const auto* x = reinterpret_cast<const unsigned char*>(&member);
    const auto* y = reinterpret_cast<const unsigned char*>(&before);
    while (*x == *y) x++, y++;
    byte_ = x;
    last_ = *x;
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

// A part: Members is made from the lists in hca_state.h, members of the model as they were when they were last taken.
template <class Members>
class Part {
 public:
  // Before each edge. False: it would change nothing.
  template <class Root>
  bool wants_edge(const Root& root) {
    if (asleep_ && !seen_.shared_differ(root)) return false;
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
      rest_ = kPause;
    } else {
      asleep_ = ++same_ == 2;
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
  // Edges between two looks at a part that is at work.
  static constexpr int kPause = 3;

  Members seen_;
  Witness witness_;
  bool asleep_ = false;
  int same_ = kNotLooking, rest_ = kPause;
};

}  // namespace hca
