// The recorder: threads append events to segments of their own, without a lock and without waiting.
//
//   open(folder) -> threads: begin(site) ... end(site), step() -> close()
//
// One recording at a time in a process. Each thread keeps the stack of sites it is in, so that an end without a
// begin is never written, and so that a forked child, which opens files of its own, can begin what it is in.
#pragma once

#include <pthread.h>
#include <sys/syscall.h>

#include "drivetrain/event_log_totals.hpp"
#include "drivetrain/process.hpp"
#include "drivetrain/thread_clock.hpp"
#include "drivetrain/thread_start.hpp"

namespace drivetrain {

/// What is entered and left: a site with how it is recorded.
struct SiteUse {
  std::uint32_t site = 0;
  StepKind step = StepKind::kMarked;
  bool ends_step = false;  // when the outermost of these is left, a step is over
  bool collapses = false;  // entered again directly inside itself, it says nothing new
  bool waits = false;      // what the C library waits in directly inside it says nothing new (system_waits.hpp)
  bool is_traced = false;  // what runs in it is Python only while a compiler looks at it
  Instrument instrument = Instrument::kCall;
};

/// True if `nbytes` more may be written by a session.
inline bool take_room(SharedState& shared, std::uint64_t nbytes) noexcept {
  const std::uint64_t before = shared.taken_nbytes.fetch_add(nbytes, std::memory_order_relaxed);
  if (before + nbytes <= shared.limit_nbytes) return true;
  shared.taken_nbytes.fetch_sub(nbytes, std::memory_order_relaxed);
  return false;
}
inline void give_room_back(SharedState& shared, std::uint64_t nbytes) noexcept {
  shared.taken_nbytes.fetch_sub(nbytes, std::memory_order_relaxed);
}

/// The recording of this process. Written by open() and close(); read by all threads.
struct EventLog {
  std::atomic<std::uint32_t> epoch{0};  // 0: not recording. acquire, so that what open() wrote is seen
  // The last recording that is over, and since when; stored in this order, read in the other. acquire
  std::atomic<std::uint32_t> closed_epoch{0};
  std::atomic<std::uint64_t> closed_ns{0};
  std::atomic<std::uint32_t> num_threads{0};  // relaxed: hands out numbers
  std::uint32_t last_epoch = 0;
  std::uint32_t pid = 0;
  std::uint64_t process_start = 0;
  std::atomic<bool> keeps_totals{false};  // sums in place of events (event_log_totals.hpp). relaxed: set before open()
  std::uint32_t block_every = 0;  // BlockPlan::start
  Moment first_moment;            // ThreadClock::start
  Opening opening;                // at_work_since
  // Told what each thread is in, 1 + its innermost site or 0, where GPU work is recorded (gpu_log.hpp). acquire
  std::atomic<void (*)(std::uint32_t)> inside{nullptr};
  // Switches that off and on, for all threads, where it can be. acquire
  std::atomic<void (*)(bool is_on)> switch_gpu{nullptr};
  std::atomic<std::uint32_t> gpu_switcher{0};  // 1 + the number of the thread whose blocks do so. relaxed: who is first
  SharedState* shared = nullptr;  // stays mapped for good: a late thread may still look at it
  char folder[3072] = {};

  bool recording() const noexcept { return epoch.load(std::memory_order_acquire) != 0; }

  /// Starts recording into an existing folder; `limit_nbytes` holds for all processes of the session and is that of
  /// the first. Threads that take steps measure what recording costs them in blocks (event_log_blocks.hpp) unless
  /// `block_every_` is 0. `process_start_` is what the process goes by if not by when it began: a program that it became
  /// later (exec) must not write where it has written. Returns 0, or the errno of what failed. Not to be called while
  /// recording.
  int open(const char* path, std::uint64_t limit_nbytes, std::uint32_t block_every_ = 0,
           std::uint64_t process_start_ = 0) noexcept;

  /// Ends the recording. Segments of other threads stay as they are, and complete.
  void close() noexcept {
    const std::uint32_t last = epoch.load(std::memory_order_relaxed);
    if (last == 0) return;
    closed_epoch.store(last, std::memory_order_release);
    closed_ns.store(monotonic_ns(), std::memory_order_release);
    epoch.store(0, std::memory_order_release);
  }

  /// When a recording was closed that is over, or a thread's last event if that came later, or is all that is known
  /// because another recording was closed since.
  std::uint64_t when_closed(std::uint32_t of, std::uint64_t last_ns) const noexcept {
    const std::uint64_t ns = closed_ns.load(std::memory_order_acquire);
    const bool is_known = closed_epoch.load(std::memory_order_acquire) == of;
    return is_known && ns > last_ns ? ns : last_ns;
  }

  /// True if `nbytes` more may be written by this session.
  bool take(std::uint64_t nbytes) noexcept { return take_room(*shared, nbytes); }
  void give_back(std::uint64_t nbytes) noexcept { give_room_back(*shared, nbytes); }

  void identify() noexcept {
    pid = static_cast<std::uint32_t>(::getpid());
    process_start = read_process_stat(pid).start_time;
  }
};

inline EventLog event_log;

inline int EventLog::open(const char* path, std::uint64_t limit_nbytes, std::uint32_t block_every_,
                          std::uint64_t process_start_) noexcept {
  static const bool registered = [] {
    // A forked child goes on recording, into files of its own.
    pthread_atfork(nullptr, nullptr, [] {
      EventLog& log = event_log;
      log.pid = static_cast<std::uint32_t>(::getpid());  // what its thread has of a recording that is over is the parent's
      if (!log.recording()) return;
      log.identify();
      log.num_threads.store(0, std::memory_order_relaxed);
      log.gpu_switcher.store(0, std::memory_order_relaxed);
      log.epoch.store(++log.last_epoch, std::memory_order_release);
    });
    return true;
  }();
  (void)registered;
  char file[4096];
  if (std::snprintf(folder, sizeof folder, "%s", path) >= static_cast<int>(sizeof folder)) return ENAMETOOLONG;
  std::snprintf(file, sizeof file, "%s/shared", folder);
  int fd = ::open(file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  const bool is_first = fd >= 0;
  if (!is_first) fd = ::open(file, O_RDWR | O_CLOEXEC);
  if (fd < 0) return errno;
  if (is_first) {
    SharedState state{kSharedMagic, kEventLogVersion, 0, limit_nbytes, sizeof(SharedState), 0};
    if (::write(fd, static_cast<void*>(&state), sizeof state) != sizeof state) {
      const int error = errno ? errno : EIO;
      ::close(fd);
      ::unlink(file);
      return error;
    }
  }
  struct stat about;
  if (::fstat(fd, &about) != 0 || about.st_size < static_cast<off_t>(sizeof(SharedState))) {  // not to be read: SIGBUS
    ::close(fd);
    return EPROTO;
  }
  void* memory = ::mmap(nullptr, sizeof(SharedState), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const int error = errno;
  ::close(fd);
  if (memory == MAP_FAILED) return error;
  shared = static_cast<SharedState*>(memory);
  if (shared->magic != kSharedMagic || shared->version != kEventLogVersion) return EPROTO;
  identify();
  if (process_start_ != 0) process_start = process_start_;
  block_every = block_every_;
  opening = Opening::now();
  first_moment = drivetrain::first_moment();
  num_threads.store(0, std::memory_order_relaxed);
  gpu_switcher.store(0, std::memory_order_relaxed);
  epoch.store(++last_epoch, std::memory_order_release);
  return 0;
}

}  // namespace drivetrain
