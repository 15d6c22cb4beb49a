// A layer's products as custom calls of XLA: see rectified.hpp, rounded.hpp and narrow.hpp.
#pragma once

#include "bind/xla_calls.hpp"
#include "drivetrain/narrow.hpp"
#include "drivetrain/rectified.hpp"
#include "drivetrain/rounded.hpp"

namespace drivetrain::bind {

/// Runs `run(sizes, index, workspace)` for each product of x [.., rows, num_in] and w [.., num_in, num_out] to y.
template <class Workspace, class Run>
bool for_each_product(const Matrices& x, const Matrices& w, const Matrices& y, Run&& run) {
  if (!x.fit || !w.is(x.num, x.columns, w.columns) || !y.is(x.num, x.rows, w.columns)) return false;
  const rectified::Sizes sizes{x.rows, x.columns, w.columns};
  static thread_local Workspace work;
  if (!work.reserve(sizes)) return false;
  for (std::size_t i = 0; i < x.num; ++i) run(sizes, i, work);
  return true;
}

inline constexpr char kRectifiedMisfit[] =
    "a rectified product: expected float32 [.., rows, inputs] by [.., inputs, outputs], and memory to work in";

/// (z, w) -> y
inline xla::Error* rectified_product(xla::CallFrame* frame) {
  return answer<2, 1>(frame, kRectifiedMisfit, [](xla::Buffer* const* args, xla::Buffer* const* rets) {
    const Matrices z(*args[0]), w(*args[1]), y(*rets[0]);
    return for_each_product<rectified::Workspace>(z, w, y, [&](const auto& sizes, std::size_t i, auto& work) {
      rectified::product(sizes, z[i], w[i], y[i], work, kSimd);
    });
  });
}

/// (z, dy) -> dw
inline xla::Error* rectified_weight_slopes(xla::CallFrame* frame) {
  return answer<2, 1>(frame, kRectifiedMisfit, [](xla::Buffer* const* args, xla::Buffer* const* rets) {
    const Matrices z(*args[0]), dy(*args[1]), dw(*rets[0]);
    return for_each_product<rectified::Workspace>(z, dw, dy, [&](const auto& sizes, std::size_t i, auto& work) {
      rectified::weight_slopes(sizes, z[i], dy[i], dw[i], work, kSimd);
    });
  });
}

/// (z, w, dy) -> dz
inline xla::Error* rectified_input_slopes(xla::CallFrame* frame) {
  return answer<3, 1>(frame, kRectifiedMisfit, [](xla::Buffer* const* args, xla::Buffer* const* rets) {
    const Matrices z(*args[0]), w(*args[1]), dy(*args[2]), dz(*rets[0]);
    return dz.is(z.num, z.rows, z.columns) &&
           for_each_product<rectified::Workspace>(z, w, dy, [&](const auto& sizes, std::size_t i, auto& work) {
             rectified::input_slopes(sizes, z[i], w[i], dy[i], dz[i], work, kSimd);
           });
  });
}

inline constexpr char kRoundedMisfit[] =
    "a product of rounded factors: expected float32 [.., rows, inputs] by [.., inputs, outputs], and memory to work in";

/// Asked for by who calls, not by who imports: the system allows tiles to a process as a whole.
inline rounded::By rounded_by() noexcept { return rounded::has_tiles() ? rounded::By::kTiles : rounded::By::kLoops; }

inline bool is_rectified(const xla::CallFrame* frame) noexcept { return xla::integer(frame, "rectified") != 0; }

/// (x, w) -> y
inline xla::Error* rounded_product(xla::CallFrame* frame) {
  return answer<2, 1>(frame, kRoundedMisfit, [&](xla::Buffer* const* args, xla::Buffer* const* rets) {
    const Matrices x(*args[0]), w(*args[1]), y(*rets[0]);
    return for_each_product<rounded::Workspace>(x, w, y, [&](const auto& sizes, std::size_t i, auto& work) {
      rounded::product(sizes, is_rectified(frame), x[i], w[i], y[i], work, rounded_by());
    });
  });
}

/// (x, dy) -> dw
inline xla::Error* rounded_weight_slopes(xla::CallFrame* frame) {
  return answer<2, 1>(frame, kRoundedMisfit, [&](xla::Buffer* const* args, xla::Buffer* const* rets) {
    const Matrices x(*args[0]), dy(*args[1]), dw(*rets[0]);
    return for_each_product<rounded::Workspace>(x, dw, dy, [&](const auto& sizes, std::size_t i, auto& work) {
      rounded::weight_slopes(sizes, is_rectified(frame), x[i], dy[i], dw[i], work, rounded_by());
    });
  });
}

/// (x, w, dy) -> dx
inline xla::Error* rounded_input_slopes(xla::CallFrame* frame) {
  return answer<3, 1>(frame, kRoundedMisfit, [&](xla::Buffer* const* args, xla::Buffer* const* rets) {
    const Matrices x(*args[0]), w(*args[1]), dy(*args[2]), dx(*rets[0]);
    return dx.is(x.num, x.rows, x.columns) &&
           for_each_product<rounded::Workspace>(x, w, dy, [&](const auto& sizes, std::size_t i, auto& work) {
             rounded::input_slopes(sizes, is_rectified(frame), x[i], w[i], dy[i], dx[i], work, rounded_by());
           });
  });
}

inline constexpr char kNarrowMisfit[] =
    "a narrow product: expected float32 [.., rows, few], [.., few, wide] and [.., rows, wide]";

/// Runs `run(sizes, index)` for each product of x [.., rows, few], w [.., few, wide] and y [.., rows, wide].
template <class Run>
bool for_each_narrow(const Matrices& x, const Matrices& w, const Matrices& y, Run&& run) {
  if (!x.fit || !w.is(x.num, x.columns, w.columns) || !y.is(x.num, x.rows, w.columns)) return false;
  const narrow::Sizes sizes{x.rows, x.columns, w.columns};
  for (std::size_t i = 0; i < x.num; ++i) run(sizes, i);
  return true;
}

/// (x, w) -> y
inline xla::Error* narrow_spread(xla::CallFrame* frame) {
  return answer<2, 1>(frame, kNarrowMisfit, [](xla::Buffer* const* args, xla::Buffer* const* rets) {
    const Matrices x(*args[0]), w(*args[1]), y(*rets[0]);
    return for_each_narrow(
        x, w, y, [&](const auto& sizes, std::size_t i) { narrow::spread(sizes, x[i], w[i], y[i], kSimd); });
  });
}

/// (x, y) -> w
inline xla::Error* narrow_outer(xla::CallFrame* frame) {
  return answer<2, 1>(frame, kNarrowMisfit, [](xla::Buffer* const* args, xla::Buffer* const* rets) {
    const Matrices x(*args[0]), y(*args[1]), w(*rets[0]);
    return for_each_narrow(
        x, w, y, [&](const auto& sizes, std::size_t i) { narrow::outer(sizes, x[i], y[i], w[i], kSimd); });
  });
}

/// (y, w) -> x
inline xla::Error* narrow_gather(xla::CallFrame* frame) {
  return answer<2, 1>(frame, kNarrowMisfit, [](xla::Buffer* const* args, xla::Buffer* const* rets) {
    const Matrices y(*args[0]), w(*args[1]), x(*rets[0]);
    return for_each_narrow(
        x, w, y, [&](const auto& sizes, std::size_t i) { narrow::gather(sizes, y[i], w[i], x[i], kSimd); });
  });
}

}  // namespace drivetrain::bind
