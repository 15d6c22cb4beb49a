// What one thread keeps of a recording of which only sums are wanted: time and entries per path of sites.
//
//   PID-START.THREAD.totals  │ TotalsHeader │ SitePath │ SitePath │ ...        path 0 is outside all sites
//
// A path is a stack of sites; each that occurred is there once, below its parent. So a file has the same size after a
// minute and after a week. It is written through a shared mapping: what was counted survives the thread's death.
#pragma once

#include "drivetrain/event_log_segment.hpp"

namespace drivetrain {

inline constexpr std::uint64_t kTotalsMagic = 0x31746f74'63737464ull;  // "dtsctot1", little-endian
inline constexpr std::uint64_t kTotalsNbytes = 8192;
inline constexpr std::uint32_t kNumStepKinds = 3;

/// Written by its thread alone, read by anybody: relaxed throughout, as nobody needs numbers of one instant.
struct SitePath {
  std::atomic<std::uint64_t> ns;           // in this path and in none below it
  std::atomic<std::uint64_t> num_entered;
  std::uint32_t site;
  std::uint32_t parent;
  std::uint32_t first_child;               // 0: none
  std::uint32_t next_sibling;              // 0: none
};
static_assert(sizeof(SitePath) == 32);

struct TotalsHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t header_nbytes;
  std::uint64_t process_start;             // as in SegmentHeader, like what follows
  std::uint32_t pid;
  std::uint32_t tid;
  std::uint32_t thread;
  std::atomic<std::uint32_t> num_paths;    // release: whoever sees the number sees the paths
  std::uint64_t begin_ns;
  std::atomic<std::uint64_t> until_ns;     // up to when time is counted
  std::atomic<std::uint64_t> num_unplaced; // entries that found no room for their path; their time is their parent's
  std::atomic<std::uint64_t> num_steps[kNumStepKinds];
  std::uint32_t has_ended;
  std::uint32_t unused;
};
static_assert(sizeof(TotalsHeader) == 96);

inline constexpr std::uint32_t kMostPaths = (kTotalsNbytes - sizeof(TotalsHeader)) / sizeof(SitePath);

class Totals {
 public:
  bool is_open() const noexcept { return header_ != nullptr; }

  /// False where the disk, or the permission, does not suffice; nothing is left behind then.
  bool create(const char* folder, const SegmentOwner& owner, std::uint64_t now) noexcept {
    char path[4096];
    const int length = std::snprintf(path, sizeof path, "%s/%u-%llu.%u.totals", folder, owner.pid,
                                     static_cast<unsigned long long>(owner.process_start), owner.thread);
    if (length < 0 || length >= static_cast<int>(sizeof path) || !file_.create(path, kTotalsNbytes)) return false;
    header_ = reinterpret_cast<TotalsHeader*>(file_.memory());
    paths_ = reinterpret_cast<SitePath*>(header_ + 1);
    current_ = num_unplaced_ = lane_ = base_ = base_unplaced_ = 0;
    since_ns_ = now;
    write_header(owner, now);
    return true;
  }

  void put(EventKind kind, std::uint32_t site, std::uint16_t value, std::uint64_t now) noexcept {
    spend(now);
    if (kind == EventKind::kBegin) {
      enter(site);
    } else if (kind == EventKind::kEnd) {
      leave(site);
    } else if (kind == EventKind::kLane) {
      change_lane(site);
    } else if (kind == EventKind::kStep && value < kNumStepKinds) {
      add(header_->num_steps[value], 1);
    }
  }

  /// Time is counted up to now, or up to the last event where that is later.
  void finish(std::uint64_t now) noexcept {
    spend(now > since_ns_ ? now : since_ns_);
    header_->has_ended = 1;
    abandon();
  }

  /// Lets go of the mapping and leaves the file: a forked child does so with that of its parent.
  void abandon() noexcept {
    file_.abandon();
    header_ = nullptr;
  }

