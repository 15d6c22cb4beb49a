// From the fields of a step to the bytes of a row and back.
#pragma once

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
};

struct Field {
  FieldKind kind;
  std::size_t offset;  // within the fields of a row
  std::size_t nbytes;  // of one row
};

/// The fields of a row, in the order of the arrays that go in and out.
struct RowSchema {
  const Field* fields;
  std::size_t num_fields;
};

/// One step of each environment; arrays[f] holds [num_envs] items of schema.fields[f] for kFirst
/// and kNext fields (nullptr for the others).
struct Step {
  const unsigned char* const* arrays;
  const float* reward_f32;   // either this
  const double* reward_f64;  // or this
  const std::uint8_t* terminated;
  const std::uint8_t* truncated;

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

/// Copies the rows of draws[0 .. num) to positions first, first + 1, ... of each output array.
/// Some rows at a time, field by field, while the next are being fetched.
inline void gather_rows(const RowSchema& schema, const ReplayTable& table,
                        unsigned char* const* outputs, std::size_t first, std::size_t num,
                        const Draw* draws) noexcept {
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
