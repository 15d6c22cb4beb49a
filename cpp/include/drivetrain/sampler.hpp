// Drawing rows from a ReplayTable while others insert and update.
//
//   random words -> descend, note generations -> gather rows, check generations again
//                                             -> draw anew what changed meanwhile
//
// No lock is taken: nobody who inserts or updates waits for a sampler, nor it for them. A draw's
// probability is exactly what it was drawn with (descent.hpp), and its row is whole (generations). What
// cannot be had without the lock is drawn under it: while a process that died with the lock has left
// something half done, while the tree is made anew, and after some lost races.
//
// The gather itself is the caller's (a functor), so that rows go straight to their destination.
#pragma once

#include <algorithm>
#include <cstdint>

#include "drivetrain/philox.hpp"
#include "drivetrain/replay_table.hpp"
#include "drivetrain/strata.hpp"

namespace drivetrain {

struct Draw {
  std::uint32_t slot;
  std::uint32_t generation;  // not that of a committed row: nothing was drawn
  // With which this row was drawn: leaf / total, or leaf / smallest leaf in a table whose weights are
  // relative to the buffer; 1 in a uniform table.
  double probability;
};

class Sampler {
 public:
  Sampler(ReplayTable& table, SimdLevel simd) noexcept : table_(table), simd_(simd) {}

  /// Draws `count` rows and hands them to gather(first, num, draws) in runs of at most kMaxBatch,
  /// without the lock; draws[i] belongs to position first + i. Where a row changed during its
  /// gather, it is drawn and gathered again. With num_strata = B > 0, any B positions in a row are drawn
  /// from all of B equal parts of the total priority, in a random order; with 0 all draws are independent.
  template <class Gather>
  Status sample(std::size_t count, std::size_t needed, std::size_t num_strata, Draw* draws,
                Gather&& gather) noexcept {
    const Strata strata = shuffled(num_strata);
    for (std::size_t first = 0; first < count; first += kMaxBatch) {
      const std::size_t num = std::min(kMaxBatch, count - first);
      Status status = draw(Run{first}, num, needed, strata, draws);
      if (status != Status::kOk) return status;
      gather(first, num, draws + first);
      if (!are_unchanged(draws + first, num))
        status = draw_again(first, num, needed, strata, draws, gather);
      if (status != Status::kOk) return status;
    }
    return Status::kOk;
  }

  /// The rows of `count` keys, handed to gather as sample() does it. Where a row is gone, or goes meanwhile, the draw
  /// is of no committed generation, and what was gathered there means nothing.
  template <class Gather>
  void read(const std::uint64_t* keys, std::size_t count, Draw* draws, Gather&& gather) const noexcept {
    const Headers rows = headers();
    for (std::size_t first = 0; first < count; first += kMaxBatch) {
      const std::size_t num = std::min(kMaxBatch, count - first);
      for (std::size_t i = first; i < first + num; ++i) {
        const std::uint32_t slot = Key::slot(keys[i]);
        draws[i] = {slot, noted(rows, slot) == Key::generation(keys[i]) ? Key::generation(keys[i]) : kNothing, 1.0};
      }
      gather(first, num, draws + first);
      std::atomic_thread_fence(std::memory_order_acquire);  // every copy is over before the checks
      for (std::size_t i = first; i < first + num; ++i)
        if (!is_unchanged(rows, draws[i])) draws[i].generation = kNothing;
    }
  }

 private:
  // Positions of a batch.
  struct Run {
    std::size_t first;
    std::size_t operator[](std::size_t i) const noexcept { return first + i; }
    static std::size_t num_in_row(std::size_t left) noexcept { return left; }
  };
  struct List {
    const std::uint32_t* positions;
    std::size_t operator[](std::size_t i) const noexcept { return positions[i]; }
    static std::size_t num_in_row(std::size_t) noexcept { return 1; }
  };

  // The headers of rows; kept in registers, where the table's own are read anew after each.
  struct Headers {
    const unsigned char* first;
    std::size_t stride;
    const std::atomic<std::uint32_t>& generation(std::uint32_t slot) const noexcept {
      return reinterpret_cast<const RowHeader*>(first + slot * stride)->generation;
    }
  };
  Headers headers() const noexcept {
    return {reinterpret_cast<const unsigned char*>(&table_.row(0)), table_.config().row_stride};
  }

  static bool is_unchanged(const Headers& rows, const Draw& draw) noexcept {
    return rows.generation(draw.slot).load(std::memory_order_relaxed) == draw.generation &&
           is_committed(draw.generation);
  }
  // Whether each row is still what it was when it was drawn: one answer for all, without branches.
  bool are_unchanged(const Draw* draws, std::size_t count) const noexcept {
    std::atomic_thread_fence(std::memory_order_acquire);  // every copy is over before the checks
    const Headers rows = headers();
    std::uint32_t changes = 0, uncommitted = 0;
    for (std::size_t i = 0; i < count; ++i)
      changes |= rows.generation(draws[i].slot).load(std::memory_order_relaxed) ^ draws[i].generation;
    for (std::size_t i = 0; i < count; ++i) uncommitted |= !is_committed(draws[i].generation);
    return (changes | uncommitted) == 0;
  }

