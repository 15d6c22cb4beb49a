// The producer's side of n-step replay: windows of steps per environment, and the rows they make.
//
// A row begins at each step. It holds the n-step return sum_k gamma^k r_k, the observation after
// its last step, and discount = gamma^n. An episode's end cuts the windows still open: each yields
// a row with the k <= n steps it has, discount gamma^k after truncation and 0 after termination.
// Windows never cross episodes. (n-step returns: Sutton & Barto 2018, section 7.1.)
//
// In a framed table an open step keeps the keys of its frames, and rows hold those (chains.hpp).
//
// One producer, one NStepWriter; calls on it must not overlap.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "drivetrain/chains.hpp"
#include "drivetrain/rows.hpp"

namespace drivetrain {

class NStepWriter {
 public:
  struct OpenStep {     // a step whose window is not full yet
    double returns;     // discounted sum of the rewards so far
    double discount;    // gamma^k
  };
  struct Emission {     // a finished row, not yet in the table
    const unsigned char* first;  // image of the window's first step; nullptr: the current step
    std::size_t open;            // ring position of that step
    std::uint32_t env;
    float reward;
    float discount;
    std::uint8_t terminated;
    std::uint8_t truncated;
  };
  struct Window {
    std::uint32_t begin;  // ring position of the oldest open step
    std::uint32_t count;
  };
  /// Storage the caller provides, sized by num_envs and num_step as said.
  struct Storage {
    Window* windows;       // [num_envs], zeroed
    OpenStep* open;        // [num_envs * num_step]
    unsigned char* images; // [num_envs * num_step * image_nbytes]; unused for num_step == 1
    Emission* emissions;   // [num_envs * num_step]
    std::uint64_t* keys;       // [num_envs * num_step * stack]: frames of the open steps; framed only
    std::uint64_t* row_keys;   // [rows_per_commit(config) * num_refs]; framed only
  };

  NStepWriter(ReplayTable& table, const RowSchema& schema, std::size_t num_envs,
              std::size_t num_step, double gamma, const Storage& storage,
              const FrameChains::Storage& chains = {}) noexcept
      : table_(table), schema_(schema), num_envs_(num_envs), num_step_(num_step), gamma_(gamma),
        image_nbytes_(table.config().row_stride - sizeof(RowHeader)), storage_(storage),
        chains_(table, schema, chains) {}

  /// Takes one step of every environment and inserts the rows it completes.
  Status add(const Step& step) noexcept {
    if (schema_.stack > 0) return add_framed(step);
    std::size_t num_rows = 0;
    for (std::size_t env = 0; env < num_envs_; ++env) num_rows += advance(env, step, num_rows);
    return insert(step, num_rows);
  }

 private:
  OpenStep& open_step(std::size_t env, std::size_t age) const noexcept {
    return storage_.open[ring_index(env, age)];
  }
  std::size_t ring_index(std::size_t env, std::size_t age) const noexcept {
    return env * num_step_ + (storage_.windows[env].begin + age) % num_step_;
  }

  // Adds the step to the windows of one environment; returns the number of rows completed.
  std::size_t advance(std::size_t env, const Step& step, std::size_t first_row) noexcept {
    Window& window = storage_.windows[env];
    const double reward = step.reward(env);
    const bool terminated = step.terminated[env] != 0, truncated = step.truncated[env] != 0;
    open_step(env, window.count) = {0.0, 1.0};
    if (num_step_ > 1) keep_image(env, window.count, step);
    ++window.count;
    for (std::size_t age = 0; age < window.count; ++age) {
      OpenStep& open = open_step(env, age);
      open.returns += open.discount * reward;
      open.discount *= gamma_;
    }
    const bool ended = terminated || truncated;
    const std::size_t num_rows = ended ? window.count : window.count == num_step_;
    for (std::size_t age = 0; age < num_rows; ++age) {
      const OpenStep& open = open_step(env, age);
      storage_.emissions[first_row + age] = {
          num_step_ > 1 ? storage_.images + ring_index(env, age) * image_nbytes_ : nullptr,
          ring_index(env, age),
          static_cast<std::uint32_t>(env),
          static_cast<float>(open.returns),
          terminated ? 0.0f : static_cast<float>(open.discount),
          terminated,
          truncated};
    }
    // The images of emitted steps stay untouched until the next add().
    window.begin = static_cast<std::uint32_t>((window.begin + num_rows) % num_step_);
    window.count -= static_cast<std::uint32_t>(num_rows);
    return num_rows;
  }

