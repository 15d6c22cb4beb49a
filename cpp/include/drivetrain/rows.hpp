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
  const float* priority = nullptr;  // of the rows that begin here; nullptr: the table decides

  double reward(std::size_t env) const noexcept {
    return reward_f64 ? reward_f64[env] : static_cast<double>(reward_f32[env]);
  }
};

#ifdef DRIVETRAIN_TSAN

inline void copy_field(unsigned char* out, std::size_t nbytes, std::size_t offset,
                       const ReplayTable& table, const Draw* draws, std::size_t num) noexcept {
  for (std::size_t i = 0; i < num; ++i)
    copy_from_shared(out + i * nbytes, table.fields(draws[i].slot) + offset, nbytes);
}

#else

template <std::size_t kBytes>
inline void copy_fixed(unsigned char* out, std::size_t offset, const ReplayTable& table,
                       const Draw* draws, std::size_t num) noexcept {
  for (std::size_t i = 0; i < num; ++i)
    std::memcpy(out + i * kBytes, table.fields(draws[i].slot) + offset, kBytes);
}

inline void copy_field(unsigned char* out, std::size_t nbytes, std::size_t offset,
                       const ReplayTable& table, const Draw* draws, std::size_t num) noexcept {
  switch (nbytes) {  // a constant size makes the copy one or two moves
    case 1: return copy_fixed<1>(out, offset, table, draws, num);
    case 4: return copy_fixed<4>(out, offset, table, draws, num);
    case 8: return copy_fixed<8>(out, offset, table, draws, num);
    case 16: return copy_fixed<16>(out, offset, table, draws, num);
    case 32: return copy_fixed<32>(out, offset, table, draws, num);
    default:
      for (std::size_t i = 0; i < num; ++i)
        copy_bytes(out + i * nbytes, table.fields(draws[i].slot) + offset, nbytes);
  }
}

#endif

/// Copies the rows of draws[0 .. num) to positions first, first + 1, ... of each output array.
/// Sixteen rows at a time, field by field, while the next sixteen are being fetched.
inline void gather_rows(const RowSchema& schema, const ReplayTable& table,
                        unsigned char* const* outputs, std::size_t first, std::size_t num,
                        const Draw* draws) noexcept {
  constexpr std::size_t kBlock = 16;
  const std::size_t lines = (table.config().row_stride + 63) / 64;
  const std::size_t prefetched = lines < 8 ? lines : 8;  // longer rows: the hardware follows
  for (std::size_t start = 0; start < num; start += kBlock) {
    const std::size_t end = start + kBlock < num ? start + kBlock : num;
    const std::size_t ahead = end + kBlock < num ? end + kBlock : num;
    for (std::size_t i = end; i < ahead; ++i) {
      const auto* row = reinterpret_cast<const unsigned char*>(&table.row(draws[i].slot));
      for (std::size_t line = 0; line < prefetched; ++line) __builtin_prefetch(row + 64 * line);
    }
    for (std::size_t f = 0; f < schema.num_fields; ++f) {
      const Field& field = schema.fields[f];
      copy_field(outputs[f] + (first + start) * field.nbytes, field.nbytes, field.offset, table,
                 draws + start, end - start);
    }
  }
}

}  // namespace drivetrain
