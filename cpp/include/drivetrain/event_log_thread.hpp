// What one thread has of the recorder: its segment, and the stack of sites it is in.
#pragma once

#include "drivetrain/event_log.hpp"

namespace drivetrain {

/// Sites beyond this depth are not recorded, and their ends neither.
inline constexpr std::uint32_t kMostNested = 512;

class ThreadLog {
 public:
  /// Enters a site; the time is taken last.
  void begin(const SiteUse& use) noexcept {
    if (!ready()) return;
    if (depth_ == kMostNested) {
      ++num_too_deep_;
      return;
    }
    const bool recorded = !(use.collapses && depth_ > 0 && stack_[depth_ - 1].use.site == use.site);
    stack_[depth_++] = {use, recorded};
    num_enclosing_ += use.ends_step;
    if (recorded) put(EventKind::kBegin, use.site, 0, monotonic_ns());
  }

  /// Leaves the innermost site of this number; the time is taken first. Nothing happens if it was not entered.
  void end(std::uint32_t site) noexcept {
    if (epoch_ == 0) return;  // nothing was entered
    const std::uint64_t now = monotonic_ns();
    if (!ready()) return;
    if (num_too_deep_ > (lane_ == 0 ? 0 : base_too_deep_)) [[unlikely]] {
      --num_too_deep_;
      return;
    }
    if (depth_ == floor() || stack_[depth_ - 1].use.site != site) [[unlikely]]
      if (!move_to_top(site)) {
        if (lane_ != 0) put(EventKind::kEnd, site, 0, now);  // entered before the lane was last left
        return;
      }
    const Entered& entered = stack_[--depth_];
    if (entered.recorded) [[likely]]
      put(EventKind::kEnd, site, 0, now);
    if (entered.use.ends_step && --num_enclosing_ == 0) step(entered.use.step);
  }

  void step(StepKind kind) noexcept {
    if (ready()) put(EventKind::kStep, 0, static_cast<std::uint16_t>(kind), monotonic_ns());
  }

  /// Goes on with another stack, 0 being the thread's own, and returns the number of the one before. What a lane is
  /// in when it is left is forgotten here, and its ends are written as they come: so any number of lanes may be open.
  std::uint32_t lane(std::uint32_t number) noexcept {
    if (!ready()) return 0;
    if (lane_ != 0) {
      while (depth_ > base_) num_enclosing_ -= stack_[--depth_].use.ends_step;
      num_too_deep_ = base_too_deep_;
    } else {
      base_ = depth_;
      base_too_deep_ = num_too_deep_;
    }
    const std::uint32_t before = lane_;
    lane_ = number;
    put(EventKind::kLane, number, 0, monotonic_ns());
    return before;
  }

  /// Ends this thread's part of the recording; the thread may go on, and then opens another segment.
  void finish() noexcept {
    if (totals_.is_open()) pid_ == event_log.pid ? totals_.finish(monotonic_ns()) : totals_.abandon();
    if (segment_.is_open() && pid_ == event_log.pid) {
      put(EventKind::kThreadEnd, 0, 0, monotonic_ns());
      event_log.give_back(segment_.finish(next_));
    } else if (segment_.is_open()) {
      segment_.abandon();
    }
    epoch_ = 0;
    next_ = end_ = nullptr;
    depth_ = num_too_deep_ = num_enclosing_ = lane_ = base_ = base_too_deep_ = 0;
  }

 private:
  struct Entered {
    SiteUse use;
    bool recorded = false;
  };

  /// Whether to record; opens the first segment of a recording, or of a forked child.
  bool ready() noexcept {
    const std::uint32_t epoch = event_log.epoch.load(std::memory_order_acquire);
    if (epoch == epoch_) [[likely]]
      return epoch != 0;
    return enter_epoch(epoch);
  }
  bool enter_epoch(std::uint32_t epoch) noexcept;
  bool more_room() noexcept;
  void open_totals() noexcept;
  bool next_segment() noexcept;
  static void finish_at_exit() noexcept;

  /// Where the stack of this lane begins.
  std::uint32_t floor() const noexcept { return lane_ == 0 ? 0 : base_; }

  /// For stacks that are left out of order, as by generators; false if the site was not entered.
  bool move_to_top(std::uint32_t site) noexcept {
    std::uint32_t at = depth_;
    while (at > floor() && stack_[at - 1].use.site != site) --at;
    if (at == floor()) return false;
    const Entered entered = stack_[at - 1];
    for (; at < depth_; ++at) stack_[at - 1] = stack_[at];
    stack_[depth_ - 1] = entered;
    return true;
  }

