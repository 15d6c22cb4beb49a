// Records of GPUs: segments of GpuRecord and a table of names per process, beside its threads' events.
//
//   PID-START.N.gpu      │ GpuSegmentHeader │ GpuRecord │ GpuRecord │ ... │ zeros
//   PID-START.gpu-names  name \0 name \0 ...                        record.name counts them from 1
//
// Records come from threads of CUPTI, in batches and in no order of time: one lock serves all. What was stored survives
// SIGKILL like events do (event_log_format.hpp), and takes its room from the same budget.
#pragma once

#include <mutex>

#include "drivetrain/event_log.hpp"
#include "gpu_record.hpp"

namespace drivetrain {

inline constexpr std::uint64_t kGpuMagic = 0x31757067'63737464ull;  // "dtscgpu1", little-endian
inline constexpr std::uint64_t kFirstGpuNbytes = 64 << 10;
inline constexpr std::uint64_t kLargestGpuNbytes = 4 << 20;

struct GpuSegmentHeader {
  std::uint64_t magic;
  std::uint32_t version;         // kEventLogVersion
  std::uint32_t header_nbytes;
  std::uint64_t process_start;
  std::uint32_t pid;
  std::uint32_t sequence;        // 0, 1, ...
  std::uint32_t record_version;  // kGpuRecordVersion
  std::uint32_t record_nbytes;
};
static_assert(sizeof(GpuSegmentHeader) == 40);

/// A descriptor in a program of somebody else's, which may close all that it does not know, as daemons do, and then give the
/// number to a file of its own: that must be neither written, cut nor closed.
class HeldFile {
 public:
  HeldFile() = default;
  explicit HeldFile(int fd) noexcept : fd_(fd), identity_(fd) {}

  /// The descriptor; -1 where it is none, or another file's by now.
  int fd() const noexcept { return identity_.is_of(fd_) ? fd_ : -1; }
  void close() noexcept {
    if (fd() >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
  FileIdentity identity_;
};

class GpuLog {
 public:
  /// Appends records, unless nothing is recorded; those without room are counted where dropped events are.
  void put(const GpuRecord* records, std::size_t num_records) noexcept {
    const std::lock_guard lock(mutex_);
    if (!event_log.recording()) return;
    for (std::size_t i = 0; i < num_records; ++i) {
      if (next_ == last_ && !next_segment()) {
        event_log.shared->num_dropped.fetch_add(num_records - i, std::memory_order_relaxed);
        return;
      }
      GpuRecord record = records[i];
      record.begin_ns = 0;
      *next_ = record;
      // release: a reader that sees the time sees the record.
      std::atomic_ref<std::uint64_t>(next_->begin_ns).store(records[i].begin_ns, std::memory_order_release);
      ++next_;
    }
  }

  /// The number of one more name; 0 where it finds no room.
  std::uint32_t name(const char* text) noexcept {
    const std::lock_guard lock(mutex_);
    const std::size_t nbytes = std::strlen(text) + 1;
    if (!event_log.recording() || !open_names() || !event_log.take(nbytes)) return 0;
    if (::write(names_.fd(), text, nbytes) == static_cast<ssize_t>(nbytes)) return ++num_names_;
    // Half a name would give all later ones other numbers.
    names_.close();
    no_more_names_ = true;
    return 0;
  }

  /// Says in the session what was not captured; the first sentence of a cause is kept.
  void note(const char* cause, const char* sentence) noexcept {
    char path[4096];
    std::snprintf(path, sizeof path, "%s/gpu-%s.not-captured", event_log.folder, cause);
    if (!event_log.recording()) return;
    const int fd = ::open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) return;
    const ssize_t length = static_cast<ssize_t>(std::strlen(sentence));
    if (::write(fd, sentence, static_cast<std::size_t>(length)) != length) ::unlink(path);
    ::close(fd);
  }

  void started(void (*stop)(), void (*inside)(std::uint32_t), void (*change)(bool)) noexcept {
    static const bool registered = [] {
      pthread_atfork([] { log().mutex_.lock(); }, [] { log().mutex_.unlock(); }, [] { log().after_fork(); });
      return true;
    }();
    (void)registered;
    const std::lock_guard lock(mutex_);
    stop_ = stop;
    event_log.inside.store(inside, std::memory_order_release);
    event_log.switch_gpu.store(change, std::memory_order_release);
  }

  /// Ends the GPU's part of the recording, before the rest of it.
  void stop() noexcept {
    void (*stop)() = nullptr;
    {
      const std::lock_guard lock(mutex_);
      std::swap(stop, stop_);
      event_log.inside.store(nullptr, std::memory_order_release);
      event_log.switch_gpu.store(nullptr, std::memory_order_release);
    }
    if (stop != nullptr) stop();  // puts what is left
    const std::lock_guard lock(mutex_);
    if (file_.is_open()) event_log.give_back(file_.finish(used()));
    forget();
  }

  /// Whether this process was forked from one whose GPU work was being recorded: CUDA does not work here then.
  bool is_lost() const noexcept { return lost_; }

  static GpuLog& log() noexcept {
    // Never destroyed: threads of CUPTI may outlive main().
    static GpuLog& only = *new GpuLog;
    return only;
  }

 private:
  std::uint64_t used() const noexcept {
    return static_cast<std::uint64_t>(reinterpret_cast<const char*>(next_) - file_.memory());
  }

  void after_fork() noexcept {
    if (stop_ != nullptr) lost_ = true;
    if (file_.is_open()) file_.abandon();
    stop_ = nullptr;
    event_log.inside.store(nullptr, std::memory_order_release);
    event_log.switch_gpu.store(nullptr, std::memory_order_release);
    forget();
    mutex_.unlock();
  }

  void forget() noexcept {
    names_.close();
    has_names_ = no_more_names_ = false;
    num_names_ = sequence_ = 0;
    next_ = last_ = nullptr;
  }

  bool open_names() noexcept {
    char path[4096];
    if (no_more_names_) return false;
    if (has_names_) return true;
    if (!path_of(path, "gpu-names")) return false;
    names_ = HeldFile(::open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644));
    return has_names_ = names_.fd() >= 0;
  }

