// The producer's side of sequence replay: windows of T = burn-in + length steps, one row each.
//
//   episode    0 ............ period ............ 2 period ............ end
//   windows    |────── T ──────|
//                     |────── T ──────|
//                                         |── the last, padded ──|
//
// A window begins every `period` steps of an episode and never crosses its end. The episode's last
// row is the first window that reaches the end: the steps of the others open then are among its own.
// What it lacks of T steps is zero, and `mask` tells. A row keeps per step all fields, its reward,
// discount (gamma, 0 after termination) and ends; kInitial fields of the window's first step only.
// (Stored recurrent state and burn-in: Kapturowski et al. 2019, R2D2.)
//
// Observations are frames, so windows that overlap share them; other fields are copied per window.
// A priority that the producer gives is that of the window that begins at this step.
// One producer, one SequenceWriter; calls on it must not overlap. Oracle: replay/reference_sequences.py.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "drivetrain/chains.hpp"

namespace drivetrain {

class SequenceWriter {
 public:
  struct Open {              // of one environment
    std::uint64_t num_steps; // since the episode began
    std::uint64_t begin;     // of the oldest window that has no row yet
  };
  struct Emission {          // a finished row, not yet in the table
    std::uint32_t env;
    std::uint32_t num_steps;
    std::uint64_t begin;
  };
  /// Storage the caller provides, sized as said; T steps are a round of each ring.
  struct Storage {
    Open* open;               // [num_envs], zeroed
    unsigned char* images;    // [num_envs * image_nbytes]: fields as in a row, steps in rings
    unsigned char* initials;  // [num_envs * max_open * image_nbytes]; unused without kInitial fields
    float* priorities;        // [num_envs * max_open]; unused unless producers give priorities
    Emission* emissions;      // [num_envs]
    std::uint64_t* keys;      // [num_envs * num_refs]: of T steps; obs first, then next_obs
    std::uint64_t* row_keys;  // [rows_per_commit(config) * num_refs]
  };

  SequenceWriter(ReplayTable& table, const RowSchema& schema, std::size_t period, double gamma,
                 const Storage& storage, const FrameChains::Storage& chains) noexcept
      : table_(table), schema_(schema), steps_(schema.steps), period_(period), gamma_(static_cast<float>(gamma)),
        links_(links_nbytes(table.config().num_refs)), storage_(storage),
        chains_(table, schema, chains) {}

  static std::size_t image_nbytes(const TableConfig& config) noexcept {
    return config.row_stride - sizeof(RowHeader) - links_nbytes(config.num_refs);
  }
  /// Windows of one environment that are open at once.
  static std::size_t max_open(std::size_t steps, std::size_t period) noexcept {
    return (steps + period - 1) / period;
  }

  /// Takes one step of environments first_env .. first_env + num_envs and inserts the rows it completes.
  Status add(const Step& step, std::size_t first_env, std::size_t num_envs) noexcept {
    const std::size_t most = schema_.stack ? chains_.max_envs() : num_envs, end = first_env + num_envs;
    for (std::size_t first = first_env; first < end; first += most) {
      const std::size_t num = std::min(most, end - first);
      std::size_t num_rows = 0;
      for (std::size_t env = first; env < first + num; ++env) {
        keep_step(env, step);
        num_rows += advance(env, step, num_rows);
      }
      const Status status = chains_.insert(
          step, first, num, num_rows, storage_.row_keys,
          [&](std::size_t env, const std::uint64_t* obs, const std::uint64_t* next) {
            keep_keys(env, obs, next);
          },
          [&](std::size_t row, const Claim* claims, std::size_t count, float* priorities) {
            for (std::size_t i = 0; i < count; ++i) {
              const Emission& emission = storage_.emissions[row + i];
              write_row(emission, claims[i].slot,
                        storage_.row_keys + i * table_.config().num_refs);
              if (priorities)
                priorities[i] = storage_.priorities[window(emission.env, emission.begin)];
            }
          });
      for (std::size_t env = first; env < first + num; ++env)
        if (step.terminated[env] || step.truncated[env]) storage_.open[env] = {0, 0};
      if (status != Status::kOk) return status;
    }
    return Status::kOk;
  }

  /// Forgets the open windows of an environment, whose next step continues none.
  void drop_windows(std::size_t env) noexcept {
    storage_.open[env] = {0, 0};
    chains_.break_off(env);
  }

 private:
  std::size_t image_nbytes() const noexcept { return image_nbytes(table_.config()); }
  unsigned char* image(std::size_t env) const noexcept {
    return storage_.images + env * image_nbytes();
  }
  unsigned char* initials(std::size_t env, std::uint64_t begin) const noexcept {
    return storage_.initials + window(env, begin) * image_nbytes();
  }
  // Where what a window keeps of its first step lies.
  std::size_t window(std::size_t env, std::uint64_t begin) const noexcept {
    const std::size_t most = max_open(steps_, period_);
    return env * most + begin / period_ % most;
  }

