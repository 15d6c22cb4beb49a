// A new file that is written through a mapping: what was stored survives the death of its process.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>

namespace drivetrain {

/// A descriptor in a program of somebody else's, which may close all that it does not know, as daemons do, and then give the
/// number to a file of its own: that must be neither written, cut nor closed.
class HeldFile {
 public:
  HeldFile() = default;
  explicit HeldFile(int fd) noexcept : fd_(fd) {
    struct stat about;
    if (fd < 0 || ::fstat(fd, &about) != 0) return;
    device_ = about.st_dev;
    inode_ = about.st_ino;
  }

  /// The descriptor; -1 where it is none, or another file's by now.
  int fd() const noexcept {
    struct stat about;
    const bool is_same =
        fd_ >= 0 && ::fstat(fd_, &about) == 0 && about.st_dev == device_ && about.st_ino == inode_;
    return is_same ? fd_ : -1;
  }
  void close() noexcept {
    if (fd() >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

class MappedFile {
 public:
  bool is_open() const noexcept { return memory_ != nullptr; }
  char* memory() const noexcept { return memory_; }
  std::uint64_t nbytes() const noexcept { return nbytes_; }

  /// False where the disk, or the permission, does not suffice; nothing is left behind then. Filled with zeros.
  bool create(const char* path, std::uint64_t nbytes) noexcept {
    const int fd = ::open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) return false;
    // Reserved, not only sized: a full disk must refuse here, not by SIGBUS at a store.
    void* memory = MAP_FAILED;
    if (::posix_fallocate(fd, 0, static_cast<off_t>(nbytes)) == 0)
      memory = ::mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
      ::close(fd);
      ::unlink(path);
      return false;
    }
    file_ = HeldFile(fd);
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

  /// Gives back what lies behind the first `used` bytes; returns how many bytes that is.
  std::uint64_t finish(std::uint64_t used) noexcept {
    const int fd = file_.fd();
    const bool cut = fd >= 0 && used < nbytes_ && ::ftruncate(fd, static_cast<off_t>(used)) == 0;
    const std::uint64_t spare = cut ? nbytes_ - used : 0;
    abandon();
    return spare;
  }

  /// Lets go of the mapping and leaves the file: a forked child does so with those of its parent.
  void abandon() noexcept {
    ::munmap(memory_, nbytes_);
    file_.close();
    memory_ = nullptr;
  }

 private:
  char* memory_ = nullptr;
  std::uint64_t nbytes_ = 0;
  HeldFile file_;
};

}  // namespace drivetrain
