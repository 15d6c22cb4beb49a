// The replay table: a ring of rows in shared memory under a sum tree, for many threads and
// processes at once, with lazy writing (arXiv 2110.01101):
//
//   reserve (lock: generation odd, priority 0) -> copy, no lock -> commit (lock: priority, even)
//
// One robust lock, held once per batch and never during a copy. A batch is at most kMaxBatch rows,
// so nobody holds the lock for more than 1,024 descents. Sampling is in sampler.hpp.
//
// Claims, each with the test that proves it (cpp/tests):
//   * no sampler ever returns an unwritten or torn row        test_hammer, under TSAN
//   * an update for an overwritten row changes nothing        test_table, test_hammer
//   * inner sums equal leaf sums whenever the lock is free    test_table, test_hammer
//   * a process killed anywhere costs its in-flight rows only test_crash_points, exhaustively
#pragma once

#include <algorithm>
#include <cstdint>

#include "drivetrain/layout.hpp"
#include "drivetrain/power.hpp"
#include "drivetrain/process.hpp"
#include "drivetrain/shared_copy.hpp"

namespace drivetrain {

inline constexpr std::size_t kMaxBatch = kMaxTreeBatch;
inline constexpr float kPriorityEpsilon = 1e-6f;
inline constexpr std::size_t kFetchedAhead = 256;  // rows, while the cache holds them
inline constexpr double kLargestLeaf = 3.0e38;

enum class Status {
  kOk,
  kNotEnoughData,  // fewer committed rows than asked for
  kBusy,           // every slot is being written by a live process; try again
  kBroken,         // the lock cannot be used any more
};

/// A reserved row, this process's own until it is committed.
struct Claim {
  std::uint32_t slot;
  std::uint32_t generation;  // odd
};

class ReplayTable {
 public:
  /// Views a table in memory; initialize() it once per segment first.
  ReplayTable(void* memory, const TableConfig& config) noexcept
      : header_(static_cast<TableHeader*>(memory)),
        rows_(static_cast<unsigned char*>(memory) + rows_offset(config)),
        config_(config) {
    if (config.prioritized)
      tree_ = SumTree(static_cast<unsigned char*>(memory) + tree_offset(), &header_->tree,
                      config.capacity);
  }

  /// Makes zeroed memory of table_nbytes(config) an empty table.
  static bool initialize(void* memory, const TableConfig& config) noexcept {
    auto* header = static_cast<TableHeader*>(memory);
    header->version = kTableVersion;
    header->config = config;
    header->max_priority = 1.0f;
    header->random_block.store(1, std::memory_order_relaxed);
    if (!header->mutex.initialize()) return false;
    ReplayTable table(memory, config);
    if (config.prioritized) table.tree_.initialize(4096.0);
    return true;
  }

  const TableConfig& config() const noexcept { return config_; }
  TableHeader& header() const noexcept { return *header_; }
  RowHeader& row(std::uint64_t slot) const noexcept {
    return *reinterpret_cast<RowHeader*>(rows_ + slot * config_.row_stride);
  }
  /// The fields of a row. Written by the holder of its claim, read under a check of generations.
  unsigned char* fields(std::uint64_t slot) const noexcept {
    return rows_ + slot * config_.row_stride + sizeof(RowHeader);
  }

  /// Holds the table's lock; repairs the table first if the last holder was killed.
  class Lock {
   public:
    explicit Lock(ReplayTable& table) noexcept : header_(*table.header_) {
      const LockResult result = header_.mutex.lock();
      held_ = result != LockResult::kFailed;
      if (result == LockResult::kOwnerDied) {
        table.repair();
        header_.mutex.mark_consistent();
      }
      if (held_ && table.config_.prioritized) table.tree_.load_unit();
    }
    ~Lock() {
      if (held_) header_.mutex.unlock();
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    explicit operator bool() const noexcept { return held_; }

   private:
    TableHeader& header_;
    bool held_;
  };

