// The replay table: a ring of rows in shared memory under a sum tree, for many threads and
// processes at once, with lazy writing (arXiv 2110.01101):
//
//   reserve (lock: generation odd, priority 0) -> copy, no lock -> commit (lock: priority, even)
//
// One robust lock for all who write, held once per batch and never during a copy. A batch is at most
// kMaxBatch rows, so nobody holds the lock for more than 1,024 changes. Sampling, without the lock, is in
// sampler.hpp.
//
// Claims, each with the test that proves it (cpp/tests):
//   * no sampler ever returns an unwritten or torn row        test_hammer, under TSAN
//   * an update for an overwritten row changes nothing        test_table, test_hammer
//   * inner sums equal leaf sums whenever the lock is free    test_table, test_hammer
//   * draws beside updates are as likely as they say          test_draws
//   * a process killed anywhere costs its in-flight rows only test_crash_points, exhaustively
//
// Fields of rows that are there are written anew (rewrite) in one hold of the lock per few rows, copy and all: a row
// keeps its place, its leaf and its frames, and has a new generation.
//
// In a framed table rows come with frames (frames.hpp), reserved and published in the same lock holds.
//
// Over 400 lines: all that happens under the one lock is in this file, to be read in one go.
#pragma once

#include <algorithm>
#include <cstdint>

#include "drivetrain/bounds.hpp"
#include "drivetrain/fetch_line.hpp"
#include "drivetrain/frames.hpp"
#include "drivetrain/layout.hpp"
#include "drivetrain/power.hpp"
#include "drivetrain/process.hpp"
#include "drivetrain/shared_copy.hpp"

namespace drivetrain {

inline constexpr std::size_t kMaxBatch = kMaxTreeBatch;
inline constexpr std::size_t kFetchedAhead = 12;  // rows of an update, four lines each; too many at once are lost
inline constexpr std::size_t kRowsFetched = 32;   // behind those of an insert
inline constexpr std::size_t kFetchedBytes = 512;  // of rows up to this size; longer ones the hardware follows

enum class Status {
  kOk,
  kNotEnoughData,  // fewer committed rows than asked for
  kBusy,           // every slot is being written by a live process; try again
  kBroken,         // the lock cannot be used any more
  kForgotten,      // leaves by an alpha of 0 do not tell priorities
  kGone,           // a frame to be kept was taken again; store it anew
};

/// New contents of one field, [count, nbytes] for as many rows.
struct NewField {
  std::size_t offset;  // within the fields of a row
  std::size_t nbytes;
  const unsigned char* items;
};

/// The frames that come with rows of a framed table.
struct FrameBatch {
  Claim* claims;               // filled by reserve(), published by commit()
  std::size_t count;           // frames to take
  const std::uint64_t* kept;   // keys of older frames that must outlive the taking
  std::size_t num_kept;
};

class ReplayTable {
 public:
  /// Views a table in memory; initialize() it once per segment first.
  ReplayTable(void* memory, const TableConfig& config) noexcept
      : header_(static_cast<TableHeader*>(memory)),
        rows_(static_cast<unsigned char*>(memory) + rows_offset(config)),
        config_(config) {
    if (config.prioritized)
      tree_ = SumTree(static_cast<unsigned char*>(memory) + tree_offset(), &header_->tree,
                      config.capacity);
    if (config.keeps_extremes())
      tree_.keep_extremes(static_cast<unsigned char*>(memory) + extremes_offset(config));
    if (config.num_frames) frames_ = FrameRing(memory, config);
  }

  /// Leaves up to twice this one do not make a new table's unit coarser.
  static constexpr double kHeadroom = 4096.0;

  /// Makes zeroed memory of table_nbytes(config) an empty table.
  static bool initialize(void* memory, const TableConfig& config) noexcept {
    auto* header = static_cast<TableHeader*>(memory);
    header->version = kTableVersion;
    header->config = config;
    header->max_priority = 1.0f;
    header->exponent.initialize(config.alpha, config.capacity);
    header->random_block.store(1, std::memory_order_relaxed);
    if (!header->mutex.initialize()) return false;
    ReplayTable table(memory, config);
    if (config.prioritized) table.tree_.initialize(kHeadroom);
    return true;
  }

