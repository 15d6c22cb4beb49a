// The smallest and the largest leaf above zero of a sum tree, without a scan of all leaves.
//
//   | entry of the whole | entry per block of 1,024 leaves |       entry = least, largest, dirty
//
// A leaf that grows an entry's range does so at once; one that may have been the last at an end of
// it marks the entry dirty. Dirty entries are computed again when somebody asks. Random updates
// hit an end of their block about once in a thousand times, so asking stays cheap.
//
// Leaves of 0 (rows that cannot be drawn) do not count. Zeroed memory is a valid empty set. Kept by
// SumTree where the table asks for it; every call is made under the table's lock. After a death
// under the lock everything is dirty (SumTree::rebuild): test_crash_points.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "drivetrain/crash_point.hpp"

namespace drivetrain {

class Extremes {
 public:
  static constexpr std::uint64_t kBlockLeaves = 1024;

  struct Range {
    float least;    // smallest leaf above 0; 0 when there is none
    float largest;  // 0 when there is none
  };

  Extremes() = default;

  static std::size_t nbytes_for(std::uint64_t num_leaves) noexcept {
    return (1 + num_blocks_for(num_leaves)) * sizeof(Entry);
  }

  /// Views zeroed or earlier memory of nbytes_for(num_leaves) bytes, 64-byte aligned.
  Extremes(void* memory, const float* leaves, std::uint64_t num_leaves) noexcept
      : whole_(static_cast<Entry*>(memory)), leaves_(leaves), num_leaves_(num_leaves) {}

  explicit operator bool() const noexcept { return whole_ != nullptr; }

  /// A leaf has changed from `old` to `now`.
  void note(std::uint64_t index, float old, float now) noexcept {
    note(block(index / kBlockLeaves), old, now);
    note(*whole_, old, now);
  }

  /// Leaves have changed in any way: nothing is known of them.
  void forget() noexcept {
    DRIVETRAIN_LOCKED_WRITE("extremes/forget", whole_->dirty = 1);
    for (std::uint64_t b = 0; b < num_blocks(); ++b)
      DRIVETRAIN_LOCKED_WRITE("extremes/forget", block(b).dirty = 1);
  }

  Range range() noexcept {
    if (whole_->dirty) {
      Range all{0, 0};
      for (std::uint64_t b = 0; b < num_blocks(); ++b) {
        if (block(b).dirty) store(block(b), scan(b));
        all = united(all, {block(b).least, block(b).largest});
      }
      store(*whole_, all);
    }
    return {whole_->least, whole_->largest};
  }

  /// Whether every entry that is not dirty says what a scan says.
  bool is_exact() const noexcept {
    Range all{0, 0};
    for (std::uint64_t b = 0; b < num_blocks(); ++b) {
      const Range found = scan(b);
      if (!block(b).dirty && !same(block(b), found)) return false;
      all = united(all, found);
    }
    return whole_->dirty || same(*whole_, all);
  }

 private:
  struct Entry {
    float least;
    float largest;
    std::uint32_t dirty;
    std::uint32_t unused;
  };
  static_assert(sizeof(Entry) == 16);

  static std::uint64_t num_blocks_for(std::uint64_t num_leaves) noexcept {
    return (num_leaves + kBlockLeaves - 1) / kBlockLeaves;
  }
  std::uint64_t num_blocks() const noexcept { return num_blocks_for(num_leaves_); }
  Entry& block(std::uint64_t index) const noexcept { return whole_[1 + index]; }

  static bool same(const Entry& entry, Range range) noexcept {
    return entry.least == range.least && entry.largest == range.largest;
  }

  static Range united(Range left, Range right) noexcept {
    if (left.least == 0 || (right.least != 0 && right.least < left.least)) left.least = right.least;
    return {left.least, std::max(left.largest, right.largest)};
  }

  static void note(Entry& entry, float old, float now) noexcept {
    if (old == now) return;
    const bool lost_least = old > 0 && old == entry.least && !(now > 0 && now < old);
    const bool lost_largest = old > 0 && old == entry.largest && now < old;
    if ((lost_least || lost_largest) && !entry.dirty)
      DRIVETRAIN_LOCKED_WRITE("extremes/dirty", entry.dirty = 1);
    if (now > 0 && (entry.least == 0 || now < entry.least))
      DRIVETRAIN_LOCKED_WRITE("extremes/least", entry.least = now);
    if (now > entry.largest) DRIVETRAIN_LOCKED_WRITE("extremes/largest", entry.largest = now);
  }

  static void store(Entry& entry, Range range) noexcept {
    DRIVETRAIN_LOCKED_WRITE("extremes/scanned", entry.least = range.least);
    DRIVETRAIN_LOCKED_WRITE("extremes/scanned", entry.largest = range.largest);
    DRIVETRAIN_LOCKED_WRITE("extremes/scanned", entry.dirty = 0);
  }

  // Leaves are never negative, so they are in the order of their bits, and integers have minima
  // that compilers vectorise. With 1 taken off, a leaf of 0 is the largest of all.
  Range scan(std::uint64_t index) const noexcept {
    const std::uint64_t first = index * kBlockLeaves;
    const std::uint64_t end = std::min(first + kBlockLeaves, num_leaves_);
    std::uint32_t least = UINT32_MAX, largest = 0;
    for (std::uint64_t i = first; i < end; ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(leaves_[i]);
      least = std::min(least, bits - 1);
      largest = std::max(largest, bits);
    }
    return {std::bit_cast<float>(least + 1), std::bit_cast<float>(largest)};
  }

  Entry* whole_ = nullptr;
  const float* leaves_ = nullptr;
  std::uint64_t num_leaves_ = 0;
};

}  // namespace drivetrain
