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
// The tree neither locks nor allocates; every call below is made under the table's lock, except that
// leaves are looked for (find) while others update: what these write, they write word by word.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "drivetrain/bounds.hpp"
#include "drivetrain/crash_point.hpp"
#include "drivetrain/extremes.hpp"
#include "drivetrain/fetch_line.hpp"
#include "drivetrain/leaf_search.hpp"
#include "drivetrain/shared_copy.hpp"
#include "drivetrain/simd.hpp"

namespace drivetrain {

inline constexpr unsigned kMaxTreeLevels = 11;       // 16 * 8^11 leaves and more than 2^32 rows
inline constexpr std::size_t kMaxTreeBatch = 1024;   // descents or updates per lock hold

/// Of floats >= 0, whose bits are in the same order: integers are compared many at a time.
inline float largest_of(const float* values, std::size_t count, SimdLevel simd = best_simd_level()) noexcept {
  return at_level(simd, [=]() DRIVETRAIN_INLINED {
    std::int32_t largest = 0;
    for (std::size_t i = 0; i < count; ++i)
      largest = std::max(largest, std::bit_cast<std::int32_t>(values[i]));
    return std::bit_cast<float>(largest);
  });
}

/// The part of the tree's state that is not an array; lives in the segment.
struct TreeState {
  std::uint64_t root;                       // sum of all leaves, in units
  std::atomic<std::int32_t> unit_exponent;  // a unit is 2^unit_exponent; changed under the lock only
  // Odd while all sums are being made anew, perhaps in another unit: nobody draws without the lock then.
  std::atomic<std::uint32_t> rebuilds;  // changed under the lock only
};
static_assert(std::atomic<std::int32_t>::is_always_lock_free);

class Crown;
struct Finds;

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
  /// The smallest (above 0) and largest leaf, and the largest of some; only after keep_extremes.
  Extremes::Range extremes() noexcept { return extremes_.range(); }
  float largest(std::uint64_t first, std::uint64_t end) noexcept { return extremes_.largest(first, end); }

  /// Gives a tree whose leaves are 0 its unit, at which every leaf may be twice as large as `headroom`, a power of two.
  void initialize(double headroom) noexcept {
    begin_rebuild();  // to those who draw without the lock it is one
    state_->root = 0;
    set_unit(unit_exponent_for(headroom));
    end_rebuild();
  }

  /// Gives an empty tree the unit of another, so that leaves from there stay as they are. Leaves that
  /// do not fit here make room for themselves, as ever.
  void start_with_unit(std::int32_t exponent) noexcept { set_unit(exponent); }

  std::uint64_t total() const noexcept { return state_->root; }
  float leaf(std::uint64_t index) const noexcept { return leaves_[within(index, leaf_nodes_ * kLeafFanout)]; }
  /// A leaf in units, below 2^52: adding 2^52 puts an integer into a double's low bits.
  static std::uint64_t units_of(float leaf, double units_per_one) noexcept {
    return std::bit_cast<std::uint64_t>(static_cast<double>(leaf) * units_per_one + 0x1p52) -
           std::bit_cast<std::uint64_t>(0x1p52);
  }
  std::uint64_t units_of(float leaf) const noexcept { return units_of(leaf, units_per_one_); }
  /// An integer of at most 2^52, such as the units of a leaf node, as a double; of kNowhere, -1/2. Loops over it are
  /// vectorised.
  static double as_double(std::uint64_t units) noexcept {
    return std::bit_cast<double>(units + std::bit_cast<std::uint64_t>(0x1p52)) - 0x1p52;
  }
  /// The unit, and how many there are to 1; a power of two either way. At any time.
  double unit() const noexcept { return power_of_two(exponent()); }
  double units_per_one() const noexcept { return power_of_two(-exponent()); }
  /// The units of a leaf, exactly as sampling sees them.
  std::uint64_t leaf_units(std::uint64_t index) const noexcept { return units_of(leaf(index)); }

