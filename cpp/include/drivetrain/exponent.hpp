// alpha, the exponent between priorities and leaves: leaf = (priority + 1e-6)^alpha. It may change
// while others insert, update and sample.
//
//   slots   0 ......... rescaled ......... capacity
//             by alpha  |  by `before`                  rescaled == capacity: settled
//
// A change that keeps the priorities turns each leaf into leaf^(alpha / before), some at a time under
// the table's lock, in the order of the slots. Whoever inserts or updates meanwhile uses the alpha
// of the slot, and helps: a process killed half way holds nothing up.
//
// No leaf is turned twice: new leaves are written to a log first, and a death between log and
// leaves is healed from the log. Claim: test_crash_points, at every write of a change.
//
// None is turned after it was rounded to a unit that the change, or a priority given meanwhile, has made coarser: a
// leaf is at least one unit, and the power of that is another priority's. All that are left are turned first (finish).
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "drivetrain/power.hpp"
#include "drivetrain/sum_tree.hpp"

namespace drivetrain {

inline constexpr float kPriorityEpsilon = 1e-6f;
inline constexpr double kMaxLeaf = 3.0e38;
inline constexpr double kLeastKeptAlpha = 1e-4;  // below, the rounding of leaves is 6e-4 of a priority and more

#ifdef DRIVETRAIN_CRASH_POINTS
inline constexpr std::size_t kRescaledPerHold = 16;  // several holds even in a small table
#else
inline constexpr std::size_t kRescaledPerHold = 512;
#endif

/// leaves[i] = (priorities[i] + epsilon)^alpha, in the range of float32.
inline void leaves_of(const float* priorities, double alpha, float* leaves, std::size_t count,
                      SimdLevel simd) noexcept {
  double positive[kMaxTreeBatch];
  at_level(simd, [&]() DRIVETRAIN_INLINED {
    for (std::size_t i = 0; i < count; ++i)
      positive[i] = static_cast<double>(priorities[i]) + kPriorityEpsilon;
  });
  powers(positive, alpha, kMaxLeaf, leaves, count, simd);
}
inline float leaf_of(float priority, double alpha) noexcept {
  const double leaf = power(static_cast<double>(priority) + kPriorityEpsilon, alpha);
  return static_cast<float>(leaf < kMaxLeaf ? leaf : kMaxLeaf);
}

/// The priority a leaf was made from, up to rounding; no number for alpha = 0, which forgets it.
inline double priority_of(float leaf, double alpha) noexcept {
  if (alpha == 0) return std::numeric_limits<double>::quiet_NaN();
  return std::fmax(std::pow(static_cast<double>(leaf), 1.0 / alpha) - kPriorityEpsilon, 0.0);
}

/// Lives in the segment. All but alpha is read and written under the table's lock.
class Exponent {
 public:
  void initialize(double alpha, std::uint64_t capacity) noexcept {
    alpha_.store(alpha, std::memory_order_relaxed);
    before_ = alpha;
    rescaled_ = capacity;
    log_first_ = kNone;
  }

  /// Readable at any time; relaxed, since who computes leaves without the lock checks under it.
  double alpha() const noexcept { return alpha_.load(std::memory_order_relaxed); }
  double at(std::uint64_t slot) const noexcept { return slot < rescaled_ ? alpha() : before_; }
  bool is_settled(std::uint64_t capacity) const noexcept { return rescaled_ == capacity; }
  std::uint64_t num_turned() const noexcept { return rescaled_; }
  /// The leaf of a slot as it were by another alpha; what alpha 0 has forgotten stays.
  float by(double alpha, std::uint64_t slot, float leaf) const noexcept {
    const double own = at(slot);
    return own == alpha || own == 0 ? leaf : turned(leaf, alpha / own);
  }

  /// A settled exponent changes; with `rescale` the leaves there are will follow.
  void change(double alpha, bool rescale) noexcept {
    DRIVETRAIN_LOCKED_WRITE("alpha/before", before_ = this->alpha());
    DRIVETRAIN_LOCKED_WRITE("alpha/log_first", log_first_ = kNone);
    // Between these two, leaves would be raised to the power of 1.
    if (rescale) DRIVETRAIN_LOCKED_WRITE("alpha/rescaled", rescaled_ = 0);
    DRIVETRAIN_LOCKED_WRITE("alpha/alpha", alpha_.store(alpha, std::memory_order_relaxed));
  }

  /// Turns the next leaves.
  void advance(SumTree& tree, std::uint64_t capacity) noexcept {
    const std::size_t count = log_next(tree, capacity);
    if (!tree.has_room(largest_of(log_, count))) return finish(tree, capacity);
    std::uint32_t slots[kRescaledPerHold];
    for (std::size_t i = 0; i < count; ++i) slots[i] = static_cast<std::uint32_t>(rescaled_ + i);
    tree.update(slots, log_, count);
    DRIVETRAIN_LOCKED_WRITE("alpha/rescaled", rescaled_ += count);
  }

  /// Turns all leaves that are left, within this hold of the lock, so that the unit may become coarser.
  void finish(SumTree& tree, std::uint64_t capacity) noexcept {
    turn_all(tree, capacity);
    tree.rebuild();
  }

  /// After a death under the lock: completes a logged step, and what finish() has begun. The tree's sums are rebuilt
  /// after this.
  void repair(SumTree& tree, std::uint64_t capacity) noexcept {
    if (log_first_ == rescaled_) put_logged(tree, num_next(capacity));
    if (!tree.has_room(tree.largest_leaf())) turn_all(tree, capacity);
  }

 private:
  static constexpr std::uint64_t kNone = UINT64_MAX;

  // Leaves alone, whose sums are to be rebuilt, and the unit that they need.
  void turn_all(SumTree& tree, std::uint64_t capacity) noexcept {
    tree.begin_rebuild();
    while (!is_settled(capacity)) put_logged(tree, log_next(tree, capacity));
    tree.make_room(tree.largest_leaf());
  }
  // Writes down what becomes of the next leaves; how many these are.
  std::size_t log_next(const SumTree& tree, std::uint64_t capacity) noexcept {
    const std::size_t count = num_next(capacity);
    const double ratio = alpha() / before_;
    for (std::size_t i = 0; i < count; ++i)
      DRIVETRAIN_LOCKED_WRITE("alpha/log", log_[i] = turned(tree.leaf(rescaled_ + i), ratio));
    DRIVETRAIN_LOCKED_WRITE("alpha/log_first", log_first_ = rescaled_);
    return count;
  }
  void put_logged(SumTree& tree, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) tree.put_leaf(rescaled_ + i, log_[i]);
    DRIVETRAIN_LOCKED_WRITE("alpha/rescaled", rescaled_ += count);
  }
  std::size_t num_next(std::uint64_t capacity) const noexcept {
    return static_cast<std::size_t>(std::min<std::uint64_t>(kRescaledPerHold, capacity - rescaled_));
  }
  static float turned(float leaf, double ratio) noexcept {
    if (leaf == 0) return 0;  // a row that cannot be drawn
    const double result = std::fmin(std::pow(static_cast<double>(leaf), ratio), kMaxLeaf);
    return std::max(static_cast<float>(result), std::numeric_limits<float>::min());
  }

  std::atomic<double> alpha_;
  double before_;
  std::uint64_t rescaled_;         // slots below have leaves by alpha_, the others by before_
  std::uint64_t log_first_;        // where the logged leaves go; counts only while == rescaled_
  float log_[kRescaledPerHold];
};
static_assert(std::atomic<double>::is_always_lock_free);

}  // namespace drivetrain