  static bool path_of(char (&path)[4096], const char* suffix) noexcept {
    const int length = std::snprintf(path, sizeof path, "%s/%u-%llu.%s", event_log.folder, event_log.pid,
                                     static_cast<unsigned long long>(event_log.process_start), suffix);
    return length > 0 && length < static_cast<int>(sizeof path);
  }

  bool next_segment() noexcept {
    std::uint64_t nbytes = kFirstGpuNbytes << (2 * (sequence_ < 4 ? sequence_ : 4));
    if (nbytes > kLargestGpuNbytes) nbytes = kLargestGpuNbytes;
    char path[4096], suffix[32];
    std::snprintf(suffix, sizeof suffix, "%u.gpu", sequence_);
    MappedFile file;
    if (!path_of(path, suffix) || !event_log.take(nbytes)) return false;
    if (!file.create(path, nbytes)) {
      event_log.give_back(nbytes);
      return false;
    }
    if (file_.is_open()) event_log.give_back(file_.finish(used()));
    file_ = file;
    auto* header = reinterpret_cast<GpuSegmentHeader*>(file_.memory());
    *header = {0,         kEventLogVersion,  sizeof(GpuSegmentHeader), event_log.process_start, event_log.pid,
               sequence_, kGpuRecordVersion, sizeof(GpuRecord)};
    // release: a reader that sees the magic sees the header.
    std::atomic_ref<std::uint64_t>(header->magic).store(kGpuMagic, std::memory_order_release);
    next_ = reinterpret_cast<GpuRecord*>(header + 1);
    last_ = next_ + (nbytes - sizeof(GpuSegmentHeader)) / sizeof(GpuRecord);
    ++sequence_;
    return true;
  }

  std::mutex mutex_;  // guards all that follows, and is held across fork()
  MappedFile file_;
  GpuRecord* next_ = nullptr;
  GpuRecord* last_ = nullptr;
  std::uint32_t sequence_ = 0;
  HeldFile names_;
  bool has_names_ = false;      // the file was opened
  bool no_more_names_ = false;  // and can no longer be written
  std::uint32_t num_names_ = 0;
  void (*stop_)() = nullptr;
  bool lost_ = false;
};

/// What the layer is given.
inline const GpuSink gpu_sink{
    kGpuRecordVersion,
    sizeof(GpuRecord),
    [](const GpuRecord* records, std::size_t num_records) { GpuLog::log().put(records, num_records); },
    [](const char* text) { return GpuLog::log().name(text); },
    [](const char* cause, const char* sentence) { GpuLog::log().note(cause, sentence); },
    [](void (*stop)(), void (*inside)(std::uint32_t), void (*change)(bool)) {
      GpuLog::log().started(stop, inside, change);
    },
};

}  // namespace drivetrain