  const TableConfig& config() const noexcept { return config_; }
  TableHeader& header() const noexcept { return *header_; }
  RowHeader& row(std::uint64_t slot) const noexcept {
    return *reinterpret_cast<RowHeader*>(rows_ + within(slot, config_.capacity) * config_.row_stride);
  }
  /// The fields of a row. Written by the holder of its claim, read under a check of generations.
  unsigned char* fields(std::uint64_t slot) const noexcept {
    return rows_ + within(slot, config_.capacity) * config_.row_stride + sizeof(RowHeader);
  }

  /// Holds the table's lock; repairs the table first if the last holder was killed.
  class Lock {
   public:
    explicit Lock(ReplayTable& table) noexcept : header_(*table.header_) {
      const LockResult result = header_.mutex.lock();
      held_ = result != LockResult::kFailed;
      if (result == LockResult::kOwnerDied) {
        table.repair();
        header_.mutex.mark_consistent();
      }
      if (held_ && table.config_.prioritized) table.tree_.load_unit();
    }
    ~Lock() {
      if (held_) header_.mutex.unlock();
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    explicit operator bool() const noexcept { return held_; }

   private:
    TableHeader& header_;
    bool held_;
  };

  /// Takes up to `wanted` <= kMaxBatch rows to write, at least one unless kBusy. Rows left behind
  /// by dead processes are taken again; rows that a live one is writing are passed over. With
  /// `frames`, takes those first, all or (kBusy, kGone) none; `wanted` may be 0 then.
  Status reserve(std::size_t wanted, Claim* claims, std::size_t* num_claims,
                 const FrameBatch* frames = nullptr) noexcept {
    const std::uint32_t self = OwnerTag::self();
    *num_claims = 0;
    Lock lock(*this);
    if (!lock) return Status::kBroken;
    const std::uint64_t next_frame = header_->next_frame;
    if (frames) {
      const Status taken = take_frames(*frames);
      if (taken != Status::kOk) return taken;
    }
    // In locals, which the stores to rows cannot be taken to change.
    const std::uint64_t capacity = config_.capacity, stride = config_.row_stride;
    const std::uint64_t fetched = stride <= kFetchedBytes ? stride : 0;
    std::uint64_t slot = header_->next_slot, passed = 0, num_lost = 0;
    std::size_t num_taken = 0;
    std::uint32_t known_dead = 0;
    unsigned char* at = rows_ + slot * stride;
    while (num_taken < wanted && passed < capacity) {
      // The writer's lines, while we wait for this one, which says whether the row can be taken.
      for (std::uint64_t line = 64; line < fetched; line += 64) fetch_line_to_write(at + line);
      RowHeader& head = *reinterpret_cast<RowHeader*>(at);
      const std::uint32_t generation = head.generation.load(std::memory_order_relaxed);
      const bool in_flight = generation & 1;
      if (!in_flight ||
          OwnerTag::is_dead(head.owner.load(std::memory_order_relaxed), known_dead)) {
        num_lost += is_committed(generation);
        const std::uint32_t taken = taken_after(generation);
        DRIVETRAIN_LOCKED_WRITE("reserve/owner", head.owner.store(self, std::memory_order_relaxed));
        DRIVETRAIN_LOCKED_WRITE("reserve/generation",
                                head.generation.store(taken, std::memory_order_relaxed));
        claims[num_taken++] = {static_cast<std::uint32_t>(slot), taken};
      }
      ++passed;
      at += stride;
      if (++slot == capacity) slot = 0, at = rows_;
    }
    *num_claims = num_taken;
    if (num_taken == 0 && wanted > 0) {
      if (frames) frames_.give_back(frames->claims, frames->count, next_frame);
      return Status::kBusy;
    }
    if (config_.prioritized) set_leaves(claims, num_taken, 0.0f);
    const std::uint64_t used = std::max(num_used(), std::min(header_->next_slot + passed, capacity));
    DRIVETRAIN_LOCKED_WRITE("reserve/num_committed", set_num_committed(num_committed() - num_lost));
    DRIVETRAIN_LOCKED_WRITE("reserve/num_used", set_num_used(used));
    DRIVETRAIN_LOCKED_WRITE("reserve/next_slot", header_->next_slot = slot);
    // Pairs with the acquire fence of whoever reads rows: odd is seen before any new byte.
    std::atomic_thread_fence(std::memory_order_release);
    return Status::kOk;
  }