 private:
  /// One writer: no read-modify-write is needed.
  static void add(std::atomic<std::uint64_t>& sum, std::uint64_t amount) noexcept {
    sum.store(sum.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }

  void spend(std::uint64_t now) noexcept {
    add(paths_[current_].ns, now - since_ns_);
    since_ns_ = now;
    header_->until_ns.store(now, std::memory_order_relaxed);
  }

  void enter(std::uint32_t site) noexcept {
    const std::uint32_t found = num_unplaced_ == 0 ? below(current_, site) : 0;
    if (found == 0) [[unlikely]] {
      ++num_unplaced_;
      return add(header_->num_unplaced, 1);
    }
    add(paths_[found].num_entered, 1);
    current_ = found;
  }

  void leave(std::uint32_t site) noexcept {
    if (num_unplaced_ > 0) [[unlikely]] {
      --num_unplaced_;
    } else if (current_ != floor() && paths_[current_].site == site) [[likely]] {
      current_ = paths_[current_].parent;
    } else {
      leave_out_of_order(site);
    }
  }

  /// Where this lane begins.
  std::uint32_t floor() const noexcept { return lane_ == 0 ? 0 : base_; }

  /// Generators leave in any order: the path without its innermost such site.
  void leave_out_of_order(std::uint32_t site) noexcept {
    std::uint32_t above[kMostPaths];
    std::uint32_t count = 0, at = current_;
    for (; at != floor() && paths_[at].site != site; at = paths_[at].parent) above[count++] = paths_[at].site;
    if (at == floor()) return;  // entered in a lane that was left since
    at = paths_[at].parent;
    while (count > 0) {
      const std::uint32_t next = below(at, above[--count]);
      if (next == 0) break;
      at = next;
    }
    current_ = at;
  }

  /// Other lanes lie on top of what lane 0 is in; what they are in when they are left is forgotten.
  void change_lane(std::uint32_t number) noexcept {
    if (lane_ == 0) base_ = current_, base_unplaced_ = num_unplaced_;
    current_ = base_;
    num_unplaced_ = number == 0 ? base_unplaced_ : 0;
    lane_ = number;
  }

  /// The path of a site below another, made if it is new; 0 where there is no room for it.
  std::uint32_t below(std::uint32_t parent, std::uint32_t site) noexcept {
    for (std::uint32_t at = paths_[parent].first_child; at != 0; at = paths_[at].next_sibling)
      if (paths_[at].site == site) return at;
    const std::uint32_t number = header_->num_paths.load(std::memory_order_relaxed);
    if (number == kMostPaths) return 0;
    SitePath& made = paths_[number];
    made.site = site;
    made.parent = parent;
    made.next_sibling = paths_[parent].first_child;
    paths_[parent].first_child = number;
    header_->num_paths.store(number + 1, std::memory_order_release);
    return number;
  }

  void write_header(const SegmentOwner& owner, std::uint64_t now) noexcept {
    header_->version = kEventLogVersion;
    header_->header_nbytes = sizeof(TotalsHeader);
    header_->process_start = owner.process_start;
    header_->pid = owner.pid;
    header_->tid = owner.tid;
    header_->thread = owner.thread;
    header_->begin_ns = now;
    header_->until_ns.store(now, std::memory_order_relaxed);
    header_->num_paths.store(1, std::memory_order_relaxed);
    // release: a reader that sees the magic sees the header.
    std::atomic_ref<std::uint64_t>(header_->magic).store(kTotalsMagic, std::memory_order_release);
  }

  MappedFile file_;
  TotalsHeader* header_ = nullptr;
  SitePath* paths_ = nullptr;
  std::uint64_t since_ns_ = 0;
  std::uint32_t current_ = 0;
  std::uint32_t num_unplaced_ = 0;  // entered without a path of their own, and not left
  std::uint32_t lane_ = 0;
  std::uint32_t base_ = 0;           // where lane 0 is while another lane is worked on ...
  std::uint32_t base_unplaced_ = 0;  // ... and what of it has no path
};

}  // namespace drivetrain
