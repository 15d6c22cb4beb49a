// From stacks of observations to frames: what of a step is stored already, what is new.
//
// Along an episode next_obs of one step is obs of the next, and a stack is the one before it, moved
// on by a frame. Nothing says so; it is found by comparing bytes, each step anew:
//
//   obs       equal to the last next_obs, in frames still there ──▶ those frames; else stored anew
//   next_obs  obs moved on by one frame ──▶ its frames and one new one; else stored anew
//
// A producer that vouches for both within an episode is believed: then only new frames are read.
//
// Within a stack stored anew, equal neighbours are one frame (a reset fills a stack with copies). A
// row's newest frame is always new, even where its bytes are known: see frames.hpp.
//
// One producer, one FrameChains; calls on it must not overlap. Oracle: replay/reference_frames.py.
#pragma once

#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>

#include "drivetrain/fetch_line.hpp"
#include "drivetrain/large_copy.hpp"
#include "drivetrain/rows.hpp"

namespace drivetrain {

#ifndef DRIVETRAIN_PATIENCE_S  // tests have less
#define DRIVETRAIN_PATIENCE_S 10
#endif

/// Whether a producer that found all slots in flight has waited for 10 s: others commit within
/// microseconds, unless they were stopped. Gives them the processor meanwhile.
inline bool has_waited_too_long(timespec& since) noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (since.tv_sec == 0) since = now;
  sched_yield();
  return now.tv_sec - since.tv_sec > DRIVETRAIN_PATIENCE_S;
}

class FrameChains {
 public:
  struct NewFrame {
    std::uint32_t env;
    std::uint32_t position;  // in the stack
    bool of_next;            // of next_obs
  };
  /// Storage the caller provides; sizes in stacks (a stack: schema.stack items).
  struct Storage {
    std::uint64_t* chains;  // [num_envs], zeroed: frames of the last next_obs
    std::uint64_t* obs;     // [max_envs]
    std::uint64_t* next;    // [max_envs]
    std::uint64_t* kept;    // [max_envs]
    NewFrame* made;         // [2 * max_envs]
    Claim* claims;          // [2 * max_envs]
    bool compares = true;   // else an episode's stacks are believed to follow each other
  };

  /// Environments per lock hold: all of them stored anew fit into half of the ring, so that no frame
  /// of one call is taken again within it.
  static std::size_t max_envs(const TableConfig& config, std::size_t stack) noexcept {
    if (stack == 0) return kMaxBatch;
    const auto half = static_cast<std::size_t>(config.num_frames / 2);
    return std::max<std::size_t>(1, std::min(kMaxBatch, half) / (2 * stack));
  }

  /// Rows of a framed table per lock hold: their keys stay within 64 KiB.
  static std::size_t rows_per_commit(const TableConfig& config) noexcept {
    return std::clamp<std::size_t>(8192 / std::max<std::size_t>(1, config.num_refs), 1, kMaxBatch);
  }

  FrameChains(ReplayTable& table, const RowSchema& schema, const Storage& storage) noexcept
      : table_(table), frames_(table.frames()), schema_(schema), stack_(schema.stack),
        storage_(storage) {}