  /// Publishes written rows, with `leaves` or `priorities` of their own or the initial priority.
  Status commit(const Claim* claims, std::size_t count, const float* leaves = nullptr,
                const float* priorities = nullptr) noexcept {
    {
      Lock lock(*this);
      if (!lock) return Status::kBroken;
      publish(claims, count, leaves, priorities);
    }
    fetch_next_rows(claims, count);
    return Status::kOk;
  }

  /// The same in a framed table: publishes written frames, then the rows whose frames, keys[i *
  /// num_refs ...], are all still there. The others are dropped: their writer slept too long.
  Status commit_framed(const Claim* claims, std::size_t count, const float* leaves,
                       const float* priorities, const std::uint64_t* keys,
                       const FrameBatch* frames) noexcept {
    Lock lock(*this);
    if (!lock) return Status::kBroken;
    if (frames) frames_.publish(frames->claims, frames->count);
    const float* given = leaves ? leaves : priorities;
    Claim whole[kMaxBatch];
    float own[kMaxBatch];
    std::size_t num = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (!frames_.are_current(keys + i * config_.num_refs, config_.num_refs)) {
        drop(claims[i]);
        continue;
      }
      frames_.hang(claims[i].slot, claims[i].generation + 1);
      if (given) own[num] = given[i];
      whole[num++] = claims[i];
    }
    publish(whole, num, leaves ? own : nullptr, priorities ? own : nullptr);
    return Status::kOk;
  }

  /// Sets the leaves of count <= kMaxBatch rows, except where the row has changed since its key
  /// was given out; those are counted. `priorities` are the raw ones, for the running maximum;
  /// `alpha` is what made leaves of them, in case it has changed since.
  Status update_priorities(const std::uint64_t* keys, const float* leaves, const float* priorities,
                           std::size_t count, double alpha, std::uint64_t* num_stale) noexcept {
    const auto fetch = [&](std::size_t i) {
      fetch_line(&row(Key::slot(keys[i])));
      tree_.prefetch(Key::slot(keys[i]));
    };
    for (std::size_t i = 0; i < std::min(count, kFetchedAhead); ++i) fetch(i);
    std::uint32_t slots[kMaxBatch], changes = 0;
    Lock lock(*this);
    if (!lock) return Status::kBroken;
    for (std::size_t i = 0; i < count; ++i) {
      if (i + kFetchedAhead < count) fetch(i + kFetchedAhead);
      slots[i] = Key::slot(keys[i]);
      changes |= row(slots[i]).generation.load(std::memory_order_relaxed) ^ Key::generation(keys[i]);
    }
    const bool settled = is_settled();
    if (changes == 0 && settled && alpha == this->alpha())  // as a rule
      set_priorities(slots, leaves, priorities, count);
    else
      *num_stale += count - update_current(keys, leaves, priorities, count, alpha);
    if (!is_settled()) header_->exponent.advance(tree_, config_.capacity);
    return Status::kOk;
  }

  /// Writes fields of count <= kMaxBatch rows anew, each of another key: keys[i] becomes the row's new one, or stays as
  /// it is where the row has changed since it was given out; those are counted. It copies with the lock held, so
  /// give it few bytes at a time. A process killed meanwhile costs one row.
  Status rewrite(std::uint64_t* keys, std::size_t first, std::size_t count, const NewField* fields,
                 std::size_t num_fields, std::uint64_t* num_stale) noexcept {
    const std::uint32_t self = OwnerTag::self();
    for (std::size_t i = first; i < first + count; ++i) fetch_line_to_write(&row(Key::slot(keys[i])));
    Lock lock(*this);
    if (!lock) return Status::kBroken;
    for (std::size_t i = first; i < first + count; ++i) {
      const std::uint32_t slot = Key::slot(keys[i]);
      RowHeader& head = row(slot);
      const std::uint32_t generation = head.generation.load(std::memory_order_relaxed);
      if (generation != Key::generation(keys[i])) {
        ++*num_stale;
        continue;
      }
      const std::uint32_t taken = taken_after(generation);
      DRIVETRAIN_LOCKED_WRITE("rewrite/owner", head.owner.store(self, std::memory_order_relaxed));
      DRIVETRAIN_LOCKED_WRITE("rewrite/generation", head.generation.store(taken, std::memory_order_relaxed));
      std::atomic_thread_fence(std::memory_order_release);  // as in reserve(): odd is seen before any new byte
      for (std::size_t f = 0; f < num_fields; ++f)
        copy_to_shared(this->fields(slot) + fields[f].offset, fields[f].items + i * fields[f].nbytes, fields[f].nbytes);
      DRIVETRAIN_LOCKED_WRITE("rewrite/publish", head.generation.store(taken + 1, std::memory_order_release));
      if (config_.num_frames) frames_.rehang(keys[i], taken + 1);
      keys[i] = Key::make(slot, taken + 1);
    }
    return Status::kOk;
  }

