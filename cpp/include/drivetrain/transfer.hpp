// Batches across the border of the table: weights and keys of a sample, priorities coming back,
// rows leaving for a file and returning from one.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "drivetrain/power.hpp"
#include "drivetrain/sampler.hpp"

namespace drivetrain {

/// The smallest probability of count > 0 draws; in four parts, since a minimum waits for the one before it.
inline double smallest_probability(const Draw* draws, std::size_t count) noexcept {
  constexpr std::size_t kParts = 4;
  double least[kParts];
  std::fill_n(least, kParts, draws[0].probability);
  std::size_t i = 0;
  for (; i + kParts <= count; i += kParts)
    for (std::size_t part = 0; part < kParts; ++part) least[part] = std::min(least[part], draws[i + part].probability);
  for (; i < count; ++i) least[0] = std::min(least[0], draws[i].probability);
  return *std::min_element(least, least + kParts);
}

/// w_i = (N P(i))^-beta / max = (min P / P(i))^beta  (arXiv 1511.05952, 3.4), for each `batch` of
/// `count` draws. The maximum is over the batch, or over the whole buffer: then probabilities are
/// relative to the smallest there is, which is 1. Equal probabilities give exactly 1.
inline void importance_weights(const Draw* draws, std::size_t batch, std::size_t count, double beta,
                               bool by_buffer, float* weights, SimdLevel simd) noexcept {
  double probabilities[kMaxBatch];
  for (std::size_t start = 0; start < count; start += batch) {
    const double least = by_buffer ? 1.0 : smallest_probability(draws + start, batch);
    for (std::size_t done = start; done < start + batch; done += kMaxBatch) {
      const std::size_t num = std::min(kMaxBatch, start + batch - done);
      for (std::size_t i = 0; i < num; ++i) probabilities[i] = draws[done + i].probability;
      powers_relative(probabilities, log2_of(least), -beta, 1.0, weights + done, num, simd);
    }
  }
}

inline void write_keys(const Draw* draws, std::size_t count, std::uint64_t* keys) noexcept {
  for (std::size_t i = 0; i < count; ++i) keys[i] = Key::make(draws[i].slot, draws[i].generation);
}

/// Whether these can be priorities: finite, >= 0, within float32. Numbers >= 0 are in the order of their bits, and
/// the others behind them, of which -0 may be one.
template <class Real>
bool are_priorities(const Real* values, std::size_t count, SimdLevel simd) noexcept {
  using Bits = std::conditional_t<sizeof(Real) == 4, std::uint32_t, std::uint64_t>;
  constexpr auto kMost = std::bit_cast<Bits>(static_cast<Real>(std::numeric_limits<float>::max()));
  constexpr auto kMinusZero = std::bit_cast<Bits>(static_cast<Real>(-0.0));
  return at_level(simd, [=]() DRIVETRAIN_INLINED {
    Bits wrong = 0;  // no early exit: the loop is vectorised
    for (std::size_t i = 0; i < count; ++i) {
      const auto bits = std::bit_cast<Bits>(values[i]);
      wrong |= static_cast<Bits>(bits > kMost) & static_cast<Bits>(bits != kMinusZero);
    }
    return wrong == 0;
  });
}

/// Whether these are rewards: finite, within float32. No early exit: the loop is vectorised.
template <class Real>
inline bool are_rewards(const Real* values, std::size_t count) noexcept {
  bool real = true;
  for (std::size_t i = 0; i < count; ++i)
    real &= std::abs(values[i]) <= std::numeric_limits<float>::max();
  return real;
}

/// Whether this table could have given out all keys; with others, native code would reach elsewhere.
inline bool are_keys_of(const ReplayTable& table, const std::uint64_t* keys, std::size_t count,
                        SimdLevel simd) noexcept {
  const auto capacity = static_cast<std::int64_t>(table.config().capacity);
  return at_level(simd, [=]() DRIVETRAIN_INLINED {
    std::uint64_t wrong = 0;  // no early exit, and all in words of one size: the loop is vectorised
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t slot = keys[i] & 0xFFFFFFFF, generation = keys[i] >> 32;
      const std::uint64_t beyond = static_cast<std::int64_t>(slot) >= capacity, none = generation == 0;
      wrong |= beyond | none | (generation & 1);
    }
    return wrong == 0;
  });
}

