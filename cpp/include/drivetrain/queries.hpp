// Questions about all rows or all priorities of a table, answered while others go on writing: short
// holds of the lock, kMaxBatch rows at a time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "drivetrain/fetch_line.hpp"
#include "drivetrain/transfer.hpp"

namespace drivetrain {

struct LeafStats {
  std::uint64_t count;  // rows that can be drawn
  double least;         // smallest of their leaves; 0 when there is none
  double largest;
  double sum;    // exact: of the same instant as count
  double alpha;  // that all leaves were by at that instant
};

/// Where a walk over all rows begins and how many slots it visits: the oldest row comes first.
struct RingWalk {
  std::uint64_t oldest;
  std::uint64_t used;
};

/// Calls `look` once, with the lock held and all leaves by one alpha; completes a change that is under way.
template <class Look>
Status when_settled(ReplayTable& table, Look look) noexcept {
  while (true) {
    ReplayTable::Lock lock(table);
    if (!lock) return Status::kBroken;
    if (!table.is_settled()) table.header().exponent.advance(table.tree(), table.config().capacity);
    if (!table.is_settled()) continue;
    look();
    return Status::kOk;
  }
}

/// The smallest and largest leaf that a walk meets while others may change them. Ends early, with `is_whole` false,
/// where leaves are not all by this alpha.
inline Status walk_leaves(ReplayTable& table, double alpha, Extremes::Range* range, bool* is_whole) noexcept {
  const std::uint64_t capacity = table.config().capacity;
  float least = std::numeric_limits<float>::infinity(), largest = 0;
  *is_whole = false;
  for (std::uint64_t first = 0; first < capacity; first += kMaxBatch) {
    ReplayTable::Lock lock(table);
    if (!lock) return Status::kBroken;
    if (!table.is_settled() || table.alpha() != alpha) return Status::kOk;
    const std::uint64_t end = std::min<std::uint64_t>(first + kMaxBatch, capacity);
    for (std::uint64_t slot = first; slot < end; ++slot) {
      const float leaf = table.tree().leaf(slot);
      if (leaf > 0) least = std::min(least, leaf);
      largest = std::max(largest, leaf);
    }
  }
  *range = {std::isinf(least) ? 0.0F : least, largest};
  *is_whole = true;
  return Status::kOk;
}

/// Statistics of the leaves of a prioritized table. Without kept extremes, the smallest and largest
/// are those of a walk, which begins anew where alpha has changed meanwhile.
inline Status leaf_stats(ReplayTable& table, LeafStats* stats) noexcept {
  const bool walks = !table.config().keeps_extremes();
  while (true) {
    Status status = Status::kOk;
    double alpha = 0;
    Extremes::Range range{};
    bool is_whole = true;
    if (walks) {
      status = when_settled(table, [&] { alpha = table.alpha(); });
      if (status == Status::kOk) status = walk_leaves(table, alpha, &range, &is_whole);
    }
    if (status == Status::kOk && is_whole) {
      status = when_settled(table, [&] {
        if (!walks) range = table.tree().extremes();
        const double unit = std::ldexp(1.0, table.header().tree.unit_exponent);
        *stats = {table.header().num_committed, range.least, range.largest,
                  static_cast<double>(table.tree().total()) * unit, table.alpha()};
      });
    }
    if (status != Status::kOk) return status;
    if (!walks || (is_whole && stats->alpha == alpha)) return Status::kOk;
  }
}

inline Status begin_walk(ReplayTable& table, RingWalk* walk) noexcept {
  ReplayTable::Lock lock(table);
  if (!lock) return Status::kBroken;
  *walk = {table.header().next_slot, table.header().num_used};
  return Status::kOk;
}

/// Writes the keys of whole rows, at most walk.used, and returns how many there were. Needs no lock:
/// a generation is read whole, and a key whose row changes after that is an ordinary stale key.
inline std::size_t write_all_keys(const ReplayTable& table, RingWalk walk,
                                  std::uint64_t* keys) noexcept {
  std::size_t count = 0;
  for (std::uint64_t i = 0; i < walk.used; ++i) {
    // Until the ring is full, the oldest row is in slot 0 and the walk begins behind the last.
    const std::uint64_t slot = (walk.oldest + i) % walk.used;
    const std::uint32_t generation = table.row(slot).generation.load(std::memory_order_relaxed);
    if (is_committed(generation)) keys[count++] = Key::make(static_cast<std::uint32_t>(slot), generation);
  }
  return count;
}

/// The frames that no row refers to, from the next one to be taken on: where they begin, and how many. All there are
/// in a table without rows.
struct IdleFrames {
  std::uint64_t first;
  std::uint64_t count;
};

inline Status idle_frames(ReplayTable& table, IdleFrames* idle) noexcept {
  const std::uint64_t num_frames = table.config().num_frames;
  *idle = {0, 0};
  while (idle->count < num_frames) {
    ReplayTable::Lock lock(table);
    if (!lock) return Status::kBroken;
    if (idle->count == 0) idle->first = table.header().next_frame;
    const std::uint64_t end = std::min<std::uint64_t>(idle->count + kMaxBatch, num_frames);
    for (; idle->count < end; ++idle->count)
      if (table.frames().has_dependents((idle->first + idle->count) % num_frames)) return Status::kOk;
  }
  return Status::kOk;
}

/// The priorities of rows, no number where the row has changed since its key was given out. Returns
/// 0, kForeignKey with nothing written, or kBrokenLock.
inline std::int64_t read_priorities(ReplayTable& table, const std::uint64_t* keys, std::size_t count,
                                    double* priorities) noexcept {
  if (!are_keys_of(table, keys, count, best_simd_level())) return kForeignKey;
  for (std::size_t start = 0; start < count; start += kMaxBatch) {
    const std::size_t end = std::min(start + kMaxBatch, count);
    for (std::size_t i = start; i < end; ++i) fetch_line(&table.row(Key::slot(keys[i])));
    ReplayTable::Lock lock(table);
    if (!lock) return kBrokenLock;
    for (std::size_t i = start; i < end; ++i) {
      const std::uint32_t slot = Key::slot(keys[i]);
      const bool current =
          table.row(slot).generation.load(std::memory_order_relaxed) == Key::generation(keys[i]);
      priorities[i] =
          current ? table.priority_at(slot) : std::numeric_limits<double>::quiet_NaN();
    }
  }
  return 0;
}

}  // namespace drivetrain