  /// Changes alpha for everybody; with `rescale`, the leaves there are become what they would be
  /// had it always been this, which takes many short holds of the lock. Refused (kForgotten) upwards from
  /// next to nothing.
  Status set_alpha(double alpha, bool rescale) noexcept {
    for (bool changed = false;;) {
      Lock lock(*this);
      if (!lock) return Status::kBroken;
      if (!is_settled()) {  // this change, or another's
        header_->exponent.advance(tree_, config_.capacity);
      } else if (changed) {
        return Status::kOk;
      } else {
        if (rescale && this->alpha() < kLeastKeptAlpha && alpha > this->alpha()) return Status::kForgotten;
        header_->exponent.change(alpha, rescale && alpha != this->alpha());
        changed = true;
      }
    }
  }

  /// Ends all rows that are whole, and lets the ring begin anew where nobody is at work; what others commit meanwhile
  /// may stay. Takes many short holds of the lock.
  Status clear() noexcept {
    for (std::uint64_t next = 0; next < num_lists();)
      if (const Status ended = end_some(&next); ended != Status::kOk) return ended;
    for (bool is_over = false; !is_over;) {
      Lock lock(*this);
      if (!lock) return Status::kBroken;
      is_over = !give_back_slots();
    }
    return Status::kOk;
  }

  /// One hold of clear(): ends the rows of kMaxBatch lists from `next` on, and moves it behind them.
  Status end_some(std::uint64_t* next) noexcept {
    const std::uint64_t end = std::min(*next + kMaxBatch, num_lists());
    Lock lock(*this);
    if (!lock) return Status::kBroken;
    for (Killer kill(*this); *next < end; ++*next) end_list(*next, kill);
    DRIVETRAIN_LOCKED_WRITE("clear/max_priority", header_->max_priority = 1.0f);
    return Status::kOk;
  }

  /// Rows that can be sampled, and slots in use, from 0 on. With the lock, or as of some moment just now.
  std::uint64_t num_committed() const noexcept {
    return header_->num_committed.load(std::memory_order_relaxed);
  }
  std::uint64_t num_used() const noexcept { return header_->num_used.load(std::memory_order_relaxed); }
  /// Whether a process died with the lock and nobody has repaired what it left; a glance without the lock.
  bool is_orphaned() const noexcept { return header_->mutex.is_orphaned(); }

  double alpha() const noexcept { return header_->exponent.alpha(); }
  /// Whether all leaves are by the same alpha; call with the lock held.
  bool is_settled() const noexcept { return header_->exponent.is_settled(config_.capacity); }
  /// The leaf of a priority in a slot, and the other way; call with the lock held.
  float leaf_at(std::uint64_t slot, float priority) const noexcept {
    return leaf_of(priority, header_->exponent.at(slot));
  }
  double priority_at(std::uint64_t slot) const noexcept {
    return priority_of(tree_.leaf(slot), header_->exponent.at(slot));
  }

  /// Where the ring goes on in a table that was filled slot by slot; with the lock held. The rows of a frame hang in
  /// the order of the ring, which ends them newest first (frames.hpp), and that is another one now.
  void set_next_slot(std::uint64_t slot) noexcept {
    header_->next_slot = slot;
    if (config_.num_frames) frames_.rebuild_dependents();
  }

  SumTree& tree() noexcept { return tree_; }
  const SumTree& tree() const noexcept { return tree_; }
  const FrameRing& frames() const noexcept { return frames_; }

