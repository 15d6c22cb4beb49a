// Drawing rows from a ReplayTable while others insert and update.
//
//   random words (no lock) -> [lock: descend, note generations and priorities] -> gather rows,
//   check generations again -> draw anew what changed meanwhile
//
// The gather itself is the caller's (a functor), so that rows go straight to their destination.
#pragma once

#include <algorithm>
#include <cstdint>

#include "drivetrain/philox.hpp"
#include "drivetrain/replay_table.hpp"

namespace drivetrain {

struct Draw {
  std::uint32_t slot;
  std::uint32_t generation;
  // Of this row when it was drawn: leaf / total, or leaf / smallest leaf in a table whose weights are
  // relative to the buffer; 1 in a uniform table.
  double probability;
};

class Sampler {
 public:
  Sampler(ReplayTable& table, SimdLevel simd) noexcept : table_(table), simd_(simd) {}

  /// Draws `count` rows and hands them to gather(first, num, draws) in runs of at most kMaxBatch,
  /// without the lock; draws[i] belongs to position first + i. Where a row changed during its
  /// gather, it is drawn and gathered again. With strata = B > 0, position i is drawn from the
  /// (i mod B)-th of B equal parts of the total priority; with 0 all draws are independent.
  template <class Gather>
  Status sample(std::size_t count, std::size_t needed, std::size_t strata, Draw* draws,
                Gather&& gather) noexcept {
    for (std::size_t first = 0; first < count; first += kMaxBatch) {
      const std::size_t num = std::min(kMaxBatch, count - first);
      std::uint32_t positions[kMaxBatch];
      for (std::size_t i = 0; i < num; ++i) positions[i] = static_cast<std::uint32_t>(first + i);
      std::size_t pending = num;
      for (unsigned attempt = 0; pending > 0; ++attempt) {
        // After some lost races, gather under the lock: nobody can begin to overwrite a row then.
        const bool settle = attempt >= 4;
        const Status status =
            settle ? draw_and_gather_locked(positions, pending, needed, strata, draws, gather)
                   : draw(positions, pending, needed, strata, draws);
        if (status != Status::kOk) return status;
        if (settle) break;
        if (attempt == 0) {
          gather(first, num, draws + first);
        } else {
          for (std::size_t i = 0; i < pending; ++i)
            gather(positions[i], 1, draws + positions[i]);
        }
        pending = keep_changed(positions, pending, draws);
      }
    }
    return Status::kOk;
  }

 private:
  std::size_t keep_changed(std::uint32_t* positions, std::size_t count,
                           const Draw* draws) const noexcept {
    std::atomic_thread_fence(std::memory_order_acquire);  // every copy is over before the checks
    std::size_t changed = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const Draw& draw = draws[positions[i]];
      if (table_.row(draw.slot).generation.load(std::memory_order_relaxed) != draw.generation)
        positions[changed++] = positions[i];
    }
    return changed;
  }

  void random_words(std::size_t count, std::uint64_t* words) const noexcept {
    const std::size_t blocks = (count + kDrawsPerBlock - 1) / kDrawsPerBlock;
    // relaxed: only that no two callers get the same block matters.
    std::uint64_t block =
        table_.header().random_block.fetch_add(blocks, std::memory_order_relaxed);
    for (std::size_t i = 0; i < blocks; ++i) {
      const auto four = philox_block(block + i, table_.config().seed);
      for (unsigned k = 0; k < kDrawsPerBlock; ++k) words[i * kDrawsPerBlock + k] = four[k];
    }
  }

  Status draw(const std::uint32_t* positions, std::size_t count, std::size_t needed,
              std::size_t strata, Draw* draws) noexcept {
    std::uint64_t words[kMaxBatch + kDrawsPerBlock];
    random_words(count, words);
    typename ReplayTable::Lock lock(table_);
    if (!lock) return Status::kBroken;
    return draw_locked(words, positions, count, needed, strata, draws);
  }

  template <class Gather>
  Status draw_and_gather_locked(const std::uint32_t* positions, std::size_t count,
                                std::size_t needed, std::size_t strata, Draw* draws,
                                Gather&& gather) noexcept {
    std::uint64_t words[kMaxBatch + kDrawsPerBlock];
    random_words(count, words);
    typename ReplayTable::Lock lock(table_);
    if (!lock) return Status::kBroken;
    const Status status = draw_locked(words, positions, count, needed, strata, draws);
    if (status != Status::kOk) return status;
    for (std::size_t i = 0; i < count; ++i) gather(positions[i], 1, draws + positions[i]);
    return Status::kOk;
  }

