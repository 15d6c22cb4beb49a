// What one thread has of the recorder: its segment, and the stack of sites it is in.
#pragma once

#include "drivetrain/event_log.hpp"
#include "drivetrain/event_log_blocks.hpp"

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
    const bool collapsed = use.collapses && depth_ > 0 && stack_[depth_ - 1].use.site == use.site;
    const bool recorded = !collapsed && !is_muted(use);
    stack_[depth_++] = {use, recorded, collapsed};
    num_enclosing_ += use.ends_step;
    counts_.spans[static_cast<int>(use.instrument)] += !collapsed;
    tell_inside();
    if (recorded) put(EventKind::kBegin, use.site, static_cast<std::uint16_t>(use.instrument), clock_.now());
  }

  /// Enters a site of waiting; false, and nothing is entered, where the thread is in one or nothing records.
  bool begin_wait(const SiteUse& use) noexcept {
    if (!event_log.recording() || (depth_ > 0 && stack_[depth_ - 1].use.waits)) return false;
    begin(use);
    return true;
  }

  /// Leaves the innermost site of this number; the time is taken first. Nothing happens if it was not entered. What
  /// entered it is said where the thread has forgotten: in a lane that it left since.
  void end(std::uint32_t site, Instrument instrument = Instrument::kCall) noexcept {
    // Nothing was entered; or a forked child begins now what it leaves then, muted in its parent or not.
    if (epoch_ == 0 || !ready()) return;
    // What is not recorded needs no time.
    const bool is_timed = depth_ == floor() || stack_[depth_ - 1].recorded || stack_[depth_ - 1].use.site != site;
    const std::uint64_t now = is_timed ? clock_.now() : 0;
    if (num_too_deep_ > (lane_ == 0 ? 0 : base_too_deep_)) [[unlikely]] {
      --num_too_deep_;
      return;
    }
    if (depth_ == floor() || stack_[depth_ - 1].use.site != site) [[unlikely]]
      if (!move_to_top(site)) {
        // Entered before the lane was last left.
        if (lane_ != 0) put(EventKind::kEnd, site, static_cast<std::uint16_t>(instrument), now);
        return;
      }
    const Entered& entered = stack_[--depth_];
    if (entered.recorded) [[likely]]
      put(EventKind::kEnd, site, static_cast<std::uint16_t>(entered.use.instrument), now);
    tell_inside();
    if (entered.use.ends_step && --num_enclosing_ == 0) step(entered.use.step);
  }

  /// The sites that this thread is in, outermost first; those of other lanes are not.
  template <class Tell>
  void each_inside(const Tell& tell) const {
    for (std::uint32_t i = 0; epoch_ != 0 && i < depth_; ++i) tell(stack_[i].use.site);
  }

  bool is_tracing() const noexcept {
    for (std::uint32_t i = depth_; epoch_ != 0 && i > 0; --i)
      if (stack_[i - 1].use.is_traced) return true;
    return false;
  }

  /// A step is over, and with the last step of a block the block.
  void step(StepKind kind) noexcept {
    if (!ready()) return;
    if ((mask_ & kMuteAll) != kMuteAll) put(EventKind::kStep, 0, static_cast<std::uint16_t>(kind), clock_.now());
    ++counts_.steps[static_cast<int>(kind)];
    if (blocks_.boundary()) [[unlikely]]
      next_block();
  }

  /// From here on these instruments of this thread record nothing; returns which it were before.
  std::uint32_t mute(std::uint32_t mask) noexcept {
    if (!ready()) return 0;
    const std::uint32_t before = mask_;
    mask_ = mask;
    if (((before ^ mask) & kMuteGpu) != 0) switch_gpu((mask & kMuteGpu) == 0);
    if ((before & ~mask & kMuteAll) != 0) resume();
    return before;
  }

  /// Goes on with another stack, 0 being the thread's own, and returns the number of the one before. What a lane is
  /// in when it is left is forgotten here, and its ends are written as they come: so any number of lanes may be open.
  std::uint32_t lane(std::uint32_t number) noexcept {
    if (!ready()) return 0;
    if (number != 0) end_blocks();  // what a lane is in while it waits could not be resumed
    if (lane_ != 0) {
      while (depth_ > base_) num_enclosing_ -= stack_[--depth_].use.ends_step;
      num_too_deep_ = base_too_deep_;
    } else {
      base_ = depth_;
      base_too_deep_ = num_too_deep_;
    }
    const std::uint32_t before = lane_;
    lane_ = number;
    tell_inside();
    put(EventKind::kLane, number, 0, clock_.now());
    return before;
  }

  /// The one that it works on.
  std::uint32_t current_lane() noexcept { return ready() ? lane_ : 0; }

  /// Ends this thread's part of the recording; the thread may go on, and then opens another segment.
  void finish() noexcept {
    const std::uint64_t now = clock_.now();
    // A thread may notice long after, and when another recording runs already, that its own is over. Asked behind the
    // time, which then is before the end of one that is not.
    const bool is_over = event_log.epoch.load(std::memory_order_acquire) != epoch_;
    const std::uint64_t last_ns = segment_.is_open() && next_ > segment_.first() ? next_[-1].time_ns : 0;
    const std::uint64_t until = is_over ? event_log.when_closed(epoch_, last_ns) : now;
    if (totals_.is_open()) pid_ == event_log.pid ? totals_.finish(until) : totals_.abandon();
    if (segment_.is_open() && pid_ == event_log.pid) {
      if (!is_over || segment_.last() - next_ > 3) {  // no segment is begun for it: that would be another recording's
        put_cut_off(until);
        put(EventKind::kThreadEnd, 0, 0, until);
      }
      give_room_back(*shared_, segment_.finish(next_));
    } else if (segment_.is_open()) {
      segment_.abandon();
    }
    if ((mask_ & kMuteGpu) != 0) switch_gpu(true);
    if (!is_over) leave_gpu();
    epoch_ = 0;
    blocks_.stop();
    mask_ = 0;
    next_ = end_ = nullptr;
    depth_ = num_too_deep_ = num_enclosing_ = lane_ = base_ = base_too_deep_ = 0;
  }

  /// Whether this block leaves out what is put down at such a site.
  bool is_muted(const SiteUse& use) const noexcept { return (mask_ >> static_cast<int>(use.instrument) & 1) != 0; }

 private:
  struct Entered {
    SiteUse use;
    bool recorded = false;
    bool collapsed = false;  // is not recorded whatever is muted
  };

  /// Whether to record; opens the first segment of a recording, or of a forked child.
  bool ready() noexcept {
    const std::uint32_t epoch = event_log.epoch.load(std::memory_order_acquire);
    if (epoch == epoch_) [[likely]]
      return epoch != 0;
    return enter_epoch(epoch);
  }
  /// Muted or not: what a thread calls belongs to where it is.
  void tell_inside() const noexcept {
    if (auto* const tell = event_log.inside.load(std::memory_order_acquire)) [[unlikely]]
      tell(depth_ > floor() ? stack_[depth_ - 1].use.site + 1 : 0);
  }
  static void switch_gpu(bool is_on) noexcept {
    if (auto* const change = event_log.switch_gpu.load(std::memory_order_acquire)) change(is_on);
  }
  bool may_switch_gpu() noexcept;
  void leave_gpu() noexcept;
  bool enter_epoch(std::uint32_t epoch) noexcept;
  void next_block() noexcept;
  void end_blocks() noexcept;
  void resume() noexcept;
  void put_counts() noexcept;
  void put_cut_off(std::uint64_t now) noexcept;
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
    shared_->num_dropped.fetch_add(1, std::memory_order_relaxed);
    if (!segment_.is_open()) return;
    if (segment_.header()->num_dropped++ == 0) segment_.header()->dropped_from_ns = now;
  }

  Event* next_ = nullptr;
  Event* end_ = nullptr;
  ThreadClock clock_;
  std::uint32_t epoch_ = 0;
  std::uint32_t depth_ = 0;
  std::uint32_t num_too_deep_ = 0;
  std::uint32_t num_enclosing_ = 0;  // sites on the stack that end a step
  std::uint32_t lane_ = 0;
  std::uint32_t base_ = 0;           // depth of lane 0's stack while another lane is worked on ...
  std::uint32_t base_too_deep_ = 0;  // ... and what was too deep for it
  std::uint32_t mask_ = 0;           // instruments that are muted
  BlockPlan blocks_;
  BlockCounts counts_;
  std::uint32_t sequence_ = 0;
  std::uint32_t pid_ = 0;
  SharedState* shared_ = nullptr;    // of its own recording, whichever runs by now
  std::uint32_t number_ = 0;
  std::uint64_t since_ns_ = 0;       // at_work_since
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
  shared_ = event_log.shared;
  number_ = event_log.num_threads.fetch_add(1, std::memory_order_relaxed);
  keeps_totals_ = event_log.keeps_totals.load(std::memory_order_relaxed);
  since_ns_ = forked ? 0 : at_work_since(event_log.opening);
  if (keeps_totals_) open_totals();
  sequence_ = 0;
  full_ = false;
  next_ = end_ = nullptr;
  for (std::uint32_t i = 0; i < depth_; ++i) stack_[i].recorded = false;
  mask_ = 0;
  counts_ = BlockCounts{};
  clock_.start(event_log.first_moment);
  blocks_.start(event_log.process_start << 32 ^ static_cast<std::uint64_t>(pid_) << 16 ^ number_, event_log.block_every);
  lane_ = 0;  // a forked child goes on in what it was in
  resume();
  return true;
}

