// The floor under every sample: rows copied from given places to one contiguous output, and nothing
// else. No draw, no lock, no check, no fields. For measuring what a sampler adds to it.
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "bind/tree.hpp"
#include "drivetrain/shared_copy.hpp"

namespace drivetrain::bind {

inline constexpr std::size_t kStreamedRow = 4096;        // bytes; shorter rows are copied as usual
inline constexpr std::size_t kStreamedOutput = 1 << 20;  // bytes; smaller ones stay in the caches

/// Copies past the caches: a line that is written whole need not be read before. On the machine we
/// measured, 256 rows of two 84x84x4 stacks took 1.35 times as long by memcpy.
inline void stream_bytes(unsigned char* target, const unsigned char* source, std::size_t nbytes) {
#if defined(__SSE2__)
  const std::size_t head = (64 - reinterpret_cast<std::uintptr_t>(target) % 64) % 64;
  copy_bytes(target, source, head);
  std::size_t at = head;
  for (; at + 64 <= nbytes; at += 64) {
    const auto* from = reinterpret_cast<const __m128i*>(source + at);
    auto* to = reinterpret_cast<__m128i*>(target + at);
    const __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1);
    const __m128i c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
  }
  copy_bytes(target + at, source + at, nbytes - at);
#else
  copy_bytes(target, source, nbytes);
#endif
}

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
  // The first lines of a row are asked for some rows before it is copied; the hardware follows the
  // rest of a long one by itself.
  const bool streamed = nbytes >= kStreamedRow && out_nbytes >= kStreamedOutput;
  const std::size_t ahead = streamed ? 1 : 16;
  const std::size_t lines = std::min<std::size_t>((nbytes + 63) / 64, streamed ? 8 : 4);
  const auto prefetch = [&](std::size_t i) {
    const unsigned char* row = source + index[i] * stride;
    for (std::size_t line = 0; line < lines; ++line) __builtin_prefetch(row + 64 * line);
  };
  nb::gil_scoped_release released;
  for (std::size_t i = 0; i < std::min(ahead, count); ++i) prefetch(i);
  for (std::size_t i = 0; i < count; ++i) {
    if (i + ahead < count) prefetch(i + ahead);
    const unsigned char* row = source + index[i] * stride;
    if (streamed) {
      stream_bytes(target + i * nbytes, row, nbytes);
    } else {
      copy_bytes(target + i * nbytes, row, nbytes);
    }
  }
#if defined(__SSE2__)
  _mm_sfence();  // streamed stores are seen by others from here on
#endif
}

}  // namespace drivetrain::bind