  /// Whether sums, counts and generations agree; call with the lock held. For tests and doctor.
  bool is_consistent() const noexcept {
    std::uint64_t committed = 0;
    for (std::uint64_t slot = 0; slot < config_.capacity; ++slot) {
      const std::uint32_t generation = row(slot).generation.load(std::memory_order_relaxed);
      const bool drawable = is_committed(generation);
      committed += drawable;
      if (config_.prioritized && drawable != (tree_.leaf(slot) > 0)) return false;
    }
    return committed == num_committed() &&
           (!config_.prioritized || tree_.sums_are_exact()) &&
           (!config_.num_frames || frames_.is_consistent());
  }

 private:
  void set_num_committed(std::uint64_t count) noexcept {
    header_->num_committed.store(count, std::memory_order_relaxed);
  }
  void set_num_used(std::uint64_t count) noexcept {
    header_->num_used.store(count, std::memory_order_relaxed);
  }

  float initial_leaf(std::uint64_t slot) noexcept {
    if (config_.initial == InitialPriority::kBufferMax) {
      const float largest = is_settled() ? tree_.extremes().largest : largest_while_alpha_changes(slot);
      return largest > 0 ? largest : leaf_at(slot, 1.0f);
    }
    const bool fixed = config_.initial == InitialPriority::kFixed;
    const float priority = fixed ? config_.initial_priority : header_->max_priority;
    const double alpha = header_->exponent.at(slot);
    if (priority != newest_priority_ || alpha != newest_alpha_) {
      newest_priority_ = priority;
      newest_alpha_ = alpha;
      newest_leaf_ = leaf_of(priority, alpha);
    }
    return newest_leaf_;
  }

  // The leaf, in a slot, of the largest priority: of the largest of those that are turned already, or of the others.
  [[gnu::noinline]] float largest_while_alpha_changes(std::uint64_t slot) noexcept {
    const Exponent& exponent = header_->exponent;
    const std::uint64_t seam = exponent.num_turned();
    const double alpha = exponent.at(slot);
    return std::max(exponent.by(alpha, 0, tree_.largest(0, seam)),
                    exponent.by(alpha, seam, tree_.largest(seam, config_.capacity)));
  }

  // With the lock held. Priority first: a crash in between leaves an odd row, which repair()
  // takes out again.
  void publish(const Claim* claims, std::size_t count, const float* leaves,
               const float* priorities) noexcept {
    if (config_.prioritized && count > 0) {
      const bool settled = is_settled();
      if (settled && !leaves && !priorities) {
        set_leaves(claims, count, initial_leaf(claims[0].slot));
      } else {
        std::uint32_t slots[kMaxBatch];
        float values[kMaxBatch];
        for (std::size_t i = 0; i < count; ++i) slots[i] = claims[i].slot;
        if (!leaves) make_leaves(slots, priorities, count, values);
        tree_.update(slots, leaves ? leaves : values, count);
      }
      if (!is_settled()) header_->exponent.advance(tree_, config_.capacity);
    }
    for (std::size_t i = 0; i < count; ++i)  // release: the row's bytes are seen before "even"
      DRIVETRAIN_LOCKED_WRITE("commit/generation",
                              row(claims[i].slot)
                                  .generation.store(claims[i].generation + 1,
                                                    std::memory_order_release));
    DRIVETRAIN_LOCKED_WRITE("commit/num_committed", set_num_committed(num_committed() + count));
    DRIVETRAIN_LOCKED_WRITE("commit/num_inserted", header_->num_inserted += count);
  }

  // Whoever inserts next, mostly the same soon, finds the rows behind these in its cache: while an environment steps,
  // nothing else waits for memory. As many as were written, up to what can be under way.
  void fetch_next_rows(const Claim* claims, std::size_t count) const noexcept {
    const std::uint64_t stride = config_.row_stride;
    if (count == 0 || stride > kFetchedBytes) return;
    const std::uint64_t next = claims[count - 1].slot + 1;
    const std::uint64_t end = std::min(next + std::min(count, kRowsFetched), config_.capacity);
    for (std::uint64_t at = next * stride; at < end * stride; at += 64) fetch_line_to_write(rows_ + at);
  }

