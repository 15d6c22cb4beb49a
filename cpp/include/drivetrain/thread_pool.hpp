// Threads that help a caller with work that can be cut into parts: copies of many megabytes, for which
// one core does not get all of the memory's bandwidth.
//
//   run() ──▶ posted ──▶ helpers wake, join ──┐ each takes the next part until there is none
//     └──────── the caller takes parts too ───┴──▶ run() returns once those who joined have left
//
// The caller never waits for a helper to wake up: one that comes late finds the work done and sleeps on.
// A second caller at the same time, a child forked from this process, and a process that may start no
// threads do their work alone. Helpers start with the first work there is and end with the pool.
//
// Claims (cpp/tests/test_thread_pool.cpp, under the sanitizers): every part is done once and is over when
// run() returns, with callers in several threads; a forked child works alone; all threads are joined.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "drivetrain/futex.hpp"

namespace drivetrain {

class ThreadPool {
 public:
  static constexpr unsigned kMostThreads = 1024;  // in one run(), the caller included

  ThreadPool() = default;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool() {
    if (num_started_ == 0 || ::getpid() != pid_) return;  // the threads are the parent's
    ending_.store(true, std::memory_order_relaxed);       // seen with what futex_wake() releases
    futex_wake(&posted_);
    for (unsigned i = 0; i < num_started_; ++i) pthread_join(threads_[i], nullptr);
  }

  /// Calls part(0), part(1), ... part(num_parts - 1), each once, in at most num_threads threads of which
  /// the caller is one. What the caller has written before is seen by all of them, and the other way.
  template <class Part>
  void run(unsigned num_threads, std::size_t num_parts, const Part& part) noexcept {
    num_threads = static_cast<unsigned>(std::min<std::size_t>({num_threads, num_parts, kMostThreads}));
    if (num_threads < 2 || in_use_.test_and_set(std::memory_order_acquire)) {
      for (std::size_t i = 0; i < num_parts; ++i) part(i);
      return;
    }
    part_ = &part;
    call_ = [](const void* of, std::size_t i) { (*static_cast<const Part*>(of))(i); };
    num_parts_ = num_parts;
    next_part_.store(0, std::memory_order_relaxed);
    start(num_threads - 1);
    crew_.store((num_threads - 1) * kPlace, std::memory_order_release);  // release: the work above
    if (num_started_ > 0) futex_wake(&posted_);
    take_parts();
    crew_.fetch_and(kPlace - 1, std::memory_order_acq_rel);  // nobody joins any more
    for (;;) {
      // acquire: before crew_ is read, or a helper could leave in between, and wake nobody
      const std::uint32_t left = left_.load(std::memory_order_acquire);
      if (crew_.load(std::memory_order_acquire) == 0) break;  // acquire: what those who left have done
      futex_wait(&left_, left, kLongS);
    }
    in_use_.clear(std::memory_order_release);
  }

 private:
  static constexpr std::uint32_t kPlace = 1 << 16;  // crew_: places that are free, then who is at work
  static constexpr double kLongS = 1e9;

  // A helper's life. Its signals are the process's other threads' to handle.
  static void* help(void* pool) noexcept {
    static_cast<ThreadPool*>(pool)->help();
    return nullptr;
  }
  void help() noexcept {
    for (std::uint32_t seen = 0; !ending_.load(std::memory_order_relaxed);) {
      if (join()) {
        take_parts();
        // The last to leave wakes the caller; until it has left, the work and the pool are there.
        if (crew_.fetch_sub(1, std::memory_order_acq_rel) == 1) futex_wake(&left_);
      }
      futex_wait(&posted_, seen, kLongS);
      seen = posted_.load(std::memory_order_acquire);
    }
  }

  bool join() noexcept {
    std::uint32_t crew = crew_.load(std::memory_order_relaxed);
    while (crew >= kPlace)  // acquire: the work that was put there before the places
      if (crew_.compare_exchange_weak(crew, crew - kPlace + 1, std::memory_order_acquire,
                                      std::memory_order_relaxed))
        return true;
    return false;
  }

  void take_parts() noexcept {
    // relaxed: only that no two get the same part matters.
    for (std::size_t i; (i = next_part_.fetch_add(1, std::memory_order_relaxed)) < num_parts_;)
      call_(part_, i);
  }

  void start(unsigned num_helpers) noexcept {
    if (num_started_ > 0 && ::getpid() != pid_) return;  // forked: they did not follow
    if (num_started_ >= num_helpers) return;
    pid_ = ::getpid();
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (num_started_ < num_helpers &&
           pthread_create(&threads_[num_started_], nullptr, help, this) == 0)
      pthread_setname_np(threads_[num_started_++], "drivetrain-pool");  // in `top -H`
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  std::atomic_flag in_use_;  // by whoever is in run(); guards what is not atomic
  pid_t pid_ = 0;            // whose threads they are
  unsigned num_started_ = 0;
  pthread_t threads_[kMostThreads];

  const void* part_ = nullptr;  // the work; written while crew_ is 0
  void (*call_)(const void*, std::size_t) = nullptr;
  std::size_t num_parts_ = 0;
  alignas(64) std::atomic<std::size_t> next_part_{0};

  alignas(64) std::atomic<std::uint32_t> crew_{0};
  std::atomic<std::uint32_t> posted_{0};  // changes with each work and at the end: what helpers sleep on
  std::atomic<std::uint32_t> left_{0};    // changes when the last helper leaves
  std::atomic<bool> ending_{false};
};

}  // namespace drivetrain
