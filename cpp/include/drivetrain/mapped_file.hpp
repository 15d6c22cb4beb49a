// A new file that is written through a mapping: what was stored survives the death of its process.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace drivetrain {

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
    fd_ = fd;
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
    const bool cut = used < nbytes_ && ::ftruncate(fd_, static_cast<off_t>(used)) == 0;
    const std::uint64_t spare = cut ? nbytes_ - used : 0;
    abandon();
    return spare;
  }

  /// Lets go of the mapping and leaves the file: a forked child does so with those of its parent.
  void abandon() noexcept {
    ::munmap(memory_, nbytes_);
    ::close(fd_);
    memory_ = nullptr;
  }

 private:
  char* memory_ = nullptr;
  std::uint64_t nbytes_ = 0;
  int fd_ = -1;
};

}  // namespace drivetrain
