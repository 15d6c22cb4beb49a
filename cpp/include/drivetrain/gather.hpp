// From drawn rows to the arrays of a sample: everything that is copied out of a table.
//
// Called without the lock, under a check of generations that follows (sampler.hpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "drivetrain/bounds.hpp"
#include "drivetrain/fetch_line.hpp"
#include "drivetrain/large_copy.hpp"
#include "drivetrain/rows.hpp"
#include "drivetrain/sampler.hpp"
#include "drivetrain/thread_pool.hpp"

namespace drivetrain {

/// Calls copy(out, frame, nbytes) for the frames of a draw's obs (the first half of a row's) or next_obs, to
/// be copied to `out`; where there is none it writes zeros. Of a joined next_obs, those that obs has not.
template <class Copy>
inline void each_frame(unsigned char* out, const RowSchema& schema, const Field& field,
                       const ReplayTable& table, const Draw& draw, Copy&& copy) noexcept {
  const std::size_t half = table.config().num_refs / 2, part = field.nbytes / half;
  const bool is_next = field.kind == FieldKind::kNextFrames;
  const std::atomic<std::uint32_t>* refs = table.frames().refs(draw.slot) + (is_next ? half : 0);
  const std::size_t begin = is_next && schema.shift ? half - schema.shift : 0;
  out += begin * part;
  for (std::size_t j = begin; j < half; ++j, out += part) {
    const std::uint32_t ref = refs[j].load(std::memory_order_relaxed);
    if (ref == kNoFrame) {
      std::memset(out, 0, part);
    } else {
      copy(out, table.frames().bytes(ref) + field.offset, part);
    }
  }
}

inline void prefetch_frames(const ReplayTable& table, const Draw& draw) noexcept {
  const TableConfig& config = table.config();
  const std::atomic<std::uint32_t>* refs = table.frames().refs(draw.slot);
  const std::size_t lines = std::min<std::size_t>((config.frame_stride + 63) / 64, 4);
  const unsigned char* const frames = table.frames().bytes(0);
  for (std::size_t r = 0; r < config.num_refs; ++r) {  // kNoFrame, too: asking reads nothing
    const unsigned char* frame = frames + refs[r].load(std::memory_order_relaxed) * config.frame_stride;
    for (std::size_t line = 0; line < lines; ++line) fetch_line(frame + 64 * line);
  }
}

inline void prefetch_row(const ReplayTable& table, const Draw& draw) noexcept {
  const auto* row = reinterpret_cast<const unsigned char*>(&table.row(draw.slot));
  const std::size_t lines = std::min<std::size_t>((table.config().row_stride + 63) / 64, 8);
  for (std::size_t line = 0; line < lines; ++line) fetch_line(row + 64 * line);
}

/// gather_rows() for a framed table. Rows are fetched two blocks ahead, since they say which frames to
/// fetch.
inline void gather_framed_rows(const RowSchema& schema, const ReplayTable& table,
                               unsigned char* const* outputs, std::size_t first, std::size_t num,
                               const Draw* draws) noexcept {
  constexpr std::size_t kBlock = 16;
  for (std::size_t i = 0; i < std::min(kBlock, num); ++i) prefetch_frames(table, draws[i]);
  for (std::size_t i = kBlock; i < std::min(2 * kBlock, num); ++i) prefetch_row(table, draws[i]);
  for (std::size_t start = 0; start < num; start += kBlock) {
    const std::size_t end = std::min(start + kBlock, num);
    for (std::size_t i = start + 2 * kBlock; i < std::min(end + 2 * kBlock, num); ++i)
      prefetch_row(table, draws[i]);
    for (std::size_t i = end; i < std::min(end + kBlock, num); ++i) prefetch_frames(table, draws[i]);
    const unsigned char* rows[kBlock];
    for (std::size_t i = start; i < end; ++i) rows[i - start] = table.fields(draws[i].slot);
    for (std::size_t f = 0; f < schema.num_fields; ++f) {
      const Field& field = schema.fields[f];
      const std::size_t stride = schema.sampled_stride(field);
      unsigned char* out = outputs[f] + (first + start) * stride;
      if (!field.is_framed()) {
        get_items(out, field.nbytes, rows, field.offset, end - start);
        continue;
      }
      for (std::size_t i = start; i < end; ++i, out += stride)
        each_frame(out, schema, field, table, draws[i],
                   [](auto* to, const auto* from, std::size_t n) { copy_from_shared(to, from, n); });
    }
  }
}

/// Bytes of a sample up to which the stacks of obs and next_obs are copied at once: larger ones were slower so
/// (design/replay-speed.md).
inline constexpr std::size_t kStacksAtOnce = 32 << 20;

/// gather_rows() for rows of kilobytes: few at a time, so that obs and next_obs find the frames that they
/// share in the cache. Rows are fetched two blocks ahead, since they say which frames to fetch.
[[gnu::noinline]] inline void gather_large_rows(const RowSchema& schema,
                                                const ReplayTable& table,
                                                unsigned char* const* outputs, std::size_t first,
                                                std::size_t num, const Draw* draws,
                                                bool past_caches) noexcept {
  const bool together = schema.stack > 1 && num * schema.row_nbytes() <= kStacksAtOnce;
  const std::size_t block = together ? 1 : 4;
  const std::size_t frames = schema.stack + (schema.shift ? schema.shift : schema.stack);
  LargeCopies copies(past_caches, together ? std::min(frames, LargeCopies::kMost) : 4);
  const auto copy = [&](unsigned char* to, const unsigned char* from, std::size_t nbytes) {
    if (nbytes < kLargePiece) return copy_from_shared(to, from, nbytes);
    copies.add(to, from, nbytes);
  };
  for (std::size_t i = 0; i < std::min(2 * block, num); ++i) prefetch_row(table, draws[i]);
  for (std::size_t start = 0; start < num; start += block) {
    const std::size_t end = std::min(start + block, num);
    for (std::size_t i = end + block; i < std::min(end + 2 * block, num); ++i) prefetch_row(table, draws[i]);
    if (schema.stack > 1)
      for (std::size_t i = end; i < std::min(end + block, num); ++i) prefetch_frames(table, draws[i]);
    for (std::size_t f = 0; f < schema.num_fields; ++f) {
      const Field& field = schema.fields[f];
      const std::size_t stride = schema.sampled_stride(field);
      for (std::size_t i = start; i < end; ++i) {
        unsigned char* out = outputs[f] + (first + i) * stride;
        if (field.is_framed()) {
          each_frame(out, schema, field, table, draws[i], copy);
        } else {
          copy(out, table.fields(draws[i].slot) + field.offset, field.nbytes);
        }
      }
    }
  }
}

/// Copies the rows of draws[0 .. num) to positions first, first + 1, ... of each output array, large ones
/// past the caches if asked for. Some rows at a time, field by field, while the next are being fetched: of each line
/// but the first the sampler has asked for as well, and some of that was lost.
inline void gather_rows(const RowSchema& schema, const ReplayTable& table,
                        unsigned char* const* outputs, std::size_t first, std::size_t num,
                        const Draw* draws, bool past_caches = false) noexcept {
  if (schema.row_nbytes() >= kLargeRow)
    return gather_large_rows(schema, table, outputs, first, num, draws, past_caches);
  if (schema.stack > 0) return gather_framed_rows(schema, table, outputs, first, num, draws);
  constexpr std::size_t kBlock = 64;
  const std::size_t stride = table.config().row_stride, lines = (stride + 63) / 64;
  const std::size_t prefetched = lines < 8 ? lines : 8;  // longer rows: the hardware follows
  const unsigned char* const first_row = table.fields(0);
  const unsigned char* rows[2][kBlock];  // these, and the next ones
  const auto fetch = [&](std::size_t start, const unsigned char** ahead) {
    const std::size_t end = std::min(num, start + kBlock);
    for (std::size_t i = start; i < end; ++i)
      *ahead++ = first_row + within(draws[i].slot, table.config().capacity) * stride;
    if (prefetched < 2) return;
    for (ahead -= end - start; start < end; ++start, ++ahead)
      for (std::size_t line = 1; line < prefetched; ++line) fetch_line(*ahead + 64 * line);
  };
  fetch(0, rows[0]);
  for (std::size_t start = 0; start < num; start += kBlock) {
    const unsigned char* const* block = rows[start / kBlock % 2];
    fetch(start + kBlock, rows[(start / kBlock + 1) % 2]);
    for (std::size_t f = 0; f < schema.num_fields; ++f) {
      const Field& field = schema.fields[f];
      get_items(outputs[f] + (first + start) * field.nbytes, field.nbytes, block, field.offset,
                 num - start < kBlock ? num - start : kBlock);
    }
  }
}

/// Who gathers large batches: several threads of a pool, where each has some parts of this size to copy.
struct Gatherers {
  ThreadPool& pool;
  unsigned num_threads;
  std::size_t part_nbytes = 1 << 18;
};

/// The same by several threads, where there is enough to copy.
inline void gather_rows(const RowSchema& schema, const ReplayTable& table,
                        unsigned char* const* outputs, std::size_t first, std::size_t num,
                        const Draw* draws, const Gatherers& gatherers) noexcept {
  const std::size_t nbytes = schema.row_nbytes() * num;
  const bool past_caches = nbytes >= kPastCaches;
  const std::size_t num_parts = std::min(num, nbytes / gatherers.part_nbytes);
  if (gatherers.num_threads < 2 || num_parts < 4)
    return gather_rows(schema, table, outputs, first, num, draws, past_caches);
  gatherers.pool.run(gatherers.num_threads, num_parts, [&](std::size_t part) {
    const std::size_t begin = num * part / num_parts, end = num * (part + 1) / num_parts;
    gather_rows(schema, table, outputs, first + begin, end - begin, draws + begin, past_caches);
    // As the sampler does for its own thread: every copy is over before generations are looked at again.
    std::atomic_thread_fence(std::memory_order_acquire);
  });
}

}  // namespace drivetrain