  /// Inserts the `num_rows` rows that a step of environments first .. first + num completes, and the
  /// frames of that step, if it has any: reserved together and published together, so that no other
  /// producer comes between a frame and its row. Once the frames are written, keep(env, obs keys,
  /// next_obs keys) is called for each environment, and then write_rows(i, claims, count, priorities)
  /// for some rows at a time, the i-th and on: it fills in the rows, the keys of their frames in
  /// `row_keys`, [rows_per_commit * num_refs], and their priorities where these are not nullptr.
  template <class Keep, class WriteRows>
  Status insert(const Step& step, std::size_t first, std::size_t num, std::size_t num_rows,
                std::uint64_t* row_keys, Keep&& keep, WriteRows&& write_rows) noexcept {
    Claim claims[kMaxBatch];
    float given[kMaxBatch];
    float* priorities = step.priority ? given : nullptr;
    timespec busy_since{};
    const std::size_t num_refs = table_.config().num_refs, most = rows_per_commit(table_.config());
    bool frames_wait = stack_ > 0;
    for (std::size_t done = 0; frames_wait || done < num_rows;) {
      if (frames_wait) plan(step, first, num);
      const FrameBatch* frames = frames_wait ? &batch_ : nullptr;
      std::size_t num_claims = 0;
      const Status reserved =
          table_.reserve(std::min(most, num_rows - done), claims, &num_claims, frames);
      if (reserved == Status::kGone) continue;
      if (reserved == Status::kBusy && !has_waited_too_long(busy_since)) continue;
      if (reserved != Status::kOk) return reserved;
      busy_since = {};
      if (frames) write(step, first, num);
      for (std::size_t i = 0; frames && i < num; ++i) keep(first + i, obs(i), next(i));
      if (num_claims > 0) write_rows(done, claims, num_claims, priorities);
      const Status committed =
          num_refs
              ? table_.commit_framed(claims, num_claims, nullptr, priorities, row_keys, frames)
              : table_.commit(claims, num_claims, nullptr, priorities);
      if (committed != Status::kOk) return committed;
      frames_wait = false;
      done += num_claims;
    }
    return Status::kOk;
  }

  /// The next obs of an environment follows on nothing.
  void break_off(std::size_t env) const noexcept {
    if (stack_ > 0) storage_.chains[env * stack_] = 0;
  }

  std::size_t max_envs() const noexcept { return max_envs(table_.config(), stack_); }
  /// Keys of the frames of environment first + i's obs and next_obs in the call in progress.
  const std::uint64_t* obs(std::size_t i) const noexcept { return storage_.obs + i * stack_; }
  const std::uint64_t* next(std::size_t i) const noexcept { return storage_.next + i * stack_; }

 private:
  // Finds out, for environments first .. first + num, which frames to take and which to keep.
  void plan(const Step& step, std::size_t first, std::size_t num) noexcept {
    batch_ = {storage_.claims, 0, storage_.kept, 0};
    for (std::size_t i = 0; i < num; ++i) {
      const std::size_t env = first + i;
      if (i + 1 < num) fetch(step, env + 1);
      std::uint64_t* obs = storage_.obs + i * stack_;
      std::uint64_t* next = storage_.next + i * stack_;
      const std::uint64_t* chain = storage_.chains + env * stack_;
      if (shows(chain, step, env)) {
        std::copy_n(chain, stack_, obs);
        for (std::size_t j = 0; j < stack_; ++j) storage_.kept[batch_.num_kept++] = chain[j];
      } else {
        store_anew(step, env, false, obs);
      }
      if (moves_on(step, env)) {
        std::copy_n(obs + 1, stack_ - 1, next);
        next[stack_ - 1] = make(env, stack_ - 1, true);
      } else {
        store_anew(step, env, true, next);
      }
    }
  }

  // Once the batch is reserved: turns the plan into keys, remembers the chains, writes the frames.
  void write(const Step& step, std::size_t first, std::size_t num) noexcept {
    for (std::size_t i = 0; i < num * stack_; ++i) {
      resolve(storage_.obs[i]);
      resolve(storage_.next[i]);
    }
    std::copy_n(storage_.next, num * stack_, storage_.chains + first * stack_);
    for (std::size_t env = first; !storage_.compares && env < first + num; ++env)
      if (step.terminated[env] || step.truncated[env]) break_off(env);
    LargeCopies copies(false);  // what comes next is compared with them
    for (std::size_t n = 0; n < batch_.count; ++n) {
      const NewFrame& made = storage_.made[n];
      unsigned char* bytes = frames_.bytes(storage_.claims[n].slot);
      for (std::size_t f = 0; f < schema_.num_fields; ++f) {
        const Field& field = schema_.fields[f];
        if (field.kind != (made.of_next ? FieldKind::kNextFrames : FieldKind::kFrames)) continue;
        const unsigned char* item = part(step, f, made.env, made.position);
        if (part_nbytes(field) < kLargePiece)
          copy_to_shared(bytes + field.offset, item, part_nbytes(field));
        else
          copies.add(bytes + field.offset, item, part_nbytes(field));
      }
    }
  }

