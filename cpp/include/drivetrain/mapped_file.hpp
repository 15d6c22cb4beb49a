// A new file that is written through a mapping: what was stored survives the death of its process.
//
// It holds no descriptor, and a process has one open at a time: a program of somebody else's may have as many threads as
// it may have files open, all of which may begin or end at once, and may close all descriptors that it does not know.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace drivetrain {

/// Which file a descriptor is of; of none where it is none.
class FileIdentity {
 public:
  FileIdentity() = default;
  explicit FileIdentity(int fd) noexcept {
    struct stat about;
    if (fd < 0 || ::fstat(fd, &about) != 0) return;
    device_ = about.st_dev;
    inode_ = about.st_ino;
    is_known_ = true;
  }
  bool is_of(int fd) const noexcept {
    const FileIdentity other(fd);
    return is_known_ && other.is_known_ && device_ == other.device_ && inode_ == other.inode_;
  }

 private:
  dev_t device_ = 0;
  ino_t inode_ = 0;
  bool is_known_ = false;
};

/// While it lives, no other thread of this process has one. A forked child takes over what its parent's threads had.
class OneAtATime {
 public:
  OneAtATime() noexcept {
    const pid_t own = ::getpid();
    pid_t holder = holder_.load(std::memory_order_relaxed);
    while (holder == own || !holder_.compare_exchange_weak(holder, own, std::memory_order_acquire)) {
      ::sched_yield();
      holder = holder_.load(std::memory_order_relaxed);
    }
  }
  ~OneAtATime() { holder_.store(0, std::memory_order_release); }
  OneAtATime(const OneAtATime&) = delete;
  OneAtATime& operator=(const OneAtATime&) = delete;

 private:
  static inline std::atomic<pid_t> holder_{0};
};

class MappedFile {
 public:
  bool is_open() const noexcept { return memory_ != nullptr; }
  char* memory() const noexcept { return memory_; }
  std::uint64_t nbytes() const noexcept { return nbytes_; }

  /// False where the disk, or the permission, does not suffice; nothing is left behind then. Filled with zeros.
  bool create(const char* path, std::uint64_t nbytes) noexcept {
    const OneAtATime alone;
    const int fd = ::open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) return false;
    // Reserved, not only sized: a full disk must refuse here, not by SIGBUS at a store.
    void* memory = MAP_FAILED;
    const FileIdentity identity(fd);
    int refused;
    do refused = ::posix_fallocate(fd, 0, static_cast<off_t>(nbytes));
    while (refused == EINTR);  // by a signal, whose handler has run
    if (refused == 0)
      memory = ::mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    if (memory == MAP_FAILED) {
      ::unlink(path);
      return false;
    }
    path_ = ::strdup(path);  // without it, the file is not cut
    identity_ = identity;
    nbytes_ = nbytes;
    memory_ = static_cast<char*>(memory);
    return true;
  }

  /// Brings the pages from one place to another into memory, all at once and not fault by fault.
  static void populate(const void* from, const void* until) noexcept {
#ifdef MADV_POPULATE_WRITE  // Linux 5.14; where the kernel is older, pages come by faults
    const auto page = reinterpret_cast<std::uintptr_t>(from) & ~std::uintptr_t{4095};
    ::madvise(reinterpret_cast<void*>(page), reinterpret_cast<std::uintptr_t>(until) - page, MADV_POPULATE_WRITE);
#else
    (void)from, (void)until;
#endif
  }

  /// Gives back what lies behind the first `used` bytes; returns how many bytes that is, 0 where the file cannot be opened
  /// now or lies there no longer.
  std::uint64_t finish(std::uint64_t used) noexcept {
    const std::uint64_t spare = used < nbytes_ && cut(used) ? nbytes_ - used : 0;
    abandon();
    return spare;
  }

  /// Lets go of the mapping and leaves the file: a forked child does so with those of its parent.
  void abandon() noexcept {
    ::munmap(memory_, nbytes_);
    std::free(path_);
    path_ = memory_ = nullptr;
  }

 private:
  /// By its path, if that is still this file: another recording may have made one there, which somebody has mapped. While
  /// this one is mapped, no other has its number.
  bool cut(std::uint64_t nbytes) const noexcept {
    const OneAtATime alone;
    const int fd = path_ != nullptr ? ::open(path_, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    if (fd < 0) return false;
    const bool is_cut = identity_.is_of(fd) && ::ftruncate(fd, static_cast<off_t>(nbytes)) == 0;
    ::close(fd);
    return is_cut;
  }

  char* memory_ = nullptr;
  std::uint64_t nbytes_ = 0;
  char* path_ = nullptr;
  FileIdentity identity_;
};

}  // namespace drivetrain
