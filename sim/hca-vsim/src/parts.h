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

// Collects whether anything differs, without a branch: most of what is compared is the same.
class Difference {
 public:
  template <class T>
  [[gnu::always_inline]] void add(const T& a, const T& b) {
    static_assert(std::is_trivially_copyable_v<T>);
    if constexpr (std::is_integral_v<T>) {
      bits_ |= a ^ b;
    } else if constexpr (sizeof(T) > kLongest) {
      bits_ |= std::memcmp(&a, &b, sizeof(T)) != 0;
    } else {
      const auto* x = reinterpret_cast<const unsigned char*>(&a);
      const auto* y = reinterpret_cast<const unsigned char*>(&b);
      constexpr size_t kWide = sizeof(T) / sizeof(Lane) * sizeof(Lane);
      for (size_t at = 0; at < kWide; at += sizeof(Lane)) wide_ |= load<Lane>(x + at) ^ load<Lane>(y + at);
      constexpr size_t kWords = sizeof(T) / 4 * 4;
      for (size_t at = kWide; at < kWords; at += 4) bits_ |= load<uint32_t>(x + at) ^ load<uint32_t>(y + at);
      for (size_t at = kWords; at < sizeof(T); at++) bits_ |= x[at] ^ y[at];
    }
  }

  bool any() const { return bits_ | wide_[0] | wide_[1] | wide_[2] | wide_[3]; }

 private:
  // As wide as the compiler's target has registers, or made of several.
  typedef uint64_t Lane __attribute__((vector_size(32)));
  static constexpr size_t kLongest = 512;

  template <class T>
  static T load(const unsigned char* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }

  uint64_t bits_ = 0;
  Lane wide_ = {};
};

template <class T>
bool differ(const T& a, const T& b) {
  Difference difference;
  difference.add(a, b);
  return difference.any();
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

// Takes a member's value over; whether it had changed. Not inline: there are thousands of calls, of a few types.
template <class T>
[[gnu::noinline]] bool take(T& to, const T& from, Witness* witness) {
  if (!differ(to, from)) return false;
  if (witness) witness->call(from, to);
  std::memcpy(&to, &from, sizeof(T));
  return true;
}

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
  static constexpr int kPause = 3, kLongestPause = 24;

  Members seen_;
  Witness witness_;
  bool asleep_ = false;
  int same_ = kNotLooking, rest_ = kPause, pause_ = kPause;
};

}  // namespace hca