  // Counts the step; returns 1 if it completes a row.
  std::size_t advance(std::size_t env, const Step& step, std::size_t row) noexcept {
    Open& open = storage_.open[env];
    ++open.num_steps;
    const bool ended = step.terminated[env] || step.truncated[env];
    const std::uint64_t num_steps = open.num_steps - open.begin;
    if (num_steps < steps_ && !ended) return 0;
    storage_.emissions[row] = {static_cast<std::uint32_t>(env),
                               static_cast<std::uint32_t>(num_steps), open.begin};
    open.begin += period_;
    return 1;
  }

  void keep_step(std::size_t env, const Step& step) noexcept {
    const std::uint64_t t = storage_.open[env].num_steps;
    const std::uint8_t terminated = step.terminated[env] != 0, truncated = step.truncated[env] != 0;
    const float reward = static_cast<float>(step.reward(env));
    const float discount = terminated ? 0.0f : gamma_;
    const std::uint8_t yes = 1;
    if (step.priority && t % period_ == 0) storage_.priorities[window(env, t)] = step.priority[env];
    for (std::size_t f = 0; f < schema_.num_fields; ++f) {
      const Field& field = schema_.fields[f];
      const std::size_t nbytes = schema_.step_nbytes(field);
      const void* source = nullptr;
      switch (field.kind) {
        case FieldKind::kInitial:
          if (t % period_ == 0)
            std::memcpy(initials(env, t) + field.offset - links_, step.arrays[f] + env * nbytes, nbytes);
          continue;
        case FieldKind::kFirst:
        case FieldKind::kNext: source = step.arrays[f] + env * nbytes; break;
        case FieldKind::kReward: source = &reward; break;
        case FieldKind::kDiscount: source = &discount; break;
        case FieldKind::kTerminated: source = &terminated; break;
        case FieldKind::kTruncated: source = &truncated; break;
        case FieldKind::kMask: source = &yes; break;
        case FieldKind::kFrames:
        case FieldKind::kNextFrames: continue;
      }
      std::memcpy(image(env) + field.offset - links_ + t % steps_ * nbytes, source, nbytes);
    }
  }

  // After advance(): of the step before the one to come.
  void keep_keys(std::size_t env, const std::uint64_t* obs, const std::uint64_t* next) noexcept {
    const std::size_t stack = schema_.stack, half = table_.config().num_refs / 2;
    const std::uint64_t t = (storage_.open[env].num_steps - 1) % steps_;
    std::uint64_t* keys = storage_.keys + env * table_.config().num_refs + t * stack;
    std::copy_n(obs, stack, keys);
    std::copy_n(next, stack, keys + half);
  }

  // Turns the rings of an environment into a row: two pieces each, and zeros behind them.
  void write_row(const Emission& row, std::uint32_t slot, std::uint64_t* keys) noexcept {
    const std::size_t at = row.begin % steps_;
    const std::size_t before_wrap = std::min<std::size_t>(row.num_steps, steps_ - at);
    unsigned char* fields = table_.fields(slot);
    for (std::size_t f = 0; f < schema_.num_fields; ++f) {
      const Field& field = schema_.fields[f];
      if (field.is_framed()) continue;
      if (field.kind == FieldKind::kInitial) {
        copy_to_shared(fields + field.offset,
                       initials(row.env, row.begin) + field.offset - links_, field.nbytes);
        continue;
      }
      const std::size_t nbytes = schema_.step_nbytes(field);
      const unsigned char* ring = image(row.env) + field.offset - links_;
      unsigned char* out = fields + field.offset;
      copy_to_shared(out, ring + at * nbytes, before_wrap * nbytes);
      copy_to_shared(out + before_wrap * nbytes, ring, (row.num_steps - before_wrap) * nbytes);
      clear_shared(out + row.num_steps * nbytes, (steps_ - row.num_steps) * nbytes);
    }
    if (schema_.stack > 0) write_refs(row, slot, keys);
  }

  void write_refs(const Emission& row, std::uint32_t slot, std::uint64_t* keys) noexcept {
    const std::size_t stack = schema_.stack, half = table_.config().num_refs / 2;
    const std::uint64_t* ring = storage_.keys + row.env * table_.config().num_refs;
    for (std::size_t j = 0; j < steps_; ++j) {
      const std::size_t at = (row.begin + j) % steps_ * stack;
      for (std::size_t s = 0; s < stack; ++s) {
        const bool is_step = j < row.num_steps;
        keys[j * stack + s] = is_step ? ring[at + s] : kNoFrameKey;
        keys[half + j * stack + s] = is_step ? ring[half + at + s] : kNoFrameKey;
      }
    }
    table_.frames().set_refs(slot, keys);
  }

  ReplayTable& table_;
  RowSchema schema_;
  std::size_t steps_, period_;
  float gamma_;
  std::size_t links_;
  Storage storage_;
  FrameChains chains_;
};

}  // namespace drivetrain
