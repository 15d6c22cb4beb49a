// One thread's segment file: created with its disk space, mapped, cut to what was used.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "drivetrain/event_log_format.hpp"

namespace drivetrain {

inline constexpr std::uint64_t kFirstSegmentNbytes = 16 << 10;  // most threads say little
inline constexpr std::uint64_t kLargestSegmentNbytes = 1 << 20;

inline constexpr std::ptrdiff_t kWindowEvents = (64 << 10) / sizeof(Event);

/// Who writes a segment.
struct SegmentOwner {
  std::uint32_t pid;
  std::uint32_t tid;
  std::uint32_t thread;
  std::uint64_t process_start;
};

class Segment {
 public:
  bool is_open() const noexcept { return header_ != nullptr; }
  Event* first() const noexcept {
    return reinterpret_cast<Event*>(reinterpret_cast<char*>(header_) + sizeof(SegmentHeader));
  }
  Event* last() const noexcept { return first() + (nbytes_ - sizeof(SegmentHeader)) / sizeof(Event); }
  SegmentHeader* header() const noexcept { return header_; }

  /// Brings the pages behind `from` into memory, all at once and not fault by fault; returns up to where to write
  /// before the next call.
  Event* prepare(Event* from) const noexcept {
    Event* const until = last() - from > kWindowEvents ? from + kWindowEvents : last();
#ifdef MADV_POPULATE_WRITE  // Linux 5.14; where the kernel is older, pages come by faults
    const auto page = reinterpret_cast<std::uintptr_t>(from) & ~std::uintptr_t{4095};
    ::madvise(reinterpret_cast<void*>(page), reinterpret_cast<std::uintptr_t>(until) - page, MADV_POPULATE_WRITE);
#endif
    return until;
  }

  /// False where the disk, or the permission, does not suffice; nothing is left behind then.
  bool create(const char* folder, const SegmentOwner& owner, std::uint32_t sequence,
              std::uint64_t nbytes) noexcept {
    char path[4096];
    const int length =
        std::snprintf(path, sizeof path, "%s/%u-%llu.%u.%u.events", folder, owner.pid,
                      static_cast<unsigned long long>(owner.process_start), owner.thread, sequence);
    if (length < 0 || length >= static_cast<int>(sizeof path)) return false;
    fd_ = ::open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd_ < 0) return false;
    // Reserved, not only sized: a full disk must refuse here, not by SIGBUS at a store.
    void* memory = MAP_FAILED;
    if (::posix_fallocate(fd_, 0, static_cast<off_t>(nbytes)) == 0)
      memory = ::mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    if (memory == MAP_FAILED) {
      ::close(fd_);
      ::unlink(path);
      return false;
    }
    nbytes_ = nbytes;
    header_ = static_cast<SegmentHeader*>(memory);
    write_header(owner, sequence);
    return true;
  }

  /// Gives back what lies behind `end`; returns how many bytes that is.
  std::uint64_t finish(const Event* end) noexcept {
    const std::uint64_t used =
        static_cast<std::uint64_t>(reinterpret_cast<const char*>(end) - reinterpret_cast<char*>(header_));
    const bool cut = used < nbytes_ && ::ftruncate(fd_, static_cast<off_t>(used)) == 0;
    const std::uint64_t spare = cut ? nbytes_ - used : 0;
    abandon();
    return spare;
  }

  /// Lets go of the mapping and leaves the file: a forked child does so with the segments of its parent.
  void abandon() noexcept {
    ::munmap(header_, nbytes_);
    ::close(fd_);
    header_ = nullptr;
  }

 private:
  void write_header(const SegmentOwner& owner, std::uint32_t sequence) noexcept {
    header_->version = kEventLogVersion;
    header_->header_nbytes = sizeof(SegmentHeader);
    header_->process_start = owner.process_start;
    header_->pid = owner.pid;
    header_->tid = owner.tid;
    header_->sequence = sequence;
    header_->thread = owner.thread;
    header_->nbytes = nbytes_;
    ::prctl(PR_GET_NAME, header_->thread_name, 0, 0, 0);
    // release: a reader that sees the magic sees the header.
    std::atomic_ref<std::uint64_t>(header_->magic).store(kSegmentMagic, std::memory_order_release);
  }

  SegmentHeader* header_ = nullptr;
  std::uint64_t nbytes_ = 0;
  int fd_ = -1;
};

}  // namespace drivetrain