  // A reserved row that will not be written: odd and nobody's, for the next who comes along.
  void drop(const Claim& claim) noexcept {
    DRIVETRAIN_LOCKED_WRITE("commit/drop", row(claim.slot).owner.store(0, std::memory_order_relaxed));
    DRIVETRAIN_LOCKED_WRITE("commit/num_dropped", header_->num_dropped += 1);
  }

  // A committed row whose frames are about to change: as if its writer had died. Leaf and count
  // follow in end_rows().
  void kill(std::uint32_t slot) noexcept {
    RowHeader& head = row(slot);
    DRIVETRAIN_LOCKED_WRITE("kill/owner", head.owner.store(0, std::memory_order_relaxed));
    DRIVETRAIN_LOCKED_WRITE(
        "kill/generation",
        head.generation.store(head.generation.load(std::memory_order_relaxed) + 1,
                              std::memory_order_relaxed));
  }
  void end_rows(const Claim* killed, std::size_t& count) noexcept {
    if (config_.prioritized) set_leaves(killed, count, 0.0f);
    DRIVETRAIN_LOCKED_WRITE("kill/num_committed", set_num_committed(num_committed() - count));
    count = 0;
  }

  // Kills rows; their leaves and the count follow, kMaxBatch at a time and at its end. Within a hold of the lock.
  class Killer {
   public:
    explicit Killer(ReplayTable& table) noexcept : table_(table) {}
    ~Killer() {
      if (count_ > 0) table_.end_rows(killed_, count_);
    }
    Killer(const Killer&) = delete;
    Killer& operator=(const Killer&) = delete;
    void operator()(std::uint32_t slot) noexcept {
      table_.kill(slot);
      killed_[count_++] = {slot, 0};
      if (count_ == kMaxBatch) table_.end_rows(killed_, count_);
    }

   private:
    ReplayTable& table_;
    Claim killed_[kMaxBatch];
    std::size_t count_ = 0;
  };

  // What clear() goes over: the lists of frames, each of which ends in one hold, as a row behind one that has ended
  // would no longer be found; without frames every slot is a list.
  std::uint64_t num_lists() const noexcept { return config_.num_frames ? config_.num_frames : config_.capacity; }
  void end_list(std::uint64_t list, Killer& kill) noexcept {
    if (config_.num_frames)
      frames_.end_dependents(frames_.frame(list), kill);
    else if (is_committed(row(list).generation.load(std::memory_order_relaxed)))
      kill(static_cast<std::uint32_t>(list));
  }

  // Takes slots that are nobody's off the end of those in use, kMaxBatch at most, and has the ring go on within them;
  // the order in which it comes to rows that there are stays. Whether there may be more.
  bool give_back_slots() noexcept {
    std::uint64_t used = num_used();
    const std::uint64_t least = used > kMaxBatch ? used - kMaxBatch : 0;
    std::uint32_t known_dead = 0;
    while (used > least && is_nobodys(used - 1, known_dead)) --used;
    const bool more = used == least && used > 0;
    if (config_.prioritized && num_committed() == 0 && tree_.total() == 0) tree_.initialize(kHeadroom);
    DRIVETRAIN_LOCKED_WRITE("clear/num_used", set_num_used(used));
    DRIVETRAIN_LOCKED_WRITE("clear/next_slot", header_->next_slot = std::min(header_->next_slot, used));
    return more;
  }

  // Whether a slot has no row, nor somebody who writes one.
  bool is_nobodys(std::uint64_t slot, std::uint32_t& known_dead) const noexcept {
    const RowHeader& head = row(slot);
    const std::uint32_t generation = head.generation.load(std::memory_order_relaxed);
    if (generation == 0) return true;
    return !is_committed(generation) && OwnerTag::is_dead(head.owner.load(std::memory_order_relaxed), known_dead);
  }

  Status take_frames(const FrameBatch& frames) noexcept {
    const std::uint64_t next_frame = header_->next_frame;
    if (Killer kill(*this); !frames_.take(frames.count, frames.claims, kill)) return Status::kBusy;
    if (frames_.are_current(frames.kept, frames.num_kept)) return Status::kOk;
    frames_.give_back(frames.claims, frames.count, next_frame);
    return Status::kGone;
  }

