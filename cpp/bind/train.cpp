// drivetrain.train._native: what XLA calls inside a learner's updates, and what an actor's network gives.
#include <nanobind/nanobind.h>

#include "bind/forward.hpp"
#include "drivetrain/rectified.hpp"
#include "drivetrain/simd.hpp"
#include "drivetrain/xla_call.hpp"

namespace nb = nanobind;
namespace xla = drivetrain::xla;
namespace rectified = drivetrain::rectified;

namespace {

/// Whether a buffer is float32 [rows, columns], or [batch, rows, columns].
bool is_matrix(const xla::Buffer& buffer, std::size_t batch, std::size_t rows, std::size_t columns) {
  if (buffer.dtype != xla::kFloat32 || (buffer.rank != 2 && buffer.rank != 3)) return false;
  const std::int64_t* dims = buffer.dims + buffer.rank - 2;
  const bool leading = buffer.rank == 3 ? static_cast<std::size_t>(buffer.dims[0]) == batch : batch == 1;
  return leading && static_cast<std::size_t>(dims[0]) == rows && static_cast<std::size_t>(dims[1]) == columns;
}

float* part(const xla::Buffer& buffer, std::size_t index, std::size_t size) {
  return static_cast<float*>(buffer.data) + index * size;
}

xla::Error* misfit(const xla::CallFrame* frame) {
  return xla::error(frame, xla::kInvalidArgument,
                    "a rectified product: expected float32 [.., rows, inputs] by [.., inputs, outputs]");
}

/// Runs `run(sizes, index, workspace)` for each product of a call with z [.., rows, num_in], y [.., rows, num_out].
template <class Run>
xla::Error* for_each(const xla::CallFrame* frame, const xla::Buffer& z, const xla::Buffer& y,
                     const xla::Buffer& w, Run&& run) {
  if (z.rank < 2 || y.rank < 2) return misfit(frame);
  const std::size_t batch = z.rank == 3 ? static_cast<std::size_t>(z.dims[0]) : 1;
  const rectified::Sizes sizes{static_cast<std::size_t>(z.dims[z.rank - 2]),
                               static_cast<std::size_t>(z.dims[z.rank - 1]),
                               static_cast<std::size_t>(y.dims[y.rank - 1])};
  if (!is_matrix(z, batch, sizes.rows, sizes.num_in) || !is_matrix(y, batch, sizes.rows, sizes.num_out) ||
      !is_matrix(w, batch, sizes.num_in, sizes.num_out))
    return misfit(frame);
  static thread_local rectified::Workspace work;
  if (!work.reserve(sizes))
    return xla::error(frame, xla::kResourceExhausted, "a rectified product: no memory to work in");
  for (std::size_t i = 0; i < batch; ++i) run(sizes, i, work);
  return nullptr;
}

/// Answers XLA, which asks what a handler is, or calls `call(args, ret)` where there are so many arguments.
template <std::int64_t kNumArgs, class Call>
xla::Error* answer(xla::CallFrame* frame, Call&& call) {
  if (xla::answers_metadata(frame)) return nullptr;
  if (frame->args.size != kNumArgs || frame->rets.size != 1) return misfit(frame);
  return call(frame->args.buffers, *frame->rets.buffers[0]);
}

const drivetrain::SimdLevel kSimd = drivetrain::best_simd_level();

/// (z, w) -> y
xla::Error* product(xla::CallFrame* frame) {
  return answer<2>(frame, [frame](xla::Buffer* const* args, const xla::Buffer& y) {
    const xla::Buffer &z = *args[0], &w = *args[1];
    return for_each(frame, z, y, w, [&](const auto& sizes, std::size_t i, auto& work) {
      const auto [rows, num_in, num_out] = sizes;
      rectified::product(sizes, part(z, i, rows * num_in), part(w, i, num_in * num_out),
                         part(y, i, rows * num_out), work, kSimd);
    });
  });
}

/// (z, dy) -> dw
xla::Error* weight_slopes(xla::CallFrame* frame) {
  return answer<2>(frame, [frame](xla::Buffer* const* args, const xla::Buffer& dw) {
    const xla::Buffer &z = *args[0], &dy = *args[1];
    return for_each(frame, z, dy, dw, [&](const auto& sizes, std::size_t i, auto& work) {
      const auto [rows, num_in, num_out] = sizes;
      rectified::weight_slopes(sizes, part(z, i, rows * num_in), part(dy, i, rows * num_out),
                               part(dw, i, num_in * num_out), work, kSimd);
    });
  });
}

/// (z, w, dy) -> dz
xla::Error* input_slopes(xla::CallFrame* frame) {
  return answer<3>(frame, [frame](xla::Buffer* const* args, const xla::Buffer& dz) {
    const xla::Buffer &z = *args[0], &w = *args[1], &dy = *args[2];
    return for_each(frame, z, dy, w, [&](const auto& sizes, std::size_t i, auto& work) {
      const auto [rows, num_in, num_out] = sizes;
      rectified::input_slopes(sizes, part(z, i, rows * num_in), part(w, i, num_in * num_out),
                              part(dy, i, rows * num_out), part(dz, i, rows * num_in), work, kSimd);
    });
  });
}

nb::capsule handler(xla::Error* (*function)(xla::CallFrame*)) {
  return nb::capsule(reinterpret_cast<void*>(function), "xla._CUSTOM_CALL_TARGET");
}

}  // namespace

NB_MODULE(_native, m) {
  drivetrain::bind::import_numpy();
  m.def("forward", &drivetrain::bind::forward, nb::arg(), nb::arg(), nb::arg(), nb::arg());
  m.def("rectified_handlers", [] {
    return nb::make_tuple(handler(product), handler(weight_slopes), handler(input_slopes));
  });
}
