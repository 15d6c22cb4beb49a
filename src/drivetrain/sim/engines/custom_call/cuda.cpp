// Launches any kernel of the engine `cuda` as an operation of a program of XLA, on XLA's stream; comes after table.hpp.
//
// Arrays: the first step's number, uint32, in the GPU's memory, where the kernel reads it; then those of a kernel. A
// state's input and output may be the same memory: the threads of a warp load their environments before any of them
// stores, and no other warp touches these. No header of CUDA is needed: the driver's function comes from Python.
#include <atomic>

using Launch = int (*)(void* kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                       unsigned block_z, unsigned shared_nbytes, void* stream, void** parameters, void** extra);
static std::atomic<Launch> launch{nullptr};  // release: Python, once; acquire: XLA's threads
extern "C" void drivetrain_launch_by(void* cuLaunchKernel) {
  launch.store(reinterpret_cast<Launch>(cuLaunchKernel), std::memory_order_release);
}

static ffi::Error call(void* stream, ffi::Buffer<ffi::U32> first, ffi::RemainingArgs inputs, ffi::RemainingRets outputs,
                       std::string_view kernel, int64_t num_envs, int64_t num_steps, int64_t num_blocks,
                       int64_t num_threads) {
  void* const found = kernel_of(kernel);
  if (found == nullptr) return not_loaded(kernel);
  std::vector<void*> arrays = addresses(inputs, outputs);
  void* counted = first.untyped_data();
  std::vector<void*> parameters{&num_envs, &num_steps, &counted};
  for (void*& array : arrays) parameters.push_back(&array);
  const int result = launch.load(std::memory_order_acquire)(found, (unsigned)num_blocks, 1, 1, (unsigned)num_threads, 1, 1,
                                                            0, stream, parameters.data(), nullptr);
  if (result == 0) return ffi::Error::Success();
  return ffi::Error(ffi::ErrorCode::kInternal, "the CUDA driver refuses the launch of drivetrain's kernel " +
                                                   std::string(kernel.substr(0, 12)) + ": error " + std::to_string(result));
}

#define DRIVETRAIN_ARRAYS_AND_ATTRIBUTES \
  .Arg<ffi::Buffer<ffi::U32>>()          \
      .RemainingArgs()                   \
      .RemainingRets()                   \
      .Attr<std::string_view>("kernel")  \
      .Attr<int64_t>("num_envs")         \
      .Attr<int64_t>("num_steps")        \
      .Attr<int64_t>("num_blocks")       \
      .Attr<int64_t>("num_threads")
XLA_FFI_DEFINE_HANDLER_SYMBOL(drivetrain_cuda, call,
                              ffi::Ffi::Bind().Ctx<ffi::PlatformStream<void*>>() DRIVETRAIN_ARRAYS_AND_ATTRIBUTES);