  std::size_t part_nbytes(const Field& field) const noexcept {
    return schema_.step_nbytes(field) / stack_;
  }
  const unsigned char* part(const Step& step, std::size_t f, std::size_t env,
                            std::size_t position) const noexcept {
    return step.arrays[f] + (env * stack_ + position) * part_nbytes(schema_.fields[f]);
  }

  // Whether these frames are still there and hold the bytes of obs. Somebody may be taking them
  // meanwhile; that is found under the lock, where reserve() looks at `kept`.
  bool shows(const std::uint64_t* chain, const Step& step, std::size_t env) const noexcept {
    if (chain[0] == 0 || !frames_.are_current(chain, stack_)) return false;
    if (!storage_.compares) return true;
    for (std::size_t f = 0; f < schema_.num_fields; ++f) {
      const Field& field = schema_.fields[f];
      if (field.kind != FieldKind::kFrames) continue;
      for (std::size_t j = 0; j < stack_; ++j)
        if (!equals_shared(frames_.bytes(Key::slot(chain[j])) + field.offset, part(step, f, env, j),
                           part_nbytes(field)))
          return false;
    }
    return true;
  }

  // Asks for the first lines of all that is compared of an environment; the hardware follows.
  void fetch(const Step& step, std::size_t env) const noexcept {
    constexpr std::size_t kLines = 4, kLine = 64;
    const std::uint64_t* chain = storage_.chains + env * stack_;
    for (std::size_t f = 0; f < schema_.num_fields; ++f) {
      const Field& field = schema_.fields[f];
      if (!field.is_framed() || part_nbytes(field) < kLargePiece) continue;
      for (std::size_t j = storage_.compares ? 0 : stack_ - 1; j < stack_; ++j)
        for (std::size_t line = 0; line < kLines; ++line) {
          fetch_line(part(step, f, env, j) + kLine * line);
          if (storage_.compares && field.kind == FieldKind::kFrames)
            fetch_line(frames_.bytes(Key::slot(chain[j])) + field.offset + kLine * line);
        }
    }
  }

  // Whether next_obs starts with all frames of obs but the oldest.
  bool moves_on(const Step& step, std::size_t env) const noexcept {
    if (!storage_.compares) return true;
    for (std::size_t f = 0, next = 0; f < schema_.num_fields; ++f) {
      if (schema_.fields[f].kind != FieldKind::kFrames) continue;
      while (schema_.fields[next].kind != FieldKind::kNextFrames) ++next;
      if (std::memcmp(part(step, next, env, 0), part(step, f, env, 1),
                      (stack_ - 1) * part_nbytes(schema_.fields[f])))
        return false;
      ++next;
    }
    return true;
  }

  void store_anew(const Step& step, std::size_t env, bool of_next, std::uint64_t* keys) noexcept {
    for (std::size_t j = 0; j < stack_; ++j)
      keys[j] = j > 0 && repeats(step, env, of_next, j) ? keys[j - 1] : make(env, j, of_next);
  }

  bool repeats(const Step& step, std::size_t env, bool of_next, std::size_t j) const noexcept {
    for (std::size_t f = 0; f < schema_.num_fields; ++f) {
      const Field& field = schema_.fields[f];
      if (field.kind == (of_next ? FieldKind::kNextFrames : FieldKind::kFrames) &&
          std::memcmp(part(step, f, env, j - 1), part(step, f, env, j), part_nbytes(field)))
        return false;
    }
    return true;
  }

  // A frame to be taken, for now by its number in the batch: generation 0 names no frame.
  std::uint64_t make(std::size_t env, std::size_t position, bool of_next) noexcept {
    storage_.made[batch_.count] = {static_cast<std::uint32_t>(env),
                                   static_cast<std::uint32_t>(position), of_next};
    return Key::make(static_cast<std::uint32_t>(batch_.count++), 0);
  }
  void resolve(std::uint64_t& key) const noexcept {
    if (Key::generation(key) != 0) return;
    const Claim& claim = storage_.claims[Key::slot(key)];
    key = Key::make(claim.slot, claim.generation + 1);
  }

  ReplayTable& table_;
  const FrameRing& frames_;
  RowSchema schema_;
  std::size_t stack_;
  Storage storage_;
  FrameBatch batch_{};
};

}  // namespace drivetrain