  template <class Gather>
  [[gnu::noinline, gnu::cold]] Status draw_again(std::size_t first, std::size_t num, std::size_t needed,
                                                 const Strata& strata, Draw* draws,
                                                 Gather&& gather) noexcept {
    std::uint32_t positions[kMaxBatch];
    for (std::size_t i = 0; i < num; ++i) positions[i] = static_cast<std::uint32_t>(first + i);
    std::size_t pending = keep_changed(positions, num, draws);
    for (unsigned attempt = 1; pending > 0; ++attempt) {
      // After some lost races, gather under the lock: nobody can begin to overwrite a row then.
      if (attempt >= 4) return draw_and_gather_locked(positions, pending, needed, strata, draws, gather);
      const Status status = draw(List{positions}, pending, needed, strata, draws);
      if (status != Status::kOk) return status;
      for (std::size_t i = 0; i < pending; ++i) gather(positions[i], 1, draws + positions[i]);
      pending = keep_changed(positions, pending, draws);
    }
    return Status::kOk;
  }

  std::size_t keep_changed(std::uint32_t* positions, std::size_t count,
                           const Draw* draws) const noexcept {
    std::atomic_thread_fence(std::memory_order_acquire);  // every copy is over before the checks
    const Headers rows = headers();
    std::size_t changed = 0;
    for (std::size_t i = 0; i < count; ++i)
      if (!is_unchanged(rows, draws[positions[i]])) positions[changed++] = positions[i];
    return changed;
  }

  void random_words(std::size_t count, std::uint64_t* words) const noexcept {
    const std::size_t blocks = (count + kDrawsPerBlock - 1) / kDrawsPerBlock;
    // relaxed: only that no two callers get the same block matters.
    std::uint64_t block =
        table_.header().random_block.fetch_add(blocks, std::memory_order_relaxed);
    philox_words(block, blocks, table_.config().seed, words, simd_);
  }

  Strata shuffled(std::size_t num_strata) const noexcept {
    if (num_strata == 0) return {};
    std::uint64_t words[kDrawsPerBlock];
    random_words(1, words);
    return {num_strata, words[0]};
  }

  template <class Positions>
  Status draw(Positions positions, std::size_t count, std::size_t needed,
              const Strata& strata, Draw* draws) noexcept {
    std::uint64_t words[kMaxBatch + kDrawsPerBlock];
    random_words(count, words);
    if (draw_without_lock(words, positions, count, needed, strata, draws)) return Status::kOk;
    typename ReplayTable::Lock lock(table_);
    if (!lock) return Status::kBroken;
    return draw_from(words, positions, count, needed, strata, smallest_leaf(), draws);
  }

  template <class Gather>
  Status draw_and_gather_locked(const std::uint32_t* positions, std::size_t count,
                                std::size_t needed, const Strata& strata, Draw* draws,
                                Gather&& gather) noexcept {
    std::uint64_t words[kMaxBatch + kDrawsPerBlock];
    random_words(count, words);
    typename ReplayTable::Lock lock(table_);
    if (!lock) return Status::kBroken;
    const Status status =
        draw_from(words, List{positions}, count, needed, strata, smallest_leaf(), draws);
    if (status != Status::kOk) return status;
    for (std::size_t i = 0; i < count; ++i) gather(positions[i], 1, draws + positions[i]);
    return Status::kOk;
  }

  // False: to be drawn under the lock, where what is missing here is there, or known to be missing.
  template <class Positions>
  bool draw_without_lock(const std::uint64_t* words, Positions positions, std::size_t count,
                         std::size_t needed, const Strata& strata,
                         Draw* draws) noexcept {
    const bool prioritized = table_.config().prioritized;
    const std::uint32_t rebuilds = prioritized ? table_.tree().rebuilds() : 0;
    if (table_.is_orphaned() || (rebuilds & 1)) return false;
    float least = 0;
    if (by_smallest()) {
      typename ReplayTable::Lock lock(table_);
      if (!lock) return false;
      least = smallest_leaf();
      if (least == 0) return false;
    }
    if (draw_from(words, positions, count, needed, strata, least, draws) != Status::kOk) return false;
    std::atomic_thread_fence(std::memory_order_acquire);  // all of the tree is read before the check
    return !prioritized || table_.tree().rebuilds() == rebuilds;
  }

