// A step of Adam over the arrays of a pytree, as a custom call of XLA: see train/learner/optimizers.py.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>

#include "bind/xla_calls.hpp"
#include "drivetrain/adam.hpp"

namespace drivetrain::bind {

inline constexpr char kAdamMisfit[] =
    "adam: expected float32: factors [7] and the largest norm, gradients (or one vector of all of them), means, mean "
    "squares and parameters, of which all but the gradients are changed in place, and the norm";

/// (factors, g... or one vector, m..., v..., p...) -> (m..., v..., p..., norm), where they were
///
/// The factors are adam.hpp's, then the largest norm: longer gradients are scaled down to it. What a vector has beyond
/// the gradients is left alone.
inline xla::Error* adam_step(xla::CallFrame* frame) {
  if (xla::answers_metadata(frame)) return nullptr;
  const xla::Buffers &args = frame->args, &rets = frame->rets;
  const std::int64_t count = (rets.size - 1) / 3, num_gradients = args.size - 1 - 3 * count;
  const bool is_vector = num_gradients == 1;
  const auto of = [&](std::int64_t part, std::int64_t i) -> const xla::Buffer& {  // m, v or p
    return *args.buffers[1 + num_gradients + part * count + i];
  };
  bool fits = count > 0 && rets.size == 3 * count + 1 && (is_vector || num_gradients == count);
  for (std::int64_t i = 0; fits && i < args.size; ++i) fits = args.buffers[i]->dtype == xla::kFloat32;
  for (std::int64_t i = 0; fits && i < rets.size; ++i) fits = rets.buffers[i]->dtype == xla::kFloat32;
  fits = fits && size_of(*args.buffers[0]) == adam::kNumFactors + 1 && size_of(*rets.buffers[3 * count]) == 1;
  std::size_t total = 0;
  for (std::int64_t i = 0; fits && i < count; ++i) {
    total += size_of(of(0, i));
    fits = is_vector || size_of(*args.buffers[1 + i]) == size_of(of(0, i));
    for (std::int64_t part = 0; fits && part < 3; ++part) {
      const xla::Buffer& result = *rets.buffers[part * count + i];
      fits = result.data == of(part, i).data && size_of(result) == size_of(of(0, i)) &&
             size_of(of(part, i)) == size_of(of(0, i));
    }
  }
  if (!fits || (is_vector && size_of(*args.buffers[1]) < total))
    return xla::error(frame, xla::kInvalidArgument, kAdamMisfit);

  adam::Factors factors;
  const float* given = static_cast<const float*>(args.buffers[0]->data);
  std::memcpy(static_cast<void*>(&factors), given, adam::kNumFactors * sizeof(float));
  const float largest = given[adam::kNumFactors];
  const auto over_pieces = [&](auto&& call) {
    double squares = 0;
    std::size_t start = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto numbers = [&](std::int64_t part) { return static_cast<float*>(of(part, i).data); };
      const float* g = static_cast<const float*>(args.buffers[is_vector ? 1 : 1 + i]->data) + (is_vector ? start : 0);
      squares += call(adam::Piece{size_of(of(0, i)), g, numbers(0), numbers(1), numbers(2)});
      start += size_of(of(0, i));
    }
    return static_cast<float>(std::sqrt(squares));
  };
  float norm = 0;
  if (largest < INFINITY) {
    norm = over_pieces([](const adam::Piece& piece) { return adam::squares(piece, kSimd); });
    factors.scale = norm < largest ? 1 : largest / norm;
  }
  const float found = over_pieces([&](const adam::Piece& piece) { return adam::step(factors, piece, kSimd); });
  *static_cast<float*>(rets.buffers[3 * count]->data) = largest < INFINITY ? norm : found;
  return nullptr;
}

}  // namespace drivetrain::bind
