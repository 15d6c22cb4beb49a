// The floor under every sample: rows copied from given places to one contiguous output, and nothing
// else. No draw, no lock, no check, no fields. For measuring what a sampler adds to it.
#pragma once

#include <algorithm>

#include "bind/tree.hpp"
#include "drivetrain/fetch_line.hpp"
#include "drivetrain/large_copy.hpp"

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
  constexpr std::size_t kAhead = 16;  // rows whose first lines are asked for before they are copied
  const std::size_t lines = std::min<std::size_t>((nbytes + 63) / 64, 4);
  const auto prefetch = [&](std::size_t i) {
    const unsigned char* row = source + index[i] * stride;
    for (std::size_t line = 0; line < lines; ++line) fetch_line(row + 64 * line);
  };
  nb::gil_scoped_release released;
  if (nbytes >= kLargeRow) {
    LargeCopies copies(out_nbytes >= kPastCaches);
    for (std::size_t i = 0; i < count; ++i)
      copies.add(target + i * nbytes, source + index[i] * stride, nbytes);
    return;
  }
  for (std::size_t i = 0; i < std::min(kAhead, count); ++i) prefetch(i);
  for (std::size_t i = 0; i < count; ++i) {
    if (i + kAhead < count) prefetch(i + kAhead);
    copy_bytes(target + i * nbytes, source + index[i] * stride, nbytes);
  }
}

}  // namespace drivetrain::bind