  template <class Positions>
  Status draw_from(const std::uint64_t* words, Positions positions, std::size_t count,
                   std::size_t needed, const Strata& strata, float least, Draw* draws) noexcept {
    const std::uint64_t num_committed = table_.num_committed();
    if (num_committed < needed || num_committed == 0) return Status::kNotEnoughData;
    std::uint64_t targets[kMaxBatch];
    if (!table_.config().prioritized) {
      // In fractions of a row, so that parts are equal where they do not divide the rows.
      make_targets(words, positions, count, strata, table_.num_used() << kFractionBits, targets);
      for (std::size_t i = 0; i < count; ++i) targets[i] >>= kFractionBits;
      draw_whole_rows(targets, words, positions, count, draws);
      return Status::kOk;
    }
    const SumTree& tree = table_.tree();
    const Crown crown(tree, count);
    if (crown.total() == 0) return Status::kNotEnoughData;
    make_targets(words, positions, count, strata, crown.total(), targets);
    // Probabilities are relative to all units, or to those of the smallest leaf.
    const double units_per_one = tree.units_per_one();
    const double one = by_smallest() ? static_cast<double>(least) * units_per_one
                                     : static_cast<double>(crown.total());
    const double scale = units_per_one / one;
    const Headers rows = headers();
    for (std::size_t start = 0; start < count; start += kBlock) {
      const std::size_t num = std::min(kBlock, count - start);
      std::uint32_t slots[kBlock];
      double leaves[kBlock];
      tree.find(crown, {targets + start, words + start, table_.config().seed, slots, leaves}, num,
                simd_, rows_ahead());
      for (std::size_t i = 0; i < num; ++i)
        draws[positions[start + i]] = {slots[i], leaves[i] > 0 ? noted(rows, slots[i]) : kNothing,
                                       leaves[i] * scale};
    }
    return Status::kOk;
  }

  template <class Positions>
  void make_targets(const std::uint64_t* words, Positions positions, std::size_t count, const Strata& strata,
                    std::uint64_t total, std::uint64_t* targets) const noexcept {
    if (strata.num() == 0) {
      for (std::size_t i = 0; i < count; ++i) targets[i] = scale_to(words[i], total);
      return;
    }
    const EqualParts parts(total, strata.num());
    for (std::size_t i = 0; i < count;) {
      const std::uint64_t part = strata.part(positions[i]);
      const std::size_t num = Positions::num_in_row(std::min(count - i, strata.num_before_seam(part)));
      targets_in_parts(parts, part, num, strata.goes_up(), words + i, targets + i, simd_);
      i += num;
    }
  }

  // Whether probabilities are relative to the smallest leaf.
  bool by_smallest() const noexcept {
    return table_.config().prioritized && table_.config().weights_by_buffer;
  }
  // With the lock held. A drawn leaf is hardly ever below it; where one is, updated meanwhile, its
  // weight is 1.
  float smallest_leaf() noexcept { return by_smallest() ? table_.tree().extremes().least : 0.0f; }

  // Acquire: what is read of the row afterwards is of this generation, or the check will tell.
  static std::uint32_t noted(const Headers& rows, std::uint32_t slot) noexcept {
    return rows.generation(slot).load(std::memory_order_acquire);
  }

  RowsAhead rows_ahead() const noexcept {
    const std::size_t stride = table_.config().row_stride;
    const std::size_t lines = (stride + 63) / 64;  // longer rows: the hardware follows
    return {reinterpret_cast<const unsigned char*>(&table_.row(0)), stride,
            static_cast<unsigned>(std::min<std::size_t>(lines, RowsAhead::kMostLines))};
  }

  template <class Positions>
  void draw_whole_rows(const std::uint64_t* targets, const std::uint64_t* words, Positions positions,
                       std::size_t count, Draw* draws) const noexcept {
    const RowsAhead rows = rows_ahead();
    for (std::size_t start = 0; start < count; start += kBlock) {
      const std::size_t end = std::min(start + kBlock, count);
      rows.begin(targets + start, end - start);
      for (std::size_t i = start; i < end; ++i)
        draws[positions[i]] = whole_row(static_cast<std::uint32_t>(targets[i]), words[i]);
    }
  }

  // Uniform tables have no leaves to hide in-flight and orphaned rows: reject those and draw from
  // all slots again. After kMostTries walk on to the next whole row; with the lock held and rows
  // committed there is one. So many tries because walking prefers the row behind the empty slots, and
  // with shared observations a few percent of the slots may be all that is left.
  Draw whole_row(std::uint32_t slot, std::uint64_t word) const noexcept {
    const std::uint64_t used = table_.num_used();
    const Headers rows = headers();
    for (std::uint64_t tries = 0; tries < kMostTries + used; ++tries) {
      const std::uint32_t found = noted(rows, slot);
      if (is_committed(found)) return {slot, found, 1.0};
      if (tries < kMostTries) {
        word = philox_block(word, ~table_.config().seed)[0];
        slot = static_cast<std::uint32_t>(scale_to(word, used));
      } else {
        slot = slot + 1 == used ? 0 : slot + 1;
      }
    }
    return {slot, kNothing, 1.0};
  }

  static constexpr std::size_t kBlock = 256;  // rows fetched ahead that the cache holds
  static constexpr unsigned kFractionBits = 24;  // of 32 bits of rows: sums stay below 2^63
  static constexpr unsigned kMostTries = 4096;
  static constexpr std::uint32_t kNothing = 1;  // a generation that no committed row has

  ReplayTable& table_;
  SimdLevel simd_;
};

}  // namespace drivetrain
