// The floor under every sample: rows copied from given places to one contiguous output, and nothing
// else. No draw, no lock, no check, no fields. For measuring what a sampler adds to it.
#pragma once

#include <algorithm>

#include "bind/gil.hpp"
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
  // Rows whose first lines are asked for before they are copied, some at once: their pages are then looked up together.
  constexpr std::size_t kAtOnce = 16, kAhead = 4 * kAtOnce;
  const std::size_t lines = std::min<std::size_t>((nbytes + 63) / 64, 4);
  const auto prefetch = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < std::min(end, count); ++i)
      for (std::size_t line = 0; line < lines; ++line) fetch_line(source + index[i] * stride + 64 * line);
  };
  GilReleased released;
  if (nbytes >= kLargeRow) {
    LargeCopies copies(out_nbytes >= kPastCaches);
    for (std::size_t i = 0; i < count; ++i)
      copies.add(target + i * nbytes, source + index[i] * stride, nbytes);
    return;
  }
  prefetch(0, kAhead);
  for (std::size_t start = 0; start < count; start += kAtOnce) {
    prefetch(start + kAhead, start + kAhead + kAtOnce);
    for (std::size_t i = start; i < std::min(start + kAtOnce, count); ++i)
      copy_bytes(target + i * nbytes, source + index[i] * stride, nbytes);
  }
}

}  // namespace drivetrain::bind
