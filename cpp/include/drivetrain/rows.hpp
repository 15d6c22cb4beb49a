// From the fields of a step to the bytes of a row and back.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "drivetrain/item_copy.hpp"
#include "drivetrain/replay_table.hpp"
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

/// The fields of a row, in the order of the arrays that go in and out. In the rows of transitions the discount
/// lies right behind the reward, and `truncated` behind `terminated`.
struct RowSchema {
  const Field* fields;
  std::size_t num_fields;
  std::size_t stack = 0;  // frames per observation; 0: rows hold their observations
  std::size_t steps = 1;  // of a row
  std::size_t shift = 0;  // frames from obs to next_obs in a sample that has them as one run; 0: as two stacks

  /// Bytes of one item of an array that comes in.
  std::size_t step_nbytes(const Field& field) const noexcept {
    return field.kind == FieldKind::kInitial ? field.nbytes : field.nbytes / steps;
  }
  /// Bytes from one row to the next in the array of a sample.
  std::size_t sampled_stride(const Field& field) const noexcept {
    return field.nbytes + (field.is_framed() && shift ? shift * (field.nbytes / stack) : 0);
  }
  /// Bytes of one row in a sample.
  std::size_t row_nbytes() const noexcept {
    std::size_t nbytes = 0;
    for (std::size_t f = 0; f < num_fields; ++f)
      nbytes += fields[f].kind == FieldKind::kNextFrames && shift ? shift * (fields[f].nbytes / stack)
                                                                  : fields[f].nbytes;
    return nbytes;
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
    case 2: return move(std::integral_constant<std::size_t, 2>{});
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
  if (with_blocks(nbytes, [&](auto blocks) { get_blocks<blocks>(out, nbytes, rows, offset, num); }))
    return;
  with_size(nbytes, [&](auto size) {
#pragma GCC unroll 8
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

/// The same for items that lie one after the other.
inline void put_array(unsigned char* const* rows, std::size_t offset, std::size_t nbytes,
                      std::size_t num, const void* array) noexcept {
  const auto* items = static_cast<const unsigned char*>(array);
  if (!with_blocks(nbytes, [&](auto blocks) { put_blocks<blocks>(rows, offset, nbytes, num, items); }))
    put_items(rows, offset, nbytes, num, [&](std::size_t i) { return items + i * nbytes; });
}

}  // namespace drivetrain