  // The leaves of rows, each by the alpha of its slot: of new ones without priorities, too. Where they need a coarser
  // unit, a change of alpha that is under way ends first (Exponent), and all are by the new one.
  [[gnu::noinline]] void make_leaves(const std::uint32_t* slots, const float* priorities, std::size_t count,
                                     float* leaves) noexcept {
    for (std::size_t i = 0; priorities && i < count; ++i) leaves[i] = leaf_at(slots[i], priorities[i]);
    if (!priorities) {
      const std::uint64_t seam = header_->exponent.num_turned();  // new rows: while alpha changes, and so by two of it
      const float turned = initial_leaf(0), others = initial_leaf(seam);
      for (std::size_t i = 0; i < count; ++i) leaves[i] = slots[i] < seam ? turned : others;
    }
    if (is_settled() || tree_.has_room(largest_of(leaves, count))) return;
    header_->exponent.finish(tree_, config_.capacity);
    make_leaves(slots, priorities, count, leaves);
  }

  // update_priorities() where rows have changed or leaves are by another alpha; returns how many rows have not.
  [[gnu::noinline]] std::size_t update_current(const std::uint64_t* keys, const float* leaves, const float* priorities,
                                               std::size_t count, double alpha) noexcept {
    std::uint32_t slots[kMaxBatch];
    float values[kMaxBatch], raw[kMaxBatch];
    std::size_t num_current = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t slot = Key::slot(keys[i]);
      if (row(slot).generation.load(std::memory_order_relaxed) != Key::generation(keys[i])) continue;
      slots[num_current] = slot;
      values[num_current] = leaves[i];
      raw[num_current++] = priorities[i];
    }
    if (!is_settled() || alpha != this->alpha()) make_leaves(slots, raw, num_current, values);
    if (num_current > 0) set_priorities(slots, values, raw, num_current);
    return num_current;
  }

  // The leaves of rows, and the running maximum of their priorities.
  void set_priorities(const std::uint32_t* slots, const float* leaves, const float* priorities,
                      std::size_t count) noexcept {
    tree_.update(slots, leaves, count);
    const float largest = largest_of(priorities, count);
    if (largest > header_->max_priority)
      DRIVETRAIN_LOCKED_WRITE("update/max_priority", header_->max_priority = largest);
  }

  void set_leaves(const Claim* claims, std::size_t count, float leaf) noexcept {
    std::uint32_t slots[kMaxBatch];
    for (std::size_t i = 0; i < count; ++i) slots[i] = claims[i].slot;
    tree_.fill(slots, count, leaf);
  }

  // The last holder died between two writes. Generations tell which rows are whole; all else
  // follows from them and the leaves. Safe to die in, too: the next locker starts it again.
  void repair() noexcept {
    std::uint64_t committed = 0, used = config_.capacity;
    std::uint32_t known_dead = 0;
    if (config_.prioritized) {
      tree_.load_unit();
      header_->exponent.repair(tree_, config_.capacity);
    }
    for (std::uint64_t slot = 0; slot < config_.capacity; ++slot) {
      const std::uint32_t generation = row(slot).generation.load(std::memory_order_relaxed);
      const bool drawable = is_committed(generation);
      committed += drawable;
      if (config_.prioritized && !drawable && tree_.leaf(slot) != 0) tree_.put_leaf(slot, 0);
    }
    // No more of them than there are rows in, and behind the ring: uniform draws look for rows among these.
    while (used > header_->next_slot && is_nobodys(used - 1, known_dead)) --used;
    if (config_.prioritized) tree_.rebuild();
    if (config_.num_frames) frames_.rebuild_dependents();
    DRIVETRAIN_LOCKED_WRITE("repair/num_committed", set_num_committed(committed));
    DRIVETRAIN_LOCKED_WRITE("repair/num_used", set_num_used(used));
    DRIVETRAIN_LOCKED_WRITE("repair/num_repairs", header_->num_repairs += 1);
  }

  TableHeader* header_;
  unsigned char* rows_;
  TableConfig config_;
  SumTree tree_;
  FrameRing frames_;
  float newest_priority_ = -1, newest_leaf_ = 0;  // of new rows; under the lock, like tree_
  double newest_alpha_ = -1;
};

}  // namespace drivetrain