  /// Takes up to `wanted` <= kMaxBatch rows to write, at least one unless kBusy. Rows left behind
  /// by dead processes are taken again; rows that a live one is writing are passed over.
  Status reserve(std::size_t wanted, Claim* claims, std::size_t* num_claims) noexcept {
    const std::uint32_t self = OwnerTag::self();
    *num_claims = 0;
    Lock lock(*this);
    if (!lock) return Status::kBroken;
    std::uint64_t slot = header_->next_slot, passed = 0, num_lost = 0;
    std::uint32_t known_dead = 0;
    while (*num_claims < wanted && passed < config_.capacity) {
      RowHeader& head = row(slot);
      const std::uint32_t generation = head.generation.load(std::memory_order_relaxed);
      const bool in_flight = generation & 1;
      if (!in_flight || owner_is_dead(head, known_dead)) {
        num_lost += is_committed(generation);
        // Even or orphaned: the next odd number, which no earlier claim on this slot carries.
        const std::uint32_t taken = generation + (in_flight ? 2 : 1);
        DRIVETRAIN_LOCKED_WRITE("reserve/owner", head.owner.store(self, std::memory_order_relaxed));
        DRIVETRAIN_LOCKED_WRITE("reserve/generation",
                                head.generation.store(taken, std::memory_order_relaxed));
        claims[(*num_claims)++] = {static_cast<std::uint32_t>(slot), taken};
      }
      ++passed;
      slot = slot + 1 == config_.capacity ? 0 : slot + 1;
    }
    if (*num_claims == 0) return Status::kBusy;
    if (config_.prioritized) {
      std::uint32_t slots[kMaxBatch];
      for (std::size_t i = 0; i < *num_claims; ++i) slots[i] = claims[i].slot;
      tree_.fill(slots, *num_claims, 0.0f);
    }
    const std::uint64_t used = header_->num_used + passed;
    DRIVETRAIN_LOCKED_WRITE("reserve/num_committed", header_->num_committed -= num_lost);
    DRIVETRAIN_LOCKED_WRITE("reserve/num_used",
                            header_->num_used = used < config_.capacity ? used : config_.capacity);
    DRIVETRAIN_LOCKED_WRITE("reserve/next_slot", header_->next_slot = slot);
    // Pairs with the acquire fence of whoever reads rows: odd is seen before any new byte.
    std::atomic_thread_fence(std::memory_order_release);
    return Status::kOk;
  }

  /// Publishes written rows, with `leaves` of their own or the leaf of the running maximum.
  Status commit(const Claim* claims, std::size_t count, const float* leaves = nullptr) noexcept {
    Lock lock(*this);
    if (!lock) return Status::kBroken;
    // Priority first: a crash in between leaves an odd row, which repair() takes out again.
    if (config_.prioritized) {
      std::uint32_t slots[kMaxBatch];
      for (std::size_t i = 0; i < count; ++i) slots[i] = claims[i].slot;
      if (leaves)
        tree_.update(slots, leaves, count);
      else
        tree_.fill(slots, count, newest_leaf());
    }
    for (std::size_t i = 0; i < count; ++i)  // release: the row's bytes are seen before "even"
      DRIVETRAIN_LOCKED_WRITE("commit/generation",
                              row(claims[i].slot)
                                  .generation.store(claims[i].generation + 1,
                                                    std::memory_order_release));
    DRIVETRAIN_LOCKED_WRITE("commit/num_committed", header_->num_committed += count);
    DRIVETRAIN_LOCKED_WRITE("commit/num_inserted", header_->num_inserted += count);
    return Status::kOk;
  }

