// From the fields of a step to the bytes of a row and back.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "drivetrain/replay_table.hpp"
#include "drivetrain/sampler.hpp"
#include "drivetrain/shared_copy.hpp"

namespace drivetrain {

enum class FieldKind : std::uint32_t {
  kFirst,       // of the window's first step: obs, action, everything the user declared
  kNext,        // of the step after its last: next_obs
  kReward,      // float32 n-step return
  kDiscount,    // float32 gamma^n, 0 after termination
  kTerminated,  // bool, of the window's last step
  kTruncated,   // bool, of the window's last step
  kFrames,      // obs of a framed table: a stack of frames
  kNextFrames,  // next_obs likewise
  kInitial,     // of a sequence's first step alone
  kMask,        // bool per step: whether the sequence has it
};

struct Field {
  FieldKind kind;
  std::size_t offset;  // within the fields of a row; of kFrames and kNextFrames, within a frame
  std::size_t nbytes;  // in a sample, of one row: of all its steps, of whole stacks

  bool is_framed() const noexcept {
    return kind == FieldKind::kFrames || kind == FieldKind::kNextFrames;
  }
};

/// The fields of a row, in the order of the arrays that go in and out.
struct RowSchema {
  const Field* fields;
  std::size_t num_fields;
  std::size_t stack = 0;  // frames per observation; 0: rows hold their observations
  std::size_t steps = 1;  // of a row

  /// Bytes of one item of an array that comes in.
  std::size_t step_nbytes(const Field& field) const noexcept {
    return field.kind == FieldKind::kInitial ? field.nbytes : field.nbytes / steps;
  }
};

/// One step of each environment; arrays[f] holds [num_envs] items of schema.fields[f] for kFirst
/// and kNext fields (nullptr for the others).
struct Step {
  const unsigned char* const* arrays;
  const float* reward_f32;   // either this
  const double* reward_f64;  // or this
  const std::uint8_t* terminated;
  const std::uint8_t* truncated;
  const float* priority = nullptr;  // of the rows that begin here; nullptr: the table decides