/// Where that fails, everything is dropped, and counted as such.
inline void ThreadLog::open_totals() noexcept {
  const SegmentOwner owner{pid_, static_cast<std::uint32_t>(::syscall(SYS_gettid)), number_, event_log.process_start};
  const std::uint64_t since = since_ns_ != 0 ? since_ns_ : clock_.now();
  if (take_room(*shared_, kTotalsNbytes)) totals_.create(event_log.folder, owner, since);
}

/// Begins what was entered and is not recorded, now that it may be. What was entered later is left and begun again,
/// so that spans stay nested.
inline void ThreadLog::resume() noexcept {
  const std::uint64_t now = clock_.now();
  const auto waits = [&](const Entered& entered) {
    return !entered.recorded && !entered.collapsed && !is_muted(entered.use);
  };
  std::uint32_t first = 0;
  while (first < depth_ && !waits(stack_[first])) ++first;
  for (std::uint32_t i = depth_; i > first; --i) {
    const Entered& entered = stack_[i - 1];
    if (entered.recorded)
      put(EventKind::kEnd, entered.use.site, static_cast<std::uint16_t>(entered.use.instrument) | kResumed, now);
  }
  for (std::uint32_t i = first; i < depth_; ++i) {
    Entered& entered = stack_[i];
    if (!entered.recorded && !waits(entered)) continue;
    entered.recorded = true;
    put(EventKind::kBegin, entered.use.site, static_cast<std::uint16_t>(entered.use.instrument) | kResumed, now);
  }
}

