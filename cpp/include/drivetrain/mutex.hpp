// A mutex that lives in shared memory and survives the death of its holder.
//
// POSIX robust, process-shared. When a holder is killed the kernel hands the lock to the next
// locker together with the news (kOwnerDied); that locker repairs what the dead one may have left
// half done and calls mark_consistent(). If it dies too before that, the news is passed on again.
//
// Holders keep it for microseconds, and a sleep and its wake-up take longer than that: a locker
// tries for some microseconds before it sleeps (design/replay-concurrency.md has what that brings).
#pragma once

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <type_traits>

namespace drivetrain {

enum class LockResult {
  kAcquired,
  kOwnerDied,  // acquired, but the last holder died: repair, then mark_consistent()
  kFailed,     // not acquired: no mutex here, or made unusable by an unlock without a repair
  kTimedOut,   // not acquired: a live holder keeps it
};

class alignas(64) RobustMutex {
 public:
  bool initialize() noexcept {
    pthread_mutexattr_t attributes;
    if (pthread_mutexattr_init(&attributes) != 0) return false;
    const bool ok = pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0 &&
                    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0 &&
                    pthread_mutex_init(&mutex_, &attributes) == 0;
    pthread_mutexattr_destroy(&attributes);
    return ok;
  }

  [[nodiscard]] LockResult lock() noexcept {
    await();
    return result_of(pthread_mutex_lock(&mutex_));
  }

  /// As lock(), but gives up after some seconds, fewer than a day.
  [[nodiscard]] LockResult lock_within(double timeout_s) noexcept {
    await();
    timespec until;
    clock_gettime(kClock, &until);
    const long ns = until.tv_nsec + static_cast<long>(timeout_s * 1e9);
    until.tv_sec += ns / 1'000'000'000;
    until.tv_nsec = ns % 1'000'000'000;
    return result_of(lock_until(&mutex_, &until));
  }

  /// The thread that holds it, by its number in the kernel; 0: nobody, or the C library does not say.
  int holder() const noexcept { return lock_word() & kThread; }

  /// Whether the last holder died and nobody has repaired what it left half done. A glance without the
  /// lock, where the C library allows one.
  bool is_orphaned() const noexcept {
#if defined(__GLIBC__)
    constexpr int kUnusable = 0x7fffffff - 1;  // PTHREAD_MUTEX_NOTRECOVERABLE
    return (lock_word() & kOwnerDied) ||
           __atomic_load_n(&mutex_.__data.__owner, __ATOMIC_RELAXED) == kUnusable;
#else
    return false;
#endif
  }

  /// In a forked child, for memory that is a copy of its own: a thread that held the lock in the parent
  /// did not come along, so the next locker hears that it has died.
  void forget_holder() noexcept {
#if defined(__GLIBC__)
    if (is_taken()) __atomic_store_n(&mutex_.__data.__lock, kOwnerDied, __ATOMIC_RELAXED);
#endif
  }

  void mark_consistent() noexcept { pthread_mutex_consistent(&mutex_); }
  void unlock() noexcept { pthread_mutex_unlock(&mutex_); }

 private:
  static constexpr int kOwnerDied = 0x40000000;  // FUTEX_OWNER_DIED, set by the kernel
  static constexpr int kThread = 0x3fffffff;     // FUTEX_TID_MASK
  static constexpr unsigned kTries = 200, kPauses = 8;  // 10 to 30 us in all

#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 30)
  static constexpr clockid_t kClock = CLOCK_MONOTONIC;  // nobody sets it
  static int lock_until(pthread_mutex_t* mutex, const timespec* time) noexcept {
    return pthread_mutex_clocklock(mutex, kClock, time);
  }
#else
  static constexpr clockid_t kClock = CLOCK_REALTIME;  // the only one that there is a function for
  static int lock_until(pthread_mutex_t* mutex, const timespec* time) noexcept {
    return pthread_mutex_timedlock(mutex, time);
  }
#endif

  static LockResult result_of(int error) noexcept {
    switch (error) {
      case 0: return LockResult::kAcquired;
      case EOWNERDEAD: return LockResult::kOwnerDied;
      case ETIMEDOUT: return LockResult::kTimedOut;
      default: return LockResult::kFailed;
    }
  }
  void await() const noexcept {
    for (unsigned tries = 0; tries < most_tries() && is_taken(); ++tries)
      for (unsigned pause = 0; pause < kPauses; ++pause) relax();
  }
  static unsigned most_tries() noexcept {
    static const unsigned tries = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? kTries : 0;
    return tries;
  }
  // A look at glibc's lock word: the holder's thread, 0 if none. Not pthread_mutex_trylock(), which
  // keeps a lock that has become unusable and so turns its error into a wait for ever.
  bool is_taken() const noexcept { return holder() != 0; }
  int lock_word() const noexcept {
#if defined(__GLIBC__)
    return __atomic_load_n(&mutex_.__data.__lock, __ATOMIC_RELAXED);
#else
    return 0;
#endif
  }
  static void relax() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  pthread_mutex_t mutex_;
};

static_assert(sizeof(RobustMutex) == 64 && std::is_standard_layout_v<RobustMutex>,
              "a mutex is one cache line of a segment");

}  // namespace drivetrain