  double reward(std::size_t env) const noexcept {
    return reward_f64 ? reward_f64[env] : static_cast<double>(reward_f32[env]);
  }
};

// Calls move(size) with the size as a constant where it is a usual one: a copy is then one or two
// moves of a register.
template <class Move>
inline void with_size(std::size_t nbytes, Move&& move) noexcept {
  switch (nbytes) {
    case 1: return move(std::integral_constant<std::size_t, 1>{});
    case 4: return move(std::integral_constant<std::size_t, 4>{});
    case 8: return move(std::integral_constant<std::size_t, 8>{});
    case 16: return move(std::integral_constant<std::size_t, 16>{});
    case 32: return move(std::integral_constant<std::size_t, 32>{});
    default: return move(nbytes);
  }
}

/// out[i] = the `nbytes` at `offset` of rows[i], which others may be writing.
inline void get_items(unsigned char* out, std::size_t nbytes, const unsigned char* const* rows,
                      std::size_t offset, std::size_t num) noexcept {
  with_size(nbytes, [&](auto size) {
    for (std::size_t i = 0; i < num; ++i) copy_from_shared(out + i * size, rows[i] + offset, size);
  });
}

/// The `nbytes` at `offset` of rows[i] = those at item(i), while others may be reading.
template <class Item>
inline void put_items(unsigned char* const* rows, std::size_t offset, std::size_t nbytes,
                      std::size_t num, Item&& item) noexcept {
  with_size(nbytes, [&](auto size) {
    for (std::size_t i = 0; i < num; ++i) copy_to_shared(rows[i] + offset, item(i), size);
  });
}

/// Copies the frames of draws[0 .. num) to `out`: of obs (the first half of a row's) or next_obs.
inline void copy_frames(unsigned char* out, const Field& field, const ReplayTable& table,
                        const Draw* draws, std::size_t num) noexcept {
  const std::size_t half = table.config().num_refs / 2, part = field.nbytes / half;
  const std::size_t from_ref = field.kind == FieldKind::kNextFrames ? half : 0;
  for (std::size_t i = 0; i < num; ++i) {
    const std::atomic<std::uint32_t>* refs = table.frames().refs(draws[i].slot) + from_ref;
    for (std::size_t j = 0; j < half; ++j, out += part) {
      const std::uint32_t ref = refs[j].load(std::memory_order_relaxed);
      if (ref == kNoFrame) {
        std::memset(out, 0, part);
      } else {
        copy_from_shared(out, table.frames().bytes(ref) + field.offset, part);
      }
    }
  }
}

inline void prefetch_frames(const ReplayTable& table, const Draw& draw) noexcept {
  const TableConfig& config = table.config();
  const std::atomic<std::uint32_t>* refs = table.frames().refs(draw.slot);
  const std::size_t lines = std::min<std::size_t>((config.frame_stride + 63) / 64, 4);
  for (std::size_t r = 0; r < config.num_refs; ++r) {
    const unsigned char* frame = table.frames().bytes(refs[r].load(std::memory_order_relaxed));
    for (std::size_t line = 0; line < lines; ++line) __builtin_prefetch(frame + 64 * line);
  }
}

/// gather_rows() for a framed table. Rows are fetched two blocks ahead, since they say which frames to
/// fetch; where the frames of a row are large a block is one row, whose obs and next_obs then find
/// them in the cache.
inline void gather_framed_rows(const RowSchema& schema, const ReplayTable& table,
                               unsigned char* const* outputs, std::size_t first, std::size_t num,
                               const Draw* draws) noexcept {
  const std::size_t of_row = table.config().frame_stride * table.config().num_refs;
  const std::size_t block = of_row > 4096 ? 1 : 16;
  const std::size_t lines = std::min<std::size_t>((table.config().row_stride + 63) / 64, 8);
  const auto fetch_row = [&](std::size_t i) {
    const auto* row = reinterpret_cast<const unsigned char*>(&table.row(draws[i].slot));
    for (std::size_t line = 0; line < lines; ++line) __builtin_prefetch(row + 64 * line);
  };
  for (std::size_t i = 0; i < std::min(block, num); ++i) prefetch_frames(table, draws[i]);
  for (std::size_t i = block; i < std::min(2 * block, num); ++i) fetch_row(i);
  for (std::size_t start = 0; start < num; start += block) {
    const std::size_t end = std::min(start + block, num);
    for (std::size_t i = start + 2 * block; i < std::min(end + 2 * block, num); ++i) fetch_row(i);
    for (std::size_t i = end; i < std::min(end + block, num); ++i) prefetch_frames(table, draws[i]);
    const unsigned char* rows[16];
    for (std::size_t i = start; i < end; ++i) rows[i - start] = table.fields(draws[i].slot);
    for (std::size_t f = 0; f < schema.num_fields; ++f) {
      const Field& field = schema.fields[f];
      unsigned char* out = outputs[f] + (first + start) * field.nbytes;
      if (field.is_framed())
        copy_frames(out, field, table, draws + start, end - start);
      else
        get_items(out, field.nbytes, rows, field.offset, end - start);
    }
  }
}

/// Copies the rows of draws[0 .. num) to positions first, first + 1, ... of each output array.
/// Some rows at a time, field by field, while the next are being fetched.
inline void gather_rows(const RowSchema& schema, const ReplayTable& table,
                        unsigned char* const* outputs, std::size_t first, std::size_t num,
                        const Draw* draws) noexcept {
  if (schema.stack > 0) return gather_framed_rows(schema, table, outputs, first, num, draws);
  constexpr std::size_t kBlock = 32;
  const std::size_t lines = (table.config().row_stride + 63) / 64;
  const std::size_t prefetched = lines < 8 ? lines : 8;  // longer rows: the hardware follows
  const unsigned char* rows[2][kBlock];                  // these, and the next ones
  const auto fetch = [&](std::size_t start, const unsigned char** ahead) {
    for (std::size_t i = start; i < num && i < start + kBlock; ++i) {
      const unsigned char* row = table.fields(draws[i].slot);
      for (std::size_t line = 0; line < prefetched; ++line) __builtin_prefetch(row + 64 * line);
      ahead[i - start] = row;
    }
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

}  // namespace drivetrain
