// Since when the calling thread has worked in this recording, before it had anything to record.
//
//   began ──── waiting, or not on a core ────┬── as much CPU time as it has had ──┬── its first event
//                                            └── from here on it counts           └── now
//
// When it waited is not known; that it worked is.
#pragma once

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "drivetrain/process.hpp"
#include "drivetrain/thread_clock.hpp"

namespace drivetrain {

/// CPU time of the calling thread; a system call.
inline std::uint64_t thread_cpu_ns() noexcept {
  timespec now;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000ull + static_cast<std::uint64_t>(now.tv_nsec);
}

/// When a recording was begun.
struct Opening {
  std::uint64_t ns = 0;     // of CLOCK_MONOTONIC
  std::uint64_t ticks = 0;  // since boot, as the start times of /proc are

  static Opening now() noexcept {
    timespec boot;
    ::clock_gettime(CLOCK_BOOTTIME, &boot);
    const auto per_s = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
    const std::uint64_t ticks = static_cast<std::uint64_t>(boot.tv_nsec) * per_s / 1'000'000'000ull;
    return {monotonic_ns(), static_cast<std::uint64_t>(boot.tv_sec) * per_s + ticks};
  }
};

/// From when on the calling thread counts: its CPU time ago. 0 where it began before the recording, since what of its
/// time came later is not known.
inline std::uint64_t at_work_since(const Opening& opening) noexcept {
  const std::uint64_t began = read_process_stat(::syscall(SYS_gettid)).start_time;  // a thread's, of its number
  if (began == 0 || began < opening.ticks) return 0;
  const std::uint64_t now = monotonic_ns(), spent = thread_cpu_ns();
  return std::max(opening.ns, now - std::min(now, spent));
}

}  // namespace drivetrain
