// The time of CLOCK_MONOTONIC, read off the time-stamp counter where the kernel itself keeps time by it.
//
//   kernel's clock ──●───────────────●───────────────●──     asked after 0.2 ms, by each thread that records
//   counter          └─ ticks x rate ┘                       in between, and never earlier than the last answer
//
// The kernel reads the same counter, with a fence and a lock around it. It takes it for its clock only where it is
// invariant and the same on all cores, and goes on watching that; where it does not, this is the kernel's clock. The
// rate is measured while it is used. What is off in between is nanoseconds as a rule; at most it is 0.2 ms times the
// error of the rate, 0.1 us where NTP slews by the 500 ppm that it may, and 1,024 ticks of a thread that was held up
// while it read both.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#if defined(__x86_64__)
#include <cpuid.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <x86intrin.h>

#include <cstring>
#endif

namespace drivetrain {

/// CLOCK_MONOTONIC: the same for all processes, adjusted in speed by at most 500 ppm, never set back.
inline std::uint64_t monotonic_ns() noexcept {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000ull + static_cast<std::uint64_t>(now.tv_nsec);
}

#if defined(__x86_64__)
inline std::uint64_t read_counter() noexcept { return __rdtsc(); }

/// Whether the processor says that the counter is invariant, the kernel keeps time by it, and programs may read it.
inline bool counter_is_clock() noexcept {
  unsigned a, b, c, d;
  if (__get_cpuid(0x80000007u, &a, &b, &c, &d) == 0 || (d >> 8 & 1) == 0) return false;
  int mode = 0;
  if (::prctl(PR_GET_TSC, &mode) == 0 && mode != PR_TSC_ENABLE) return false;
  const int file = ::open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  char name[8] = {};
  const bool is_read = ::read(file, name, sizeof name - 1) > 0;
  ::close(file);
  return is_read && std::strcmp(name, "tsc\n") == 0;
}
#else
inline std::uint64_t read_counter() noexcept { return 0; }
inline bool counter_is_clock() noexcept { return false; }
#endif

/// Both clocks at one moment.
struct Moment {
  std::uint64_t counter = 0, ns = 0;
};

/// The present one; nothing where the thread was interrupted between the two.
inline std::optional<Moment> present_moment() noexcept {
  constexpr std::uint64_t kMostTicks = 1 << 11;
  const std::uint64_t before = read_counter(), ns = monotonic_ns(), took = read_counter() - before;
  if (took > kMostTicks) return std::nullopt;
  return Moment{before + took / 2, ns};
}

/// From when on rates are measured, 1 ms ago, so that the first event of a recording costs what the others do; nothing
/// where the counter is no clock, or no moment is found.
inline Moment first_moment() noexcept {
  if (!counter_is_clock()) return {};
  std::optional<Moment> first;
  for (int i = 0; i < 100 && !first; ++i) first = present_moment();
  while (first && monotonic_ns() < first->ns + 1'000'000) {
  }
  return first.value_or(Moment{});
}

/// Of one thread. Plain data, all 0 to begin with.
class ThreadClock {
 public:
  /// From here on by the counter, whose rate is first that since a moment; by the kernel's clock if there is none.
  void start(const Moment& since) noexcept {
    const std::uint64_t last_ns = last_ns_;
    *this = ThreadClock{};
    base_ = since;
    last_ns_ = last_ns;
  }

  /// Never less than before.
  std::uint64_t now() noexcept {
    if (base_.ns == 0) return later(monotonic_ns());
    const std::uint64_t counter = read_counter(), ticks = counter - from_.counter;
    if (ticks >= valid_ticks_) [[unlikely]]
      return later(ask());
    return later(from_.ns + (ticks * rate_ >> 32));
  }

 private:
  static constexpr std::uint64_t kValidNs = 200'000;
  static constexpr std::uint64_t kLeastBaseNs = 1'000'000, kMostBaseNs = 200'000'000;  // rates are measured over

  std::uint64_t later(std::uint64_t ns) noexcept { return last_ns_ = ns < last_ns_ ? last_ns_ : ns; }

  /// The kernel's clock, and from when on it goes with the counter.
  std::uint64_t ask() noexcept {
    const std::optional<Moment> present = present_moment();
    valid_ticks_ = 0;
    if (!present) return monotonic_ns();
    from_ = *present;
    if (from_.counter <= base_.counter) {  // it began anew, after a suspension
      base_ = from_;
      rate_ = 0;
    } else if (from_.ns - base_.ns >= kLeastBaseNs) {
      measure();
    }
    // No more than in 0.2 ms at 10 GHz: a rate is wrong by any factor where the counter went on in a suspension, and this
    // clock did not.
    if (rate_ != 0) valid_ticks_ = std::min((kValidNs << 32) / rate_, kValidNs * 10);
    return from_.ns;
  }

  /// Nanoseconds per tick, in 2^-32.
  void measure() noexcept {
    const std::uint64_t ns = from_.ns - base_.ns, ticks = from_.counter - base_.counter;
    rate_ = static_cast<std::uint64_t>(static_cast<double>(ns) / static_cast<double>(ticks) * 4294967296.0);
    if (ns >= kMostBaseNs) base_ = from_;
  }

  Moment from_;
  std::uint64_t valid_ticks_ = 0;  // after from_; 0: the kernel has to be asked
  std::uint64_t rate_ = 0;
  std::uint64_t last_ns_ = 0;
  Moment base_;
};

}  // namespace drivetrain
