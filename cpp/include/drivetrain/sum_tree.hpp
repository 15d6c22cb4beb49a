// A K-ary sum tree over priorities, laid out for the cache (arXiv 2110.01101, section on the
// K-ary sum tree; rebuilt so that its sums are exact).
//
//   root            one uint64
//   inner levels    8 uint64 per node = one cache line; levels[last] is one node
//   levels[0]       sum of each leaf node
//   leaves          16 float32 per node = one cache line
//
// Sums are integers: a leaf is a multiple of a unit 2^e, and inner nodes count units. They equal
// the sums of the leaves exactly, after any number of updates in any order. The unit starts fine
// and is doubled (a rebuild, at most some dozens of times ever) when a priority outgrows it.
//
// The tree neither locks nor allocates; every call below is made under the table's lock.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "drivetrain/crash_point.hpp"
#include "drivetrain/extremes.hpp"
#include "drivetrain/node_search.hpp"
#include "drivetrain/simd.hpp"

namespace drivetrain {

inline constexpr unsigned kMaxTreeLevels = 11;       // 16 * 8^11 leaves and more than 2^32 rows
inline constexpr std::size_t kMaxTreeBatch = 1024;   // descents or updates per lock hold

/// The part of the tree's state that is not an array; lives in the segment.
struct TreeState {
  std::uint64_t root;          // sum of all leaves, in units
  std::int32_t unit_exponent;  // a unit is 2^unit_exponent
};

class SumTree {
 public:
  SumTree() = default;

  static std::size_t nbytes_for(std::uint64_t capacity) noexcept {
    SumTree shape;
    return shape.lay_out(nullptr, capacity);
  }

  /// Views zeroed or initialised memory, 64-byte aligned, of nbytes_for(capacity) bytes.
  SumTree(void* memory, TreeState* state, std::uint64_t capacity) noexcept : state_(state) {
    lay_out(static_cast<unsigned char*>(memory), capacity);
    load_unit();
  }

  static std::size_t extremes_nbytes_for(std::uint64_t capacity) noexcept {
    return Extremes::nbytes_for((capacity + kLeafFanout - 1) / kLeafFanout * kLeafFanout);
  }
  /// From here on the smallest and largest leaf are kept in memory of extremes_nbytes_for bytes.
  void keep_extremes(void* memory) noexcept {
    extremes_ = Extremes(memory, leaves_, leaf_nodes_ * kLeafFanout);
  }
  /// The smallest (above 0) and largest leaf; only after keep_extremes.
  Extremes::Range extremes() noexcept { return extremes_.range(); }

  /// Gives a new tree its unit: the finest at which every leaf may be as large as `headroom`.
  void initialize(double headroom) noexcept {
    state_->root = 0;
    set_unit(unit_exponent_for(headroom));
  }

  std::uint64_t total() const noexcept { return state_->root; }
  float leaf(std::uint64_t index) const noexcept { return leaves_[index]; }
  std::uint64_t units_of(float priority) const noexcept {
    return static_cast<std::uint64_t>(
        static_cast<std::int64_t>(static_cast<double>(priority) * units_per_one_));
  }
  /// The units of a leaf, exactly as sampling sees them.
  std::uint64_t leaf_units(std::uint64_t index) const noexcept { return units_of(leaves_[index]); }

  /// The multiple of the unit nearest to a priority >= 0; never 0 for a positive one.
  float rounded(float priority) const noexcept {
    if (!(priority > 0)) return 0;
    constexpr double kIntegers = 0x1p52;  // doubles from here on have no fraction: adding rounds
    const double units = (static_cast<double>(priority) * units_per_one_ + kIntegers) - kIntegers;
    return static_cast<float>(std::max(units, 1.0) * unit_);
  }

  /// Follow the process-shared unit after taking the lock: another process may have changed it.
  void load_unit() noexcept {
    if (state_->unit_exponent == loaded_exponent_) return;
    loaded_exponent_ = state_->unit_exponent;
    unit_ = std::ldexp(1.0, loaded_exponent_);
    units_per_one_ = std::ldexp(1.0, -loaded_exponent_);
  }

  void prefetch(std::uint64_t index) const noexcept {
    __builtin_prefetch(leaves_ + index, 1);
    std::uint64_t node = index / kLeafFanout;
    __builtin_prefetch(levels_[0] + node, 1);
    if (num_levels_ > 1) __builtin_prefetch(levels_[1] + node / kInnerFanout, 1);
  }

