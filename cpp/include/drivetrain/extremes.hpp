// The smallest and the largest leaf above zero of a sum tree, without a scan of all leaves.
//
//   | entry of the whole | entry per block of 1,024 leaves |
//
//   entry = least, how many leaves have it, largest, how many leaves have it, dirty
//
// A leaf beyond the ends of an entry's range becomes its new end at once; when the last leaf at an
// end leaves it, the entry is dirty, and computed again when somebody asks. Counting the leaves at
// the ends matters: new rows all have the same priority, so the largest is shared by many. Random
// updates take away the last at an end of their block about once in 500 times, so asking is cheap.
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

  /// A leaf has changed from `old` to `now`. Not inlined, to keep the loop of others tight.
  [[gnu::noinline]] void note(std::uint64_t index, float old, float now) noexcept {
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
      Entry all{};
      for (std::uint64_t b = 0; b < num_blocks(); ++b) all = united(all, scanned(b));
      DRIVETRAIN_LOCKED_WRITE("extremes/scanned", *whole_ = all);
    }
    return {whole_->least, whole_->largest};
  }

  /// The largest of the leaves [first, end); 0 where there is none.
  float largest(std::uint64_t first, std::uint64_t end) noexcept {
    float found = 0;
    for (std::uint64_t i = first; i < end;) {
      const bool is_block = i % kBlockLeaves == 0 && end - i >= kBlockLeaves;
      found = std::max(found, is_block ? scanned(i / kBlockLeaves).largest : leaves_[i]);
      i += is_block ? kBlockLeaves : 1;
    }
    return found;
  }

  /// Whether every entry that is not dirty says what a scan says.
  bool is_exact() const noexcept {
    Entry all{};
    for (std::uint64_t b = 0; b < num_blocks(); ++b) {
      const Entry found = scan(b);
      if (!block(b).dirty && block(b) != found) return false;
      all = united(all, found);
    }
    return whole_->dirty || *whole_ == all;
  }

 private:
  struct Entry {
    float least;                // above 0; 0 when there is none
    float largest;              // 0 when there is none
    std::uint32_t num_least;    // leaves that have it
    std::uint32_t num_largest;
    std::uint64_t dirty;        // 1: the rest means nothing

    bool operator==(const Entry&) const = default;
  };
  static_assert(sizeof(Entry) == 24);

  static std::uint64_t num_blocks_for(std::uint64_t num_leaves) noexcept {
    return (num_leaves + kBlockLeaves - 1) / kBlockLeaves;
  }
  std::uint64_t num_blocks() const noexcept { return num_blocks_for(num_leaves_); }
  Entry& block(std::uint64_t index) const noexcept { return whole_[1 + index]; }
  const Entry& scanned(std::uint64_t index) noexcept {
    if (block(index).dirty) DRIVETRAIN_LOCKED_WRITE("extremes/scanned", block(index) = scan(index));
    return block(index);
  }

  static Entry united(const Entry& left, const Entry& right) noexcept {
    Entry both = left;
    add_least(both, right.least, right.num_least);
    add_largest(both, right.largest, right.num_largest);
    return both;
  }
  static void add_least(Entry& entry, float least, std::uint32_t count) noexcept {
    if (least == 0 || (entry.least != 0 && least > entry.least)) return;
    const std::uint32_t before = least == entry.least ? entry.num_least : 0;
    DRIVETRAIN_LOCKED_WRITE("extremes/least", entry.least = least);
    DRIVETRAIN_LOCKED_WRITE("extremes/least", entry.num_least = before + count);
  }
  static void add_largest(Entry& entry, float largest, std::uint32_t count) noexcept {
    if (largest == 0 || largest < entry.largest) return;
    const std::uint32_t before = largest == entry.largest ? entry.num_largest : 0;
    DRIVETRAIN_LOCKED_WRITE("extremes/largest", entry.largest = largest);
    DRIVETRAIN_LOCKED_WRITE("extremes/largest", entry.num_largest = before + count);
  }

  static void note(Entry& entry, float old, float now) noexcept {
    if (entry.dirty || old == now) return;
    add_least(entry, now, 1);
    add_largest(entry, now, 1);
    if (old == 0) return;
    if (old == entry.least) DRIVETRAIN_LOCKED_WRITE("extremes/least", --entry.num_least);
    if (old == entry.largest) DRIVETRAIN_LOCKED_WRITE("extremes/largest", --entry.num_largest);
    if (entry.num_least == 0 || entry.num_largest == 0)
      DRIVETRAIN_LOCKED_WRITE("extremes/dirty", entry.dirty = 1);
  }

  // Leaves are never negative, so they are in the order of their bits, and integers have minima
  // that compilers vectorise. With 1 taken off, a leaf of 0 is the largest of all.
  Entry scan(std::uint64_t index) const noexcept {
    const std::uint64_t first = index * kBlockLeaves;
    const std::uint64_t end = std::min(first + kBlockLeaves, num_leaves_);
    std::uint32_t least = UINT32_MAX, largest = 0;
    for (std::uint64_t i = first; i < end; ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(leaves_[i]);
      least = std::min(least, bits - 1);
      largest = std::max(largest, bits);
    }
    std::uint32_t num_least = 0, num_largest = 0;
    for (std::uint64_t i = first; i < end; ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(leaves_[i]);
      num_least += bits - 1 == least;
      num_largest += bits == largest;
    }
    const bool none = largest == 0;
    return {std::bit_cast<float>(least + 1), std::bit_cast<float>(largest), none ? 0 : num_least,
            none ? 0 : num_largest, 0};
  }

  Entry* whole_ = nullptr;
  const float* leaves_ = nullptr;
  std::uint64_t num_leaves_ = 0;
};

}  // namespace drivetrain