  void keep_image(std::size_t env, std::size_t age, const Step& step) noexcept {
    unsigned char* image = storage_.images + ring_index(env, age) * image_nbytes_;
    for (std::size_t f = 0; f < schema_.num_fields; ++f) {
      const Field& field = schema_.fields[f];
      if (field.kind == FieldKind::kFirst)
        std::memcpy(image + field.offset, step.arrays[f] + env * field.nbytes, field.nbytes);
    }
  }

  Status insert(const Step& step, std::size_t num_rows) noexcept {
    Claim claims[kMaxBatch];
    timespec busy_since{};
    for (std::size_t done = 0; done < num_rows;) {
      std::size_t num_claims = 0;
      const std::size_t wanted = num_rows - done < kMaxBatch ? num_rows - done : kMaxBatch;
      const Status reserved = table_.reserve(wanted, claims, &num_claims);
      if (reserved == Status::kBusy && !has_waited_too_long(busy_since)) continue;
      if (reserved != Status::kOk) return reserved;
      for (std::size_t i = 0; i < num_claims; ++i)
        write_row(table_.fields(claims[i].slot), storage_.emissions[done + i], step);
      const Status committed = table_.commit(claims, num_claims);
      if (committed != Status::kOk) return committed;
      done += num_claims;
    }
    return Status::kOk;
  }

  // As many environments at a time as their frames allow.
  Status add_framed(const Step& step) noexcept {
    const std::size_t most = chains_.max_envs();
    for (std::size_t first = 0; first < num_envs_; first += most) {
      const std::size_t num = std::min(most, num_envs_ - first);
      std::size_t num_rows = 0;
      for (std::size_t i = 0; i < num; ++i) num_rows += advance(first + i, step, num_rows);
      const Status status = chains_.insert(
          step, first, num, num_rows, storage_.row_keys,
          [&](std::size_t env, const std::uint64_t* obs, const std::uint64_t*) {
            keep_keys(env, obs);
          },
          [&](std::size_t row, std::uint32_t slot, std::uint64_t* keys) {
            const Emission& emission = storage_.emissions[row];
            write_row(table_.fields(slot), emission, step);
            std::copy_n(storage_.keys + emission.open * schema_.stack, schema_.stack, keys);
            std::copy_n(chains_.next(emission.env - first), schema_.stack, keys + schema_.stack);
            table_.frames().set_refs(slot, keys);
          });
      if (status != Status::kOk) return status;
    }
    return Status::kOk;
  }

  // The step that advance() added is the one before the window's end, whatever was emitted since.
  void keep_keys(std::size_t env, const std::uint64_t* obs) noexcept {
    const std::size_t newest = ring_index(env, storage_.windows[env].count + num_step_ - 1);
    std::copy_n(obs, schema_.stack, storage_.keys + newest * schema_.stack);
  }

  void write_row(unsigned char* row, const Emission& emission, const Step& step) const noexcept {
    for (std::size_t f = 0; f < schema_.num_fields; ++f) {
      const Field& field = schema_.fields[f];
      const void* source = nullptr;
      switch (field.kind) {
        case FieldKind::kFirst:
          source = emission.first ? emission.first + field.offset
                                  : step.arrays[f] + emission.env * field.nbytes;
          break;
        case FieldKind::kNext: source = step.arrays[f] + emission.env * field.nbytes; break;
        case FieldKind::kReward: source = &emission.reward; break;
        case FieldKind::kDiscount: source = &emission.discount; break;
        case FieldKind::kTerminated: source = &emission.terminated; break;
        case FieldKind::kTruncated: source = &emission.truncated; break;
        default: continue;  // frames, which are elsewhere; what only sequences have
      }
      copy_to_shared(row + field.offset, source, field.nbytes);
    }
  }

  ReplayTable& table_;
  RowSchema schema_;
  std::size_t num_envs_, num_step_;
  double gamma_;
  std::size_t image_nbytes_;
  Storage storage_;
  FrameChains chains_;
};

}  // namespace drivetrain