  /// leaf[indices[i]] = priorities[i], in order, for count <= kMaxTreeBatch; then level by level,
  /// parents shared by several merged into one write. Finite priorities >= 0.
  void update(const std::uint32_t* indices, const float* priorities, std::size_t count) noexcept {
    float largest = 0;
    for (std::size_t i = 0; i < count; ++i) largest = std::max(largest, priorities[i]);
    if (static_cast<double>(largest) * units_per_one_ > max_leaf_units_) make_room_for(largest);

    Change changes[kMaxTreeBatch];
    std::size_t num_changes = 0;
    const bool tracked = static_cast<bool>(extremes_);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t index = indices[i];
      const float priority = rounded(priorities[i]);
      const std::uint64_t difference = units_of(priority) - leaf_units(index);  // modulo 2^64
      const float old = leaves_[index];
      DRIVETRAIN_LOCKED_WRITE("tree/leaf", leaves_[index] = priority);
      if (tracked) extremes_.note(index, old, priority);
      add_change(changes, num_changes, index / kLeafFanout, difference);
    }
    std::uint64_t num_nodes = leaf_nodes_;
    for (unsigned level = 0; level < num_levels_; ++level) {
      std::uint64_t* sums = levels_[level];
      for (std::size_t i = 0; i < num_changes; ++i)
        DRIVETRAIN_LOCKED_WRITE("tree/inner", sums[changes[i].node] += changes[i].difference);
      num_nodes = (num_nodes + kInnerFanout - 1) / kInnerFanout;
      num_changes = num_nodes <= kMergedNodes ? to_few_parents(changes, num_changes)
                                              : to_parents(changes, num_changes);
    }
    std::uint64_t difference = 0;
    for (std::size_t i = 0; i < num_changes; ++i) difference += changes[i].difference;
    DRIVETRAIN_LOCKED_WRITE("tree/root", state_->root += difference);
  }

  /// For each target < total(): the leaf it falls into. Up to kMaxTreeBatch targets.
  void find(const std::uint64_t* targets, std::size_t count, std::uint32_t* indices,
            SimdLevel simd) const noexcept;

  /// Recomputes every sum, rounding each leaf to the current unit. Heals any half-done update.
  void rebuild() noexcept {
    load_unit();
    if (extremes_) extremes_.forget();
    const std::uint64_t num_leaves = leaf_nodes_ * kLeafFanout;
    for (std::uint64_t i = 0; i < num_leaves; ++i)
      if (leaves_[i] != 0) DRIVETRAIN_LOCKED_WRITE("rebuild/leaf", leaves_[i] = rounded(leaves_[i]));
    for (std::uint64_t node = 0; node < leaf_nodes_; ++node)
      DRIVETRAIN_LOCKED_WRITE("rebuild/inner", levels_[0][node] = leaf_node_sum(node));
    std::uint64_t count = leaf_nodes_;
    for (unsigned level = 1; level < num_levels_; ++level) {
      count = (count + kInnerFanout - 1) / kInnerFanout;
      for (std::uint64_t node = 0; node < count; ++node)
        DRIVETRAIN_LOCKED_WRITE("rebuild/inner", levels_[level][node] = inner_sum(level - 1, node));
    }
    DRIVETRAIN_LOCKED_WRITE("rebuild/root", state_->root = inner_sum(num_levels_ - 1, 0));
  }

  /// Sets a leaf whose sums will be rebuilt.
  void put_leaf(std::uint64_t index, float leaf) noexcept {
    DRIVETRAIN_LOCKED_WRITE("rebuild/put", leaves_[index] = leaf);
  }

  /// Whether every sum equals the sum of what is below it, exactly; and the extremes, if kept.
  bool sums_are_exact() const noexcept {
    for (std::uint64_t node = 0; node < leaf_nodes_; ++node)
      if (levels_[0][node] != leaf_node_sum(node)) return false;
    std::uint64_t count = leaf_nodes_;
    for (unsigned level = 1; level < num_levels_; ++level) {
      count = (count + kInnerFanout - 1) / kInnerFanout;
      for (std::uint64_t node = 0; node < count; ++node)
        if (levels_[level][node] != inner_sum(level - 1, node)) return false;
    }
    return state_->root == inner_sum(num_levels_ - 1, 0) && (!extremes_ || extremes_.is_exact());
  }

 private:
  struct Change {
    std::uint32_t node;
    std::uint64_t difference;
  };