/// What apply_priorities returns instead of a count.
enum PriorityError : std::int64_t { kForeignKey = -2, kBadPriority = -3, kBrokenLock = -4 };

/// Gives rows new priorities; returns how many keys were stale. Checks every key and priority before
/// changing anything.
template <class Real>
std::int64_t apply_priorities(ReplayTable& table, const std::uint64_t* keys, const Real* priorities,
                              std::size_t count, SimdLevel simd) noexcept {
  if (!are_keys_of(table, keys, count, simd)) return kForeignKey;
  if (!are_priorities(priorities, count, simd)) return kBadPriority;
  float leaves[kMaxBatch], raw[kMaxBatch];
  std::uint64_t num_stale = 0;
  for (std::size_t start = 0; start < count; start += kMaxBatch) {
    const std::size_t num = std::min(kMaxBatch, count - start);
    const double alpha = table.alpha();
    for (std::size_t i = 0; i < num; ++i) raw[i] = static_cast<float>(priorities[start + i]);
    if (!are_priorities(raw, num, simd)) return kBadPriority;  // another thread has written here since the check
    leaves_of(raw, alpha, leaves, num, simd);
    if (table.update_priorities(keys + start, leaves, raw, num, alpha, &num_stale) != Status::kOk)
      return kBrokenLock;
  }
  return static_cast<std::int64_t>(num_stale);
}

/// With the lock held: a slot's generation, 0 if there is no whole row, and its leaf by some alpha (1 if uniform).
inline void note_row(const ReplayTable& table, std::size_t slot, double alpha, float* leaf,
                     std::uint32_t* generation) noexcept {
  const std::uint32_t found = table.row(slot).generation.load(std::memory_order_relaxed);
  *generation = is_committed(found) ? found : 0;
  *leaf = table.config().prioritized ? table.header().exponent.by(alpha, slot, table.tree().leaf(slot)) : 1.0f;
}

/// Copies slots [first, first + count), count <= kMaxBatch: raw fields, leaves, generations (0: no
/// whole row there). Safe against concurrent writers: each row is whole and has the leaf it had then. All leaves are
/// by the given alpha, whatever that of the table is by now, or half way to.
inline Status export_rows(ReplayTable& table, std::size_t first, std::size_t count, double alpha,
                          unsigned char* rows, float* leaves,
                          std::uint32_t* generations) noexcept {
  const std::size_t nbytes = table.config().row_stride - sizeof(RowHeader);
  const auto note = [&](std::size_t i) { note_row(table, first + i, alpha, &leaves[i], &generations[i]); };
  const auto copy = [&](std::size_t i) {
    copy_from_shared(rows + i * nbytes, table.fields(first + i), nbytes);
  };
  {
    ReplayTable::Lock lock(table);
    if (!lock) return Status::kBroken;
    for (std::size_t i = 0; i < count; ++i) note(i);
  }
  for (std::size_t i = 0; i < count; ++i) copy(i);
  std::atomic_thread_fence(std::memory_order_acquire);  // the copies are over before the checks
  for (std::size_t i = 0; i < count; ++i) {
    if (generations[i] == 0 ||
        table.row(first + i).generation.load(std::memory_order_relaxed) == generations[i])
      continue;
    ReplayTable::Lock lock(table);  // it changed: under the lock a whole row stays whole
    if (!lock) return Status::kBroken;
    note(i);
    copy(i);
  }
  return Status::kOk;
}

