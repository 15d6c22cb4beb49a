// Which process is this, and is that one still alive?
//
// A pid alone may be reused; a pid with the start time of its process (clock ticks since boot,
// field 22 of /proc/PID/stat) names one process for good.
//
// Looking takes a file descriptor, and a process may have none left. What could not be looked at is taken to be
// alive: a dead process then keeps its rows for a while, whereas a living one that was taken for dead would go on
// writing into rows that another has by now.
#pragma once

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace drivetrain {

struct ProcessStat {
  bool is_gone;              // there is no such process
  char state;                // 'R', 'S', ... 'Z' for a zombie; '?' if unknown
  long num_threads;          // threads that can still run
  std::uint64_t start_time;  // clock ticks since boot; 0 if unknown

  /// A zombie cannot run code, unless threads outlive its leader.
  bool can_run() const noexcept {
    const bool leader_gone = state == 'Z' || state == 'X';
    return !is_gone && (!leader_gone || num_threads > 1);
  }

  /// Whether it may be the process that began then; an unknown time passes for any.
  bool may_have_begun_at(std::uint64_t time) const noexcept {
    return time == 0 || start_time == 0 || start_time == time;
  }
};

inline ProcessStat read_process_stat(std::int64_t pid) noexcept {
  ProcessStat stat{false, '?', 0, 0};
  if (pid <= 0 || pid > std::numeric_limits<pid_t>::max()) {
    stat.is_gone = true;
    return stat;
  }
  char path[40];
  std::snprintf(path, sizeof path, "/proc/%lld/stat", static_cast<long long>(pid));
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    stat.is_gone = errno == ENOENT || (::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH);
    return stat;
  }
  char text[1024];
  const ssize_t length = ::read(fd, text, sizeof text - 1);
  stat.is_gone = length < 0 && errno == ESRCH;  // it ended in between
  ::close(fd);
  if (length <= 0) return stat;
  text[length] = '\0';
  // The command name (field 2) is in parentheses and may hold anything: start after the last one.
  const char* field = std::strrchr(text, ')');
  if (field == nullptr || field[1] != ' ') return stat;
  field += 2;
  stat.state = *field;  // field 3
  for (int number = 3; field != nullptr && number < 22; ++number) {
    field = std::strchr(field, ' ');
    if (field == nullptr) return stat;
    ++field;
    if (number + 1 == 20) stat.num_threads = std::strtol(field, nullptr, 10);
  }
  stat.start_time = std::strtoull(field, nullptr, 10);
  return stat;
}

/// Whether this very process can still run code; also where that cannot be told.
inline bool process_is_alive(std::int64_t pid, std::uint64_t start_time) noexcept {
  const ProcessStat stat = read_process_stat(pid);
  return stat.can_run() && stat.may_have_begun_at(start_time);
}

/// A process in 32 bits, small enough for every row: the pid (Linux: below 2^22) and ten bits of
/// its start time, 0 if that is unknown. A reused pid passes for the old process once in 1,023 times, and then a
/// row of the dead one stays unused until the impostor ends; nothing worse.
struct OwnerTag {
  static constexpr unsigned kPidBits = 22;
  static constexpr std::uint32_t kPidMask = (1u << kPidBits) - 1;

  static std::uint32_t make(std::int64_t pid, std::uint64_t start_time) noexcept {
    const auto start = static_cast<std::uint32_t>(start_time == 0 ? 0 : start_time % 1023 + 1);
    return (static_cast<std::uint32_t>(pid) & kPidMask) | (start << kPidBits);
  }

  static bool is_alive(std::uint32_t tag) noexcept {
    const ProcessStat stat = read_process_stat(tag & kPidMask);
    const bool start_is_known = stat.start_time != 0 && tag >> kPidBits != 0;
    return stat.can_run() && (!start_is_known || make(tag & kPidMask, stat.start_time) == tag);
  }

  /// Whether whoever left something in flight cannot go on with it. Tag 0 is nobody, so dead.
  /// `known_dead`, 0 at first, remembers one dead tag: a dead process leaves many at once.
  static bool is_dead(std::uint32_t tag, std::uint32_t& known_dead) noexcept {
    if (tag == known_dead) return true;
    if (tag == self() || is_alive(tag)) return false;
    known_dead = tag;
    return true;
  }

  /// The tag of the calling process; looked up once, and once more in a forked child.
  static std::uint32_t self() noexcept {
    static std::atomic<std::uint32_t> cached{0};  // relaxed: any thread computes the same value
    static const bool registered = [] {
      pthread_atfork(nullptr, nullptr, [] { cached.store(0, std::memory_order_relaxed); });
      return true;
    }();
    (void)registered;
    std::uint32_t tag = cached.load(std::memory_order_relaxed);
    if (tag == 0) {
      const pid_t pid = ::getpid();
      tag = make(pid, read_process_stat(pid).start_time);
      cached.store(tag, std::memory_order_relaxed);
    }
    return tag;
  }
};

}  // namespace drivetrain