  /// The multiple of the unit nearest to a priority >= 0; never 0 for a positive one.
  static float rounded(float priority, double unit, double units_per_one) noexcept {
    constexpr double kIntegers = 0x1p52;  // doubles from here on have no fraction: adding rounds
    const double nearest = (static_cast<double>(priority) * units_per_one + kIntegers) - kIntegers;
    const auto leaf = static_cast<float>((nearest < 1.0 ? 1.0 : nearest) * unit);
    return priority > 0 ? leaf : 0.0f;
  }
  float rounded(float priority) const noexcept { return rounded(priority, unit_, units_per_one_); }

  /// Follow the process-shared unit after taking the lock: another process may have changed it.
  void load_unit() noexcept {
    if (exponent() == loaded_exponent_) return;
    loaded_exponent_ = exponent();
    unit_ = unit();
    units_per_one_ = units_per_one();
  }

  /// Asks for what an update of this leaf writes to first; for the other levels update() sees.
  void prefetch(std::uint64_t index) const noexcept {
    fetch_line_to_write(leaves_ + index);
    std::uint64_t node = index / kLeafFanout;
    fetch_line_to_write(levels_[0] + node);
    if (num_levels_ > 1) fetch_line_to_write(levels_[1] + node / kInnerFanout);
  }

  /// leaf[indices[i]] = priorities[i], in order, for count <= kMaxTreeBatch, and the sums above:
  /// large levels entry by entry, small ones by a table of their changes. Finite priorities >= 0.
  void update(const std::uint32_t* indices, const float* priorities, std::size_t count,
              SimdLevel simd = best_simd_level()) noexcept {
    if (make_room(largest_of(priorities, count, simd))) rebuild();
    float leaves[kMaxTreeBatch];
    std::uint64_t units[kMaxTreeBatch];
    const double unit = unit_, units_per_one = units_per_one_;
    at_level(simd, [=, to = leaves, in_units = units]() DRIVETRAIN_INLINED {
      for (std::size_t i = 0; i < count; ++i) to[i] = rounded(priorities[i], unit, units_per_one);
      for (std::size_t i = 0; i < count; ++i) in_units[i] = units_of(to[i], units_per_one);
    });

    // A change for each leaf, also where neighbours have a node in common: whether they have is nothing to foresee.
    Change changes[kMaxTreeBatch];
    const bool tracked = static_cast<bool>(extremes_);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t index = indices[i];
      const float old = leaf(index);
      changes[i] = {index / kLeafFanout, units[i] - units_of(old)};  // modulo 2^64
      DRIVETRAIN_LOCKED_WRITE("tree/leaf", store_shared(leaves_[index], leaves[i]));
      if (tracked) extremes_.note(index, old, leaves[i]);
    }
    add_to_levels(changes, count);
  }

  /// Gives all these leaves one priority: what update() does, quicker for runs of neighbours.
  void fill(const std::uint32_t* indices, std::size_t count, float priority) noexcept {
    if (make_room(priority)) rebuild();
    const float leaf = rounded(priority);
    const std::uint64_t units = units_of(leaf);
    Change changes[kMaxTreeBatch];
    std::size_t num_changes = 0;
    for (std::size_t i = 0, run; i < count; i += run) {
      const std::uint32_t first = indices[i];
      const std::size_t most = std::min<std::size_t>(count - i, kLeafFanout - first % kLeafFanout);
      for (run = 1; run < most && indices[i + run] == first + run;) ++run;
      const std::uint64_t node = first / kLeafFanout;
      std::uint64_t before = 0;
      if (run == kLeafFanout)
        before = levels_[0][node];
      else
        for (std::size_t k = 0; k < run; ++k) before += leaf_units(first + k);
      for (std::size_t k = 0; k < run && extremes_; ++k) extremes_.note(first + k, leaves_[first + k], leaf);
      for (std::size_t k = 0; k < run; ++k)
        DRIVETRAIN_LOCKED_WRITE("tree/leaf", store_shared(leaves_[first + k], leaf));
      changes[num_changes++] = {node, run * units - before};
    }
    add_to_levels(changes, num_changes);
  }

  /// For each target < total(): the leaf it falls into. Up to kMaxTreeBatch targets; with the lock.
  void find(const std::uint64_t* targets, std::size_t count, std::uint32_t* indices,
            SimdLevel simd) const noexcept;
  /// The same for targets below the total of a crown of this tree, without the lock: the leaves, and
  /// the probabilities with which they were found. Void if rebuilds() has changed meanwhile or was odd.
  void find(const Crown& crown, const Finds& finds, std::size_t count, SimdLevel simd,
            const RowsAhead& rows = {}) const noexcept;
  std::uint32_t rebuilds() const noexcept { return state_->rebuilds.load(std::memory_order_acquire); }

  /// Recomputes every sum, rounding each leaf to the current unit. Heals any half-done update.
  void rebuild() noexcept {
    begin_rebuild();
    load_unit();
    if (extremes_) extremes_.forget();
    const std::uint64_t num_leaves = leaf_nodes_ * kLeafFanout;
    for (std::uint64_t i = 0; i < num_leaves; ++i)
      if (leaves_[i] != 0)
        DRIVETRAIN_LOCKED_WRITE("rebuild/leaf", store_shared(leaves_[i], rounded(leaves_[i])));
    for (std::uint64_t node = 0; node < leaf_nodes_; ++node)
      DRIVETRAIN_LOCKED_WRITE("rebuild/inner", store_shared(levels_[0][node], leaf_node_sum(node)));
    std::uint64_t count = leaf_nodes_;
    for (unsigned level = 1; level < num_levels_; ++level) {
      count = (count + kInnerFanout - 1) / kInnerFanout;
      for (std::uint64_t node = 0; node < count; ++node)
        DRIVETRAIN_LOCKED_WRITE("rebuild/inner",
                                store_shared(levels_[level][node], inner_sum(level - 1, node)));
    }
    DRIVETRAIN_LOCKED_WRITE("rebuild/root", state_->root = inner_sum(num_levels_ - 1, 0));
    end_rebuild();
  }

  /// Whether the unit is coarse enough for a leaf.
  bool has_room(float largest) const noexcept {
    return static_cast<double>(largest) * units_per_one_ <= max_leaf_units_;
  }
  /// Whether a leaf is too large for the unit, which is coarser then: the sums are to be rebuilt.
  bool make_room(float largest) noexcept {
    if (has_room(largest)) return false;
    begin_rebuild();
    set_unit(unit_exponent_for(256.0 * static_cast<double>(largest)));
    return true;
  }
  float largest_leaf() const noexcept { return largest_of(leaves_, leaf_nodes_ * kLeafFanout); }
  /// Nobody draws without the lock from here on to the end of rebuild(); also if the last one died in one.
  void begin_rebuild() noexcept {
    DRIVETRAIN_LOCKED_WRITE("rebuild/begin", state_->rebuilds.store(num_rebuilds() | 1,
                                                                    std::memory_order_relaxed));
    std::atomic_thread_fence(std::memory_order_release);  // odd is seen before any new sum
  }
  /// Sets a leaf whose sums will be rebuilt.
  void put_leaf(std::uint64_t index, float leaf) noexcept {
    DRIVETRAIN_LOCKED_WRITE("rebuild/put",
                            store_shared(leaves_[within(index, leaf_nodes_ * kLeafFanout)], leaf));
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
    std::uint64_t node;  // of the leaves
    std::uint64_t difference;
  };

  static constexpr std::uint64_t kTabled = 128;    // sums of a level that is updated by a table
  static constexpr std::size_t kFewChanges = 16;   // which a table does not pay for
  static constexpr std::size_t kChangesAhead = 12;

  // The sums above that of a leaf node, in levels up to `end`. Others draw by them all the time, and take back lines
  // that were asked for long before they are written to.
  void fetch_sums_above(std::uint64_t node, unsigned end) const noexcept {
    for (unsigned level = 1; level < end; ++level) fetch_line_to_write(levels_[level] + (node /= kInnerFanout));
  }

  void add_to_levels(const Change* changes, std::size_t count) noexcept {
    unsigned tabled = num_levels_;  // the levels from here on
    while (count > kFewChanges && tabled > 0 && num_nodes_[tabled - 1] * kInnerFanout <= kTabled) --tabled;
    std::uint64_t table[kTabled], total = 0;
    if (tabled < num_levels_) std::fill_n(table, kTabled, 0);
    for (unsigned level = tabled; level < num_levels_; ++level)
      for (std::uint64_t i = 0; i < num_nodes_[level]; ++i) fetch_line_to_write(levels_[level] + i * kInnerFanout);
    for (std::size_t i = 0; i < count; ++i) {
      if (i + kChangesAhead < count) fetch_sums_above(changes[i + kChangesAhead].node, tabled);
      std::uint64_t entry = changes[i].node;
      for (unsigned level = 0; level < tabled; ++level, entry /= kInnerFanout)
        DRIVETRAIN_LOCKED_WRITE("tree/inner", add_to(levels_[level][entry], changes[i].difference));
      if (tabled < num_levels_) table[entry] += changes[i].difference;
      total += changes[i].difference;
    }
    for (unsigned level = tabled; level < num_levels_; ++level) {
      const std::uint64_t nodes = num_nodes_[level];
      for (std::uint64_t i = 0; i < nodes * kInnerFanout; ++i)
        DRIVETRAIN_LOCKED_WRITE("tree/inner", add_to(levels_[level][i], table[i]));
      for (std::uint64_t parent = 0; parent < nodes; ++parent) {
        std::uint64_t sum = 0;
        for (unsigned i = 0; i < kInnerFanout; ++i) sum += table[parent * kInnerFanout + i];
        table[parent] = sum;
      }
      for (std::uint64_t i = nodes; i < kTabled; ++i) table[i] = 0;
    }
    DRIVETRAIN_LOCKED_WRITE("tree/root", state_->root += total);
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
  void set_unit(int exponent) noexcept {
    DRIVETRAIN_LOCKED_WRITE("tree/unit",
                            state_->unit_exponent.store(exponent, std::memory_order_relaxed));
    load_unit();
  }
  std::int32_t exponent() const noexcept {
    return state_->unit_exponent.load(std::memory_order_relaxed);
  }
  static double power_of_two(std::int32_t exponent) noexcept {
    return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
  }
  std::uint32_t num_rebuilds() const noexcept {
    return state_->rebuilds.load(std::memory_order_relaxed);
  }
  // Release: who sees it even sees all sums.
  void end_rebuild() noexcept {
    DRIVETRAIN_LOCKED_WRITE("rebuild/end", state_->rebuilds.store(num_rebuilds() + 1,
                                                                  std::memory_order_release));
  }
  static void add_to(std::uint64_t& sum, std::uint64_t difference) noexcept { store_shared(sum, sum + difference); }

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
      num_nodes_[num_levels_] = nodes;
      levels_[num_levels_++] = reinterpret_cast<std::uint64_t*>(memory + offset);
      offset += nodes * kInnerFanout * sizeof(std::uint64_t);
      count = nodes;
    } while (count > 1);
    return offset;
  }

  // The nodes that the sums of `level` (num_levels_: the root) are sums of.
  const unsigned char* nodes_below(unsigned level) const noexcept {
    return level > 0 ? reinterpret_cast<const unsigned char*>(levels_[level - 1])
                     : reinterpret_cast<const unsigned char*>(leaves_);
  }

  template <class Isa>
  friend struct Descent;
  friend class Crown;

  TreeState* state_ = nullptr;
  float* leaves_ = nullptr;
  std::uint64_t* levels_[kMaxTreeLevels] = {};
  std::uint64_t num_nodes_[kMaxTreeLevels] = {};  // of 8 sums each
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