  Status draw_locked(const std::uint64_t* words, const std::uint32_t* positions, std::size_t count,
                     std::size_t needed, std::size_t strata, Draw* draws) noexcept {
    const TableHeader& header = table_.header();
    if (header.num_committed < needed || header.num_committed == 0) return Status::kNotEnoughData;
    const bool prioritized = table_.config().prioritized;
    const std::uint64_t total = prioritized ? table_.tree().total() : header.num_used;
    std::uint64_t targets[kMaxBatch];
    if (strata == 0) {
      for (std::size_t i = 0; i < count; ++i) targets[i] = scale_to(words[i], total);
    } else {
      EqualParts parts(total, strata);
      parts.go_to(positions[0] % strata);
      for (std::size_t i = 0; i < count; ++i) {
        targets[i] = parts.low() + scale_to(words[i], parts.size());
        if (i + 1 == count || positions[i + 1] == positions[i] + 1)
          parts.go_on();
        else
          parts.go_to(positions[i + 1] % strata);
      }
    }
    const std::uint64_t one = prioritized ? weight_of_one(total) : 0;
    for (std::size_t start = 0; start < count; start += kBlock) {
      const std::size_t num = std::min(kBlock, count - start);
      std::uint32_t slots[kBlock];
      if (prioritized)
        table_.tree().find(targets + start, num, slots, simd_, rows_ahead());
      else
        whole_rows(targets + start, words + start, num, slots);
      note(slots, num, one, positions + start, draws);
    }
    return Status::kOk;
  }

  // The number of units whose probability is taken as 1. A drawn leaf is never below the smallest.
  std::uint64_t weight_of_one(std::uint64_t total) noexcept {
    if (!table_.config().weights_by_buffer) return total;
    return table_.tree().units_of(table_.tree().extremes().least);
  }

  void note(const std::uint32_t* slots, std::size_t count, std::uint64_t weight_of_one,
            const std::uint32_t* positions, Draw* draws) const noexcept {
    const SumTree& tree = table_.tree();
    const bool prioritized = table_.config().prioritized;
    const double scale = prioritized ? tree.units_per_one() / static_cast<double>(weight_of_one) : 0;
    for (std::size_t i = 0; i < count; ++i)
      draws[positions[i]] = {
          slots[i], table_.row(slots[i]).generation.load(std::memory_order_relaxed),
          prioritized ? static_cast<double>(tree.leaf(slots[i])) * scale : 1.0};
  }

  RowsAhead rows_ahead() const noexcept {
    const std::size_t stride = table_.config().row_stride;
    const std::size_t lines = (stride + 63) / 64;  // longer rows: the hardware follows
    return {reinterpret_cast<const unsigned char*>(&table_.row(0)), stride,
            static_cast<unsigned>(std::min<std::size_t>(lines, 4))};
  }

  void whole_rows(const std::uint64_t* targets, const std::uint64_t* words, std::size_t count,
                  std::uint32_t* slots) const noexcept {
    for (std::size_t i = 0; i < count; ++i) __builtin_prefetch(&table_.row(targets[i]));
    for (std::size_t i = 0; i < count; ++i)
      slots[i] = committed_slot(static_cast<std::uint32_t>(targets[i]), words[i]);
  }

  // Uniform tables have no leaves to hide in-flight and orphaned rows: reject those and draw from
  // all slots again. After kMostTries walk on to the next whole row; num_committed > 0 says that
  // there is one. So many tries because walking prefers the row behind the empty slots, and with
  // shared observations a few percent of the slots may be all that is left.
  std::uint32_t committed_slot(std::uint32_t slot, std::uint64_t word) const noexcept {
    const std::uint64_t used = table_.header().num_used;
    for (unsigned tries = 0;; ++tries) {
      const std::uint32_t generation = table_.row(slot).generation.load(std::memory_order_relaxed);
      if (is_committed(generation)) return slot;
      if (tries < kMostTries) {
        word = philox_block(word, ~table_.config().seed)[0];
        slot = static_cast<std::uint32_t>(scale_to(word, used));
      } else {
        slot = slot + 1 == used ? 0 : slot + 1;
      }
    }
  }

  static constexpr std::size_t kBlock = 256;  // rows fetched ahead that the cache holds
  static constexpr unsigned kMostTries = 4096;

  ReplayTable& table_;
  SimdLevel simd_;
};

}  // namespace drivetrain
