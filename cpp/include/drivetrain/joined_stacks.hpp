// A sample whose rows have the frames of obs and of next_obs once, as one run.
//
//   run of a row   f0 f1 f2 f3 f4         obs = f0 .. f3, next_obs = f1 .. f4        (stack 4, shift 1)
//
// Arrays show that only if it is so in every row. A row may say otherwise: a window cut by an episode's end, or a
// next_obs that does not follow from obs. Rows are therefore looked at before they are copied, and at the first such
// one the sample goes on as two arrays, into which what it has already is copied. The draws stay what they were:
// drawing anew would draw such rows less often than they should be.
//
// Tests: test_frames, test_hammer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "drivetrain/gather.hpp"

namespace drivetrain {

class JoinedStacks {
 public:
  /// Outputs by field, as gather_rows() takes them; they differ for stacks alone, and do not overlap there.
  /// schema: joined by its shift. joined: of obs the runs, of next_obs its first frame in them. apart: without.
  JoinedStacks(const RowSchema& schema, unsigned char* const* joined, unsigned char* const* apart) noexcept
      : schema_(schema), joined_(joined), apart_(apart) {}

  /// Whether all rows so far are runs; if not, the sample is in the outputs `apart`.
  bool are_joined() const noexcept { return schema_.shift > 0; }

  /// gather_rows() to where the sample is, called as the sampler does: a row for the first time after all before it.
  void gather(const ReplayTable& table, std::size_t first, std::size_t num, const Draw* draws,
              const Gatherers& gatherers) noexcept {
    if (are_joined() && !are_runs(table, num, draws)) take_apart();
    gather_rows(schema_, table, are_joined() ? joined_ : apart_, first, num, draws, gatherers);
    num_gathered_ = std::max(num_gathered_, first + num);
  }

 private:
  // Rows may change meanwhile: the sampler finds that out, and the answer is of no matter then.
  bool are_runs(const ReplayTable& table, std::size_t num, const Draw* draws) const noexcept {
    const std::size_t stack = table.config().num_refs / 2;
    std::uint32_t differences = 0;
    for (std::size_t i = 0; i < num; ++i) {
      const std::atomic<std::uint32_t>* refs = table.frames().refs(draws[i].slot);
      for (std::size_t j = schema_.shift; j < stack; ++j)
        differences |= refs[j].load(std::memory_order_relaxed) ^
                       refs[stack + j - schema_.shift].load(std::memory_order_relaxed);
    }
    return differences == 0;
  }

  void take_apart() noexcept {
    for (std::size_t f = 0; f < schema_.num_fields; ++f) {
      const Field& field = schema_.fields[f];
      if (!field.is_framed()) continue;
      const std::size_t stride = schema_.sampled_stride(field);
      for (std::size_t i = 0; i < num_gathered_; ++i)
        std::memcpy(apart_[f] + i * field.nbytes, joined_[f] + i * stride, field.nbytes);
    }
    schema_.shift = 0;
  }

  RowSchema schema_;
  unsigned char* const* joined_;
  unsigned char* const* apart_;
  std::size_t num_gathered_ = 0;
};

}  // namespace drivetrain
