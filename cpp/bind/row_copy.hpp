// The floor under every sample: rows copied from given places to one contiguous output, and nothing
// else. No draw, no lock, no check, no fields. For measuring what a sampler adds to it.
#pragma once

#include "bind/tree.hpp"
#include "drivetrain/shared_copy.hpp"

namespace drivetrain::bind {

/// out[i] = rows[indices[i] * stride ... + nbytes), for uint8 arrays; rows may overlap.
inline void copy_rows(nb::handle rows, std::size_t stride, std::size_t nbytes, nb::handle indices,
                      nb::handle out) {
  std::size_t count, rows_nbytes, out_nbytes;
  const auto* source = flat_data<const unsigned char>(rows, NPY_UINT8, "uint8", &rows_nbytes);
  const auto* index = flat_data<const std::uint32_t>(indices, NPY_UINT32, "uint32", &count);
  auto* target = flat_data<unsigned char>(out, NPY_UINT8, "uint8", &out_nbytes);
  expect_as_many(count * nbytes, out_nbytes);
  for (std::size_t i = 0; i < count; ++i)
    if (index[i] * stride + nbytes > rows_nbytes)
      throw nb::value_error("expected indices of whole rows; one is beyond the end");
  // A row's lines are asked for some rows before they are copied. Long rows are left to the
  // hardware, which follows them by itself.
  constexpr std::size_t kAhead = 16, kLines = 4;
  const std::size_t lines = std::min((nbytes + 63) / 64, kLines);
  const auto prefetch = [&](std::size_t i) {
    const unsigned char* row = source + index[i] * stride;
    for (std::size_t line = 0; line < lines; ++line) __builtin_prefetch(row + 64 * line);
  };
  nb::gil_scoped_release released;
  for (std::size_t i = 0; i < std::min(kAhead, count); ++i) prefetch(i);
  for (std::size_t i = 0; i < count; ++i) {
    if (i + kAhead < count) prefetch(i + kAhead);
    copy_bytes(target + i * nbytes, source + index[i] * stride, nbytes);
  }
}

}  // namespace drivetrain::bind