  static constexpr std::uint64_t kMergedNodes = 512;

  // Neighbours share parents: runs of slots, as inserts are, merge with the entry before.
  static void add_change(Change* changes, std::size_t& count, std::uint32_t node,
                         std::uint64_t difference) noexcept {
    if (count > 0 && changes[count - 1].node == node) {
      changes[count - 1].difference += difference;
    } else {
      changes[count++] = {node, difference};
    }
  }

  static std::size_t to_parents(Change* changes, std::size_t count) noexcept {
    std::size_t num_parents = 0;
    for (std::size_t i = 0; i < count; ++i)
      add_change(changes, num_parents, changes[i].node / kInnerFanout, changes[i].difference);
    return num_parents;
  }

  // A level of few nodes, where random changes often meet: a small index merges them all, and
  // spares the chains of stores and loads to one address. Larger levels seldom repeat a parent.
  static std::size_t to_few_parents(Change* changes, std::size_t count) noexcept {
    std::uint16_t entry_of[kMergedNodes] = {};  // node -> position + 1
    std::size_t num_parents = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t parent = changes[i].node / kInnerFanout;
      const std::uint64_t difference = changes[i].difference;
      if (entry_of[parent] == 0) {
        changes[num_parents++] = {parent, difference};
        entry_of[parent] = static_cast<std::uint16_t>(num_parents);
      } else {
        changes[entry_of[parent] - 1].difference += difference;
      }
    }
    return num_parents;
  }

  std::uint64_t leaf_node_sum(std::uint64_t node) const noexcept {
    std::uint64_t sum = 0;
    for (unsigned i = 0; i < kLeafFanout; ++i) sum += leaf_units(node * kLeafFanout + i);
    return sum;
  }
  std::uint64_t inner_sum(unsigned level, std::uint64_t node) const noexcept {
    std::uint64_t sum = 0;
    for (unsigned i = 0; i < kInnerFanout; ++i) sum += levels_[level][node * kInnerFanout + i];
    return sum;
  }

  // A leaf may hold up to 2^48 units and all leaves together fewer than 2^62, so that sums of 16
  // leaves are exact doubles and every sum fits a signed 64-bit comparison.
  int unit_exponent_for(double largest) const noexcept {
    int exponent;
    std::frexp(largest, &exponent);  // largest < 2^exponent
    int bits;
    std::frexp(max_leaf_units_, &bits);  // a power of two: max_leaf_units_ = 2^(bits - 1)
    return exponent - (bits - 1);
  }
  void make_room_for(float largest) noexcept {
    set_unit(unit_exponent_for(256.0 * static_cast<double>(largest)));
    rebuild();
  }
  void set_unit(int exponent) noexcept {
    DRIVETRAIN_LOCKED_WRITE("tree/unit", state_->unit_exponent = exponent);
    load_unit();
  }

  std::size_t lay_out(unsigned char* memory, std::uint64_t capacity) noexcept {
    leaf_nodes_ = (capacity + kLeafFanout - 1) / kLeafFanout;
    int leaf_bits = 62;
    for (std::uint64_t n = leaf_nodes_ * kLeafFanout; n > 1; n = (n + 1) / 2) --leaf_bits;
    max_leaf_units_ = std::ldexp(1.0, std::min(48, leaf_bits));
    std::size_t offset = leaf_nodes_ * kLeafFanout * sizeof(float);
    leaves_ = reinterpret_cast<float*>(memory);
    std::uint64_t count = leaf_nodes_;
    num_levels_ = 0;
    do {
      const std::uint64_t nodes = (count + kInnerFanout - 1) / kInnerFanout;
      levels_[num_levels_++] = reinterpret_cast<std::uint64_t*>(memory + offset);
      offset += nodes * kInnerFanout * sizeof(std::uint64_t);
      count = nodes;
    } while (count > 1);
    return offset;
  }

  template <class Isa>
  friend struct Descent;

  TreeState* state_ = nullptr;
  float* leaves_ = nullptr;
  std::uint64_t* levels_[kMaxTreeLevels] = {};
  unsigned num_levels_ = 0;
  std::uint64_t leaf_nodes_ = 0;
  Extremes extremes_;  // empty unless kept
  double max_leaf_units_ = 0;
  std::int32_t loaded_exponent_ = INT32_MIN;
  double unit_ = 0;           // 2^e
  double units_per_one_ = 0;  // 2^-e
};

}  // namespace drivetrain

#include "drivetrain/descent.hpp"
