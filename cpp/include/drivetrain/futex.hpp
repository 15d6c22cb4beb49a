// Sleeping until a 32-bit word in shared memory changes (futex(2), process-shared).
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>

namespace drivetrain {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(std::atomic<std::uint32_t>) == 4);

/// Returns false after timeout_s without a change, true otherwise (also when woken for nothing).
inline bool futex_wait(std::atomic<std::uint32_t>* word, std::uint32_t expected,
                       double timeout_s) noexcept {
  // acquire: what was written before the wake is visible to whoever saw the word change.
  if (word->load(std::memory_order_acquire) != expected) return true;
  if (!(timeout_s > 0)) timeout_s = 0;  // also what is no number
  if (timeout_s > 1e9) timeout_s = 1e9;
  timespec timeout;
  timeout.tv_sec = static_cast<time_t>(timeout_s);
  timeout.tv_nsec = static_cast<long>((timeout_s - static_cast<double>(timeout.tv_sec)) * 1e9);
  const long result = ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(word), FUTEX_WAIT,
                                expected, &timeout, nullptr, 0);
  return !(result == -1 && errno == ETIMEDOUT);
}

/// Changes the word and wakes everybody who waits for that; returns its new value.
inline std::uint32_t futex_wake(std::atomic<std::uint32_t>* word) noexcept {
  const std::uint32_t value = word->fetch_add(1, std::memory_order_release) + 1;
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(word), FUTEX_WAKE, INT_MAX, nullptr,
            nullptr, 0);
  return value;
}

}  // namespace drivetrain
