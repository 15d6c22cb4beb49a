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
  double sum;           // exact: of the same instant as count
};

/// Where a walk over all rows begins and how many slots it visits: the oldest row comes first.
struct RingWalk {
  std::uint64_t oldest;
  std::uint64_t used;
};

/// Completes a change of alpha that is under way, so that all leaves are by the same one.
inline Status settle(ReplayTable& table) noexcept {
  while (true) {
    ReplayTable::Lock lock(table);
    if (!lock) return Status::kBroken;
    if (table.is_settled()) return Status::kOk;
    table.header().exponent.advance(table.tree(), table.config().capacity);
  }
}

/// Statistics of the leaves of a prioritized table. Without kept extremes, the smallest and largest
/// are those that a walk over the leaves meets while others may change them.
inline Status leaf_stats(ReplayTable& table, LeafStats* stats) noexcept {
  const Status settled = settle(table);
  if (settled != Status::kOk) return settled;
  const std::uint64_t capacity = table.config().capacity;
  float least = std::numeric_limits<float>::infinity(), largest = 0;
  for (std::uint64_t first = 0; first < capacity && !table.config().keeps_extremes();
       first += kMaxBatch) {
    ReplayTable::Lock lock(table);
    if (!lock) return Status::kBroken;
    const std::uint64_t end = std::min<std::uint64_t>(first + kMaxBatch, capacity);
    for (std::uint64_t slot = first; slot < end; ++slot) {
      const float leaf = table.tree().leaf(slot);
      if (leaf > 0) least = std::min(least, leaf);
      largest = std::max(largest, leaf);
    }
  }
  ReplayTable::Lock lock(table);
  if (!lock) return Status::kBroken;
  if (table.config().keeps_extremes()) {
    const Extremes::Range range = table.tree().extremes();
    least = range.least, largest = range.largest;
  }
  const double unit = std::ldexp(1.0, table.header().tree.unit_exponent);
  *stats = {table.header().num_committed, std::isinf(least) ? 0.0 : least, largest,
            static_cast<double>(table.tree().total()) * unit};
  return Status::kOk;
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