/// The leaves and generations of slots [first, first + count), without the rows: what has changed?
inline Status export_leaves(ReplayTable& table, std::size_t first, std::size_t count, double alpha, float* leaves,
                            std::uint32_t* generations) noexcept {
  for (std::size_t start = 0; start < count; start += kMaxBatch) {
    ReplayTable::Lock lock(table);
    if (!lock) return Status::kBroken;
    for (std::size_t i = start; i < std::min(start + kMaxBatch, count); ++i)
      note_row(table, first + i, alpha, &leaves[i], &generations[i]);
  }
  return Status::kOk;
}

/// Inserts rows as export_rows gave them, with their leaves. In a framed table `keys` are those of
/// each row's frames, as append_frames gave them, and the rows' references are set to them.
inline Status append_rows(ReplayTable& table, const unsigned char* rows, const float* leaves,
                          std::size_t count, const std::uint64_t* keys) noexcept {
  const std::size_t nbytes = table.config().row_stride - sizeof(RowHeader);
  const std::size_t num_refs = table.config().num_refs, links = links_nbytes(num_refs);
  Claim claims[kMaxBatch];
  for (std::size_t done = 0; done < count;) {
    std::size_t num = 0;
    Status status = table.reserve(std::min(kMaxBatch, count - done), claims, &num);
    if (status != Status::kOk) return status;
    for (std::size_t i = 0; i < num; ++i) {
      copy_to_shared(table.fields(claims[i].slot) + links, rows + (done + i) * nbytes + links,
                     nbytes - links);
      if (num_refs) table.frames().set_refs(claims[i].slot, keys + (done + i) * num_refs);
    }
    status = num_refs ? table.commit_framed(claims, num, leaves + done, nullptr, keys + done * num_refs, nullptr)
                      : table.commit(claims, num, leaves + done);
    if (status != Status::kOk) return status;
    done += num;
  }
  return Status::kOk;
}

/// Copies the frames of these slots, frame_stride bytes each, with their generations (0: it changed
/// meanwhile).
inline void export_frames(const ReplayTable& table, const std::uint32_t* slots, std::size_t count,
                          unsigned char* frames, std::uint32_t* generations) noexcept {
  const std::size_t nbytes = table.config().frame_stride;
  const auto generation_at = [&](std::size_t i) {
    return table.frames().frame(slots[i]).generation.load(std::memory_order_acquire);
  };
  for (std::size_t i = 0; i < count; ++i) {
    generations[i] = generation_at(i);
    copy_from_shared(frames + i * nbytes, table.frames().bytes(slots[i]), nbytes);
  }
  std::atomic_thread_fence(std::memory_order_acquire);  // the copies are over before the checks
  for (std::size_t i = 0; i < count; ++i)
    if ((generations[i] & 1) || generation_at(i) != generations[i]) generations[i] = 0;
}

/// Stores frames as export_frames gave them, and says by which keys rows may refer to them.
inline Status append_frames(ReplayTable& table, const unsigned char* frames, std::size_t count,
                            std::uint64_t* keys) noexcept {
  const std::size_t nbytes = table.config().frame_stride;
  const std::size_t most = std::min<std::size_t>(kMaxBatch, table.config().num_frames);
  Claim claims[kMaxBatch];
  for (std::size_t done = 0; done < count;) {
    const FrameBatch batch{claims, std::min(most, count - done), nullptr, 0};
    std::size_t no_rows = 0;
    Status status = table.reserve(0, nullptr, &no_rows, &batch);
    if (status != Status::kOk) return status;
    for (std::size_t i = 0; i < batch.count; ++i) {
      copy_to_shared(table.frames().bytes(claims[i].slot), frames + (done + i) * nbytes, nbytes);
      keys[done + i] = Key::make(claims[i].slot, claims[i].generation + 1);
    }
    status = table.commit_framed(nullptr, 0, nullptr, nullptr, nullptr, &batch);
    if (status != Status::kOk) return status;
    done += batch.count;
  }
  return Status::kOk;
}

}  // namespace drivetrain