/// What the block was, then the next one; neither is in the time or the counts of a block.
inline void ThreadLog::next_block() noexcept {
  if (full_) return end_blocks();
  if (blocks_.in_round()) put_counts();
  const std::uint32_t active = counts_.frequent() | (may_switch_gpu() ? kMuteGpu : 0);
  BlockPlan::Block block;
  if (!blocks_.next(clock_.now(), active, block)) return;
  mute(block.mask);
  counts_ = BlockCounts{};
  put(EventKind::kBlock, block.mask, block.begins_round ? kRoundBegins : 0, clock_.now());
  counts_.cpu_ns = thread_cpu_ns();
}

/// The first thread of the process that has a block while GPU work is recorded: two would undo what the other does.
inline bool ThreadLog::may_switch_gpu() noexcept {
  if (event_log.switch_gpu.load(std::memory_order_acquire) == nullptr) return false;
  std::uint32_t owner = 0;
  const bool is_first = event_log.gpu_switcher.compare_exchange_strong(owner, number_ + 1, std::memory_order_relaxed);
  return is_first || owner == number_ + 1;
}

/// Another thread may, from here on.
inline void ThreadLog::leave_gpu() noexcept {
  std::uint32_t own = number_ + 1;
  if (pid_ == event_log.pid) event_log.gpu_switcher.compare_exchange_strong(own, 0, std::memory_order_relaxed);
}

