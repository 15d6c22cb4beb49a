// Runs compiled kernels of simulators over their tiles, in several threads of which the caller is one.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstdint>

#include "bind/gil.hpp"
#include "drivetrain/thread_pool.hpp"

namespace drivetrain::bind {

/// Tiles first .. last - 1 of a call; p are the call's arrays. The symbol `drivetrain_run` of a kernel.
using TileRun = void(std::int64_t first, std::int64_t last, std::int64_t num_envs,
                     std::int64_t num_steps, std::uint32_t first_step, void* const* p);

class Tiles {
 public:
  explicit Tiles(unsigned num_threads) : num_threads_(num_threads) {}

  void run(std::uintptr_t kernel, std::int64_t num_tiles, std::int64_t num_envs,
           std::int64_t num_steps, std::uint32_t first_step, const nanobind::bytes& addresses) {
    auto* const call = reinterpret_cast<TileRun*>(kernel);
    auto* const p = static_cast<void* const*>(addresses.data());
    const std::int64_t num_parts =
        num_threads_ > 1 ? std::min<std::int64_t>(num_tiles, num_threads_ * kPartsPerThread) : 1;
    GilReleased released;
    pool_.run(num_threads_, static_cast<std::size_t>(num_parts), [=](std::size_t i) {
      const auto part = static_cast<std::int64_t>(i);
      call(num_tiles * part / num_parts, num_tiles * (part + 1) / num_parts, num_envs, num_steps,
           first_step, p);
    });
  }

 private:
  // Whoever comes late, or shares its core, takes fewer; the others wait for half a part at the end.
  static constexpr std::int64_t kPartsPerThread = 16;

  unsigned num_threads_;
  ThreadPool pool_;
};

}  // namespace drivetrain::bind