  /// Sets the leaves of count <= kMaxBatch rows, except where the row has changed since its key
  /// was given out; those are counted. `priorities` are the raw ones, for the running maximum.
  Status update_priorities(const std::uint64_t* keys, const float* leaves, const float* priorities,
                           std::size_t count, std::uint64_t* num_stale) noexcept {
    const auto fetch = [&](std::size_t i) {
      __builtin_prefetch(&row(Key::slot(keys[i])));
      tree_.prefetch(Key::slot(keys[i]));
    };
    for (std::size_t i = 0; i < std::min(count, kFetchedAhead); ++i) fetch(i);
    std::uint32_t slots[kMaxBatch];
    float values[kMaxBatch], raw[kMaxBatch];
    Lock lock(*this);
    if (!lock) return Status::kBroken;
    std::size_t num_current = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (i + kFetchedAhead < count) fetch(i + kFetchedAhead);
      const std::uint32_t slot = Key::slot(keys[i]);
      if (row(slot).generation.load(std::memory_order_relaxed) != Key::generation(keys[i])) continue;
      slots[num_current] = slot;
      values[num_current] = leaves[i];
      raw[num_current++] = priorities[i];
    }
    *num_stale += count - num_current;
    if (num_current > 0) {
      tree_.update(slots, values, num_current);
      const float largest = largest_of(raw, num_current);
      if (largest > header_->max_priority)
        DRIVETRAIN_LOCKED_WRITE("update/max_priority", header_->max_priority = largest);
    }
    return Status::kOk;
  }

  /// leaves[i] = (priorities[i] + epsilon)^alpha, in the range of float32; count <= kMaxBatch.
  void leaves_of(const float* priorities, float* leaves, std::size_t count,
                 SimdLevel simd) const noexcept {
    double positive[kMaxBatch];
    for (std::size_t i = 0; i < count; ++i)
      positive[i] = static_cast<double>(priorities[i]) + kPriorityEpsilon;
    powers(positive, config_.alpha, kLargestLeaf, leaves, count, simd);
  }
  float leaf_of(float priority) const noexcept {
    float leaf;
    leaves_of(&priority, &leaf, 1, SimdLevel::kPortable);
    return leaf;
  }

  SumTree& tree() noexcept { return tree_; }

  /// Whether sums, counts and generations agree; call with the lock held. For tests and doctor.
  bool is_consistent() const noexcept {
    std::uint64_t committed = 0;
    for (std::uint64_t slot = 0; slot < config_.capacity; ++slot) {
      const std::uint32_t generation = row(slot).generation.load(std::memory_order_relaxed);
      const bool drawable = is_committed(generation);
      committed += drawable;
      if (config_.prioritized && drawable != (tree_.leaf(slot) > 0)) return false;
    }
    return committed == header_->num_committed && (!config_.prioritized || tree_.sums_are_exact());
  }

 private:
  bool owner_is_dead(const RowHeader& head, std::uint32_t& known_dead) const noexcept {
    const std::uint32_t owner = head.owner.load(std::memory_order_relaxed);
    if (owner == known_dead) return true;
    if (owner == OwnerTag::self() || OwnerTag::is_alive(owner)) return false;
    known_dead = owner;
    return true;
  }

  // The leaf of a new row; computed anew only when the largest priority has changed.
  float newest_leaf() noexcept {
    if (header_->max_priority != newest_priority_) {
      newest_priority_ = header_->max_priority;
      newest_leaf_ = leaf_of(newest_priority_);
    }
    return newest_leaf_;
  }

  // The last holder died between two writes. Generations tell which rows are whole; all else
  // follows from them and the leaves. Safe to die in, too: the next locker starts it again.
  void repair() noexcept {
    std::uint64_t committed = 0, used = 0;
    if (config_.prioritized) tree_.load_unit();
    for (std::uint64_t slot = 0; slot < config_.capacity; ++slot) {
      const std::uint32_t generation = row(slot).generation.load(std::memory_order_relaxed);
      const bool drawable = is_committed(generation);
      committed += drawable;
      if (generation != 0) used = slot + 1;
      if (config_.prioritized && !drawable && tree_.leaf(slot) != 0) tree_.clear_leaf(slot);
    }
    if (config_.prioritized) tree_.rebuild();
    DRIVETRAIN_LOCKED_WRITE("repair/num_committed", header_->num_committed = committed);
    DRIVETRAIN_LOCKED_WRITE("repair/num_used", header_->num_used = used);
    DRIVETRAIN_LOCKED_WRITE("repair/num_repairs", header_->num_repairs += 1);
  }

  TableHeader* header_;
  unsigned char* rows_;
  TableConfig config_;
  SumTree tree_;
  float newest_priority_ = -1, newest_leaf_ = 0;  // used under the lock, like tree_
};

}  // namespace drivetrain
