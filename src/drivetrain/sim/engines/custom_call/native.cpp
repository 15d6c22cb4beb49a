// Runs any kernel of the engine `native` as an operation of a program of XLA; comes after table.hpp.
//
// Arrays: the first step's number, uint32; then those of a kernel. A state's input and output may be the same memory: a
// tile is loaded before any of it is stored, and no other tile touches it.
//
// Threads are XLA's, so that no second pool competes with it. The calling one takes part and waits only for what others
// have begun, so it goes on where none of them is free.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>

using Run = void (*)(int64_t begin, int64_t end, int64_t num_envs, int64_t num_steps, uint32_t first, void* const* p);

constexpr int64_t SPANS_PER_THREAD = 16;  // so that whoever comes late, or shares its core, takes fewer

struct Call {
  Run run;
  int64_t num_envs, num_steps, num_tiles, num_spans;
  uint32_t first;
  std::vector<void*> p;
  std::atomic<int64_t> next{0};  // span to be taken; relaxed: what a span reads was there before the call was shared
  std::mutex mutex;
  std::condition_variable all_done;
  int64_t num_done = 0;  // under the mutex, whose release makes a span's writes visible to the caller

  void span(int64_t k) const {
    run(num_tiles * k / num_spans, num_tiles * (k + 1) / num_spans, num_envs, num_steps, first, p.data());
  }
  void take_spans() {
    for (int64_t k; (k = next.fetch_add(1, std::memory_order_relaxed)) < num_spans;) {
      span(k);
      const std::lock_guard lock(mutex);
      if (++num_done == num_spans) all_done.notify_all();
    }
  }
  void wait() {
    std::unique_lock lock(mutex);
    all_done.wait(lock, [this] { return num_done == num_spans; });
  }
};

static ffi::Error call(ffi::ThreadPool pool, ffi::Buffer<ffi::U32> first, ffi::RemainingArgs inputs,
                       ffi::RemainingRets outputs, std::string_view kernel, int64_t num_envs, int64_t num_steps,
                       int64_t num_tiles, int64_t num_threads) {
  const auto run = reinterpret_cast<Run>(kernel_of(kernel));
  if (run == nullptr) return not_loaded(kernel);
  const int64_t num_spans = std::min(num_threads * SPANS_PER_THREAD, num_tiles);
  if (std::min(num_threads, num_tiles) <= 1) {
    run(0, num_tiles, num_envs, num_steps, *first.typed_data(), addresses(inputs, outputs).data());
    return ffi::Error::Success();
  }
  const auto shared = std::make_shared<Call>();  // a late helper finds nothing to take, and must still find that out
  shared->run = run, shared->first = *first.typed_data(), shared->p = addresses(inputs, outputs);
  shared->num_envs = num_envs, shared->num_steps = num_steps;
  shared->num_tiles = num_tiles, shared->num_spans = num_spans;
  for (int64_t k = 1; k < std::min(num_threads, num_spans); ++k) pool.Schedule([shared] { shared->take_spans(); });
  shared->take_spans();
  shared->wait();
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(drivetrain_native, call,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::Buffer<ffi::U32>>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attr<std::string_view>("kernel")
                                  .Attr<int64_t>("num_envs")
                                  .Attr<int64_t>("num_steps")
                                  .Attr<int64_t>("num_tiles")
                                  .Attr<int64_t>("num_threads"));
