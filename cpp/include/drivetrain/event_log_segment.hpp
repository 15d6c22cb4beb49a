// One thread's segment file: created with its disk space, mapped, cut to what was used.
#pragma once

#include <sys/prctl.h>

#include <cstdio>
#include <cstring>

#include "drivetrain/event_log_format.hpp"
#include "drivetrain/mapped_file.hpp"

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
  bool is_open() const noexcept { return file_.is_open(); }
  Event* first() const noexcept { return reinterpret_cast<Event*>(file_.memory() + sizeof(SegmentHeader)); }
  Event* last() const noexcept { return first() + (file_.nbytes() - sizeof(SegmentHeader)) / sizeof(Event); }
  SegmentHeader* header() const noexcept { return reinterpret_cast<SegmentHeader*>(file_.memory()); }

  /// Brings the pages behind `from` into memory, all at once and not fault by fault; returns up to where to write
  /// before the next call.
  Event* prepare(Event* from) const noexcept {
    Event* const until = last() - from > kWindowEvents ? from + kWindowEvents : last();
    MappedFile::populate(from, until);
    return until;
  }

  /// False where the disk, or the permission, does not suffice; nothing is left behind then.
  bool create(const char* folder, const SegmentOwner& owner, std::uint32_t sequence,
              std::uint64_t nbytes) noexcept {
    char path[4096];
    const int length =
        std::snprintf(path, sizeof path, "%s/%u-%llu.%u.%u.events", folder, owner.pid,
                      static_cast<unsigned long long>(owner.process_start), owner.thread, sequence);
    if (length < 0 || length >= static_cast<int>(sizeof path) || !file_.create(path, nbytes)) return false;
    write_header(owner, sequence);
    return true;
  }

  /// Gives back what lies behind `end`; returns how many bytes that is.
  std::uint64_t finish(const Event* end) noexcept {
    return file_.finish(static_cast<std::uint64_t>(reinterpret_cast<const char*>(end) - file_.memory()));
  }

  /// Lets go of the mapping and leaves the file: a forked child does so with the segments of its parent.
  void abandon() noexcept { file_.abandon(); }

 private:
  void write_header(const SegmentOwner& owner, std::uint32_t sequence) noexcept {
    SegmentHeader& header = *this->header();
    header.version = kEventLogVersion;
    header.header_nbytes = sizeof(SegmentHeader);
    header.process_start = owner.process_start;
    header.pid = owner.pid;
    header.tid = owner.tid;
    header.sequence = sequence;
    header.thread = owner.thread;
    header.nbytes = file_.nbytes();
    ::prctl(PR_GET_NAME, header.thread_name, 0, 0, 0);
    // release: a reader that sees the magic sees the header.
    std::atomic_ref<std::uint64_t>(header.magic).store(kSegmentMagic, std::memory_order_release);
  }

  MappedFile file_;
};

}  // namespace drivetrain
