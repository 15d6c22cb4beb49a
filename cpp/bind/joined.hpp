// Arrays of a pytree one behind the other in a vector, as a custom call of XLA: see train/learner/sharing.py.
#pragma once

#include <cstring>

#include "bind/xla_calls.hpp"

namespace drivetrain::bind {

inline constexpr char kJoinedMisfit[] = "joined: expected float32 arrays, and a float32 vector as long as all of them";

/// (array, array, ...) -> vector
inline xla::Error* joined(xla::CallFrame* frame) {
  if (xla::answers_metadata(frame)) return nullptr;
  const xla::Buffers &args = frame->args, &rets = frame->rets;
  bool fits = rets.size == 1 && rets.buffers[0]->dtype == xla::kFloat32;
  std::size_t size = 0;
  for (std::int64_t i = 0; i < args.size; ++i) {
    fits = fits && args.buffers[i]->dtype == xla::kFloat32;
    size += size_of(*args.buffers[i]);
  }
  if (!fits || size != size_of(*rets.buffers[0])) return xla::error(frame, xla::kInvalidArgument, kJoinedMisfit);
  float* next = static_cast<float*>(rets.buffers[0]->data);
  for (std::int64_t i = 0; i < args.size; ++i) {
    const std::size_t length = size_of(*args.buffers[i]);
    if (length > 0) std::memcpy(next, args.buffers[i]->data, length * sizeof(float));
    next += length;
  }
  return nullptr;
}

}  // namespace drivetrain::bind
