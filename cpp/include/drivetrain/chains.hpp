// From stacks of observations to frames: what of a step is stored already, what is new.
//
// Along an episode next_obs of one step is obs of the next, and a stack is the one before it, moved
// on by a frame. Nothing says so; it is found by comparing bytes, each step anew:
//
//   obs       equal to the last next_obs, in frames still there ──▶ those frames; else stored anew
//   next_obs  obs moved on by one frame ──▶ its frames and one new one; else stored anew
//
// Within a stack stored anew, equal neighbours are one frame (a reset fills a stack with copies). A
// row's newest frame is always new, even where its bytes are known: see frames.hpp.
//
// One producer, one FrameChains; calls on it must not overlap. Oracle: replay/reference_frames.py.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "drivetrain/rows.hpp"

namespace drivetrain {

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
  };

  /// Environments per lock hold: all of them stored anew fit into half of the ring, so that no frame
  /// of one call is taken again within it.
  static std::size_t max_envs(const TableConfig& config, std::size_t stack) noexcept {
    const auto half = static_cast<std::size_t>(config.num_frames / 2);
    return std::max<std::size_t>(1, std::min(kMaxBatch, half) / (2 * stack));
  }

  FrameChains(ReplayTable& table, const RowSchema& schema, const Storage& storage) noexcept
      : frames_(table.frames()), schema_(schema), stack_(schema.stack), storage_(storage) {}

  /// Finds out, for environments first .. first + num, what to take: batch().
  void plan(const Step& step, std::size_t first, std::size_t num) noexcept {
    batch_ = {storage_.claims, 0, storage_.kept, 0};
    for (std::size_t i = 0; i < num; ++i) {
      const std::size_t env = first + i;
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
  const FrameBatch& batch() const noexcept { return batch_; }

  /// Once the batch is reserved: turns the plan into keys, remembers the chains, writes the frames.
  void write(const Step& step, std::size_t first, std::size_t num) noexcept {
    for (std::size_t i = 0; i < num * stack_; ++i) {
      resolve(storage_.obs[i]);
      resolve(storage_.next[i]);
    }
    std::copy_n(storage_.next, num * stack_, storage_.chains + first * stack_);
    for (std::size_t n = 0; n < batch_.count; ++n) {
      const NewFrame& made = storage_.made[n];
      unsigned char* bytes = frames_.bytes(storage_.claims[n].slot);
      for (std::size_t f = 0; f < schema_.num_fields; ++f) {
        const Field& field = schema_.fields[f];
        if (field.kind == (made.of_next ? FieldKind::kNextFrames : FieldKind::kFrames))
          copy_to_shared(bytes + field.offset, part(step, f, made.env, made.position),
                         field.nbytes / stack_);
      }
    }
  }

  /// Keys of the frames of environment first + i's obs and next_obs, after write().
  const std::uint64_t* obs(std::size_t i) const noexcept { return storage_.obs + i * stack_; }
  const std::uint64_t* next(std::size_t i) const noexcept { return storage_.next + i * stack_; }

 private:
  const unsigned char* part(const Step& step, std::size_t f, std::size_t env,
                            std::size_t position) const noexcept {
    const std::size_t nbytes = schema_.fields[f].nbytes;
    return step.arrays[f] + env * nbytes + position * (nbytes / stack_);
  }

  // Whether these frames are still there and hold the bytes of obs. Somebody may be taking them
  // meanwhile; that is found under the lock, where reserve() looks at `kept`.
  bool shows(const std::uint64_t* chain, const Step& step, std::size_t env) const noexcept {
    if (chain[0] == 0 || !frames_.are_current(chain, stack_)) return false;
    for (std::size_t f = 0; f < schema_.num_fields; ++f) {
      const Field& field = schema_.fields[f];
      if (field.kind != FieldKind::kFrames) continue;
      for (std::size_t j = 0; j < stack_; ++j)
        if (!equals_shared(frames_.bytes(Key::slot(chain[j])) + field.offset, part(step, f, env, j),
                           field.nbytes / stack_))
          return false;
    }
    return true;
  }

  // Whether next_obs starts with all frames of obs but the oldest.
  bool moves_on(const Step& step, std::size_t env) const noexcept {
    for (std::size_t f = 0, next = 0; f < schema_.num_fields; ++f) {
      if (schema_.fields[f].kind != FieldKind::kFrames) continue;
      while (schema_.fields[next].kind != FieldKind::kNextFrames) ++next;
      const std::size_t nbytes = schema_.fields[f].nbytes;
      if (std::memcmp(part(step, next, env, 0), part(step, f, env, 1), nbytes - nbytes / stack_))
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
          std::memcmp(part(step, f, env, j - 1), part(step, f, env, j), field.nbytes / stack_))
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

  const FrameRing& frames_;
  RowSchema schema_;
  std::size_t stack_;
  Storage storage_;
  FrameBatch batch_{};
};

}  // namespace drivetrain