  void put(EventKind kind, std::uint32_t site, std::uint16_t value, std::uint64_t now) noexcept {
    if (keeps_totals_) return totals_.is_open() ? totals_.put(kind, site, value, now) : drop(now);
    if (next_ == end_ && !more_room()) [[unlikely]]
      return drop(now);
    next_->site = site;
    next_->kind = kind;
    next_->value = value;
    // release: whoever sees the time sees the event, also after this process was killed here.
    std::atomic_ref<std::uint64_t>(next_->time_ns).store(now, std::memory_order_release);
    ++next_;
  }
  void drop(std::uint64_t now) noexcept {
    event_log.shared->num_dropped.fetch_add(1, std::memory_order_relaxed);
    if (!segment_.is_open()) return;
    if (segment_.header()->num_dropped++ == 0) segment_.header()->dropped_from_ns = now;
  }

  Event* next_ = nullptr;
  Event* end_ = nullptr;
  std::uint32_t epoch_ = 0;
  std::uint32_t depth_ = 0;
  std::uint32_t num_too_deep_ = 0;
  std::uint32_t num_enclosing_ = 0;  // sites on the stack that end a step
  std::uint32_t lane_ = 0;
  std::uint32_t base_ = 0;           // depth of lane 0's stack while another lane is worked on ...
  std::uint32_t base_too_deep_ = 0;  // ... and what was too deep for it
  std::uint32_t sequence_ = 0;
  std::uint32_t pid_ = 0;
  std::uint32_t number_ = 0;
  bool full_ = false;  // nothing more fits; stays so, for a trace with a gap could not be told from one without
  Segment segment_;
  bool keeps_totals_ = false;
  Totals totals_;
  Entered stack_[kMostNested];
};

/// Trivial to destroy, so that reaching it costs no check; finish_at_exit() closes it.
inline constinit thread_local ThreadLog thread_log;

inline void ThreadLog::finish_at_exit() noexcept {
  struct Closer {
    bool armed = false;
    ~Closer() { thread_log.finish(); }
  };
  static thread_local Closer closer;
  closer.armed = true;
}

inline bool ThreadLog::enter_epoch(std::uint32_t epoch) noexcept {
  if (epoch == 0) {  // the recording is over
    finish();
    return false;
  }
  const bool forked = (segment_.is_open() || totals_.is_open()) && pid_ != event_log.pid;
  if (forked) {
    if (segment_.is_open()) segment_.abandon();
    if (totals_.is_open()) totals_.abandon();
  } else {
    finish();
  }
  finish_at_exit();
  epoch_ = epoch;
  pid_ = event_log.pid;
  number_ = event_log.num_threads.fetch_add(1, std::memory_order_relaxed);
  keeps_totals_ = event_log.keeps_totals.load(std::memory_order_relaxed);
  if (keeps_totals_) open_totals();
  sequence_ = 0;
  full_ = false;
  next_ = end_ = nullptr;
  const std::uint64_t now = monotonic_ns();
  for (std::uint32_t i = 0; i < depth_; ++i)
    if (stack_[i].recorded) put(EventKind::kBegin, stack_[i].use.site, 0, now);
  lane_ = 0;  // a forked child goes on in what it was in
  return true;
}

/// Where that fails, everything is dropped, and counted as such.
inline void ThreadLog::open_totals() noexcept {
  const SegmentOwner owner{pid_, static_cast<std::uint32_t>(::syscall(SYS_gettid)), number_, event_log.process_start};
  if (event_log.take(kTotalsNbytes)) totals_.create(event_log.folder, owner, monotonic_ns());
}

inline bool ThreadLog::more_room() noexcept {
  if (!segment_.is_open() || next_ == segment_.last()) return next_segment();
  end_ = segment_.prepare(next_);
  return true;
}

inline bool ThreadLog::next_segment() noexcept {
  if (full_) return false;
  std::uint64_t nbytes = kFirstSegmentNbytes << (2 * sequence_);
  if (sequence_ > 3 || nbytes > kLargestSegmentNbytes) nbytes = kLargestSegmentNbytes;
  const SegmentOwner owner{pid_, static_cast<std::uint32_t>(::syscall(SYS_gettid)), number_, event_log.process_start};
  Segment segment;
  if (!event_log.take(nbytes) || !segment.create(event_log.folder, owner, sequence_, nbytes)) {
    full_ = true;
    return false;
  }
  if (segment_.is_open()) segment_.finish(next_);
  segment_ = segment;
  ++sequence_;
  next_ = segment_.first();
  end_ = segment_.prepare(next_);
  return true;
}

}  // namespace drivetrain