/// Everything records again, for good.
inline void ThreadLog::end_blocks() noexcept {
  const bool began = blocks_.in_round();
  put_cut_off(clock_.now());
  blocks_.stop();
  mute(0);
  leave_gpu();
  if (began) put(EventKind::kBlock, 0, kBlocksEnd, clock_.now());
}

inline void ThreadLog::put_counts() noexcept {
  const std::uint64_t cpu_ns = thread_cpu_ns() - counts_.cpu_ns, now = clock_.now();
  const auto put_one = [&](Counter first, std::uint32_t index, std::uint64_t count) {
    const auto which = static_cast<std::uint16_t>(static_cast<std::uint32_t>(first) + index);
    put(EventKind::kCount, static_cast<std::uint32_t>(count), which, now);
  };
  put_one(Counter::kCpuNs, 0, cpu_ns);
  put_one(Counter::kCpuNsHigh, 0, cpu_ns >> 32);
  for (std::uint32_t i = 0; i < kNumInstruments; ++i) put_one(Counter::kSpans, i, counts_.spans[i]);
  for (std::uint32_t i = 0; i < 3; ++i) put_one(Counter::kSteps, i, counts_.steps[i]);
}

/// Steps of a block that is not finished, where everything is muted: no event has told of them.
inline void ThreadLog::put_cut_off(std::uint64_t now) noexcept {
  if (!blocks_.in_round() || (mask_ & kMuteAll) != kMuteAll) return;
  for (std::uint32_t kind = 0; kind < 3; ++kind)
    if (counts_.steps[kind] != 0) {
      const auto which = static_cast<std::uint16_t>(static_cast<std::uint32_t>(Counter::kSteps) + kind);
      put(EventKind::kCount, counts_.steps[kind], which, now);
    }
  counts_ = BlockCounts{};
}

inline bool ThreadLog::more_room() noexcept {
  if (!segment_.is_open() || next_ == segment_.last()) return next_segment();
  end_ = segment_.prepare(next_);
  return true;
}

inline bool ThreadLog::next_segment() noexcept {
  if (full_) return false;
  std::uint64_t nbytes = kFirstSegmentNbytes << (2 * (sequence_ < 4 ? sequence_ : 4));
  if (nbytes > kLargestSegmentNbytes) nbytes = kLargestSegmentNbytes;
  const SegmentOwner owner{pid_, static_cast<std::uint32_t>(::syscall(SYS_gettid)), number_, event_log.process_start};
  Segment segment;
  const bool has_room = take_room(*shared_, nbytes);
  full_ = !has_room || !segment.create(event_log.folder, owner, sequence_, nbytes);
  if (full_ && has_room) give_room_back(*shared_, nbytes);
  if (full_) return false;
  if (segment_.is_open()) segment_.finish(next_);
  segment_ = segment;
  ++sequence_;
  next_ = segment_.first();
  end_ = segment_.prepare(next_);
  if (sequence_ == 1 && since_ns_ != 0) put(EventKind::kLane, 0, 0, since_ns_);  // outside all sites
  return true;
}

}  // namespace drivetrain
