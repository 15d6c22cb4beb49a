// What every handler of XLA's asks of its arguments before its own loops run.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>

#include "drivetrain/simd.hpp"
#include "drivetrain/xla_call.hpp"

namespace drivetrain::bind {

namespace nb = nanobind;

inline const SimdLevel kSimd = best_simd_level();

/// Answers XLA, which asks what a handler is, or calls `call(args, rets)` where there are so many of them; what it
/// gives is the error, or `misfit` where it gives false.
template <std::int64_t kNumArgs, std::int64_t kNumRets, class Call>
xla::Error* answer(xla::CallFrame* frame, const char* misfit, Call&& call) {
  if (xla::answers_metadata(frame)) return nullptr;
  const bool fits = frame->args.size == kNumArgs && frame->rets.size == kNumRets &&
                    call(frame->args.buffers, frame->rets.buffers);
  return fits ? nullptr : xla::error(frame, xla::kInvalidArgument, misfit);
}

/// Numbers in an array.
inline std::size_t size_of(const xla::Buffer& buffer) {
  std::size_t size = 1;
  for (std::int64_t axis = 0; axis < buffer.rank; ++axis) size *= static_cast<std::size_t>(buffer.dims[axis]);
  return size;
}

/// A matrix, or several of one shape.
struct Matrices {
  bool fit;  // float32, of two or three axes
  std::size_t num, rows, columns;
  float* data;

  explicit Matrices(const xla::Buffer& buffer)
      : fit(buffer.dtype == xla::kFloat32 && (buffer.rank == 2 || buffer.rank == 3)),
        num(fit && buffer.rank == 3 ? static_cast<std::size_t>(buffer.dims[0]) : 1),
        rows(fit ? static_cast<std::size_t>(buffer.dims[buffer.rank - 2]) : 0),
        columns(fit ? static_cast<std::size_t>(buffer.dims[buffer.rank - 1]) : 0),
        data(static_cast<float*>(buffer.data)) {}

  float* operator[](std::size_t index) const { return data + index * rows * columns; }
  bool is(std::size_t wanted_num, std::size_t wanted_rows, std::size_t wanted_columns) const {
    return fit && num == wanted_num && rows == wanted_rows && columns == wanted_columns;
  }
};

inline nb::capsule handler(xla::Error* (*function)(xla::CallFrame*)) {
  return nb::capsule(reinterpret_cast<void*>(function), "xla._CUSTOM_CALL_TARGET");
}

}  // namespace drivetrain::bind
