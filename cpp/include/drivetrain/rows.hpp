// From the fields of a step to the bytes of a row and back.
#pragma once

#include <cstddef>
#include <cstdint>

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

#ifdef DRIVETRAIN_TSAN

inline void copy_items(unsigned char* out, std::size_t nbytes, const unsigned char* const* rows,
                       std::size_t offset, std::size_t num) noexcept {
  for (std::size_t i = 0; i < num; ++i) copy_from_shared(out + i * nbytes, rows[i] + offset, nbytes);
}

#else

template <std::size_t kBytes>
inline void copy_fixed(unsigned char* out, const unsigned char* const* rows, std::size_t offset,
                       std::size_t num) noexcept {
  for (std::size_t i = 0; i < num; ++i) std::memcpy(out + i * kBytes, rows[i] + offset, kBytes);
}

/// out[i] = the `nbytes` at `offset` of rows[i].
inline void copy_items(unsigned char* out, std::size_t nbytes, const unsigned char* const* rows,
                       std::size_t offset, std::size_t num) noexcept {
  switch (nbytes) {  // a constant size makes the copy one or two moves
    case 1: return copy_fixed<1>(out, rows, offset, num);
    case 4: return copy_fixed<4>(out, rows, offset, num);
    case 8: return copy_fixed<8>(out, rows, offset, num);
    case 16: return copy_fixed<16>(out, rows, offset, num);
    case 32: return copy_fixed<32>(out, rows, offset, num);
    default:
      for (std::size_t i = 0; i < num; ++i) copy_bytes(out + i * nbytes, rows[i] + offset, nbytes);
  }
}

#endif

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
      copy_items(outputs[f] + (first + start) * field.nbytes, field.nbytes, block, field.offset,
                 num - start < kBlock ? num - start : kBlock);
    }
  }
}

}  // namespace drivetrain
