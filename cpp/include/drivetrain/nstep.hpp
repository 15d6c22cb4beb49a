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

#include <sched.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ctime>

#include "drivetrain/chains.hpp"
#include "drivetrain/rows.hpp"

namespace drivetrain {

class NStepWriter {
 public:
  struct OpenStep {     // a step whose window is not full yet
    double returns;     // discounted sum of the rewards so far
    double discount;    // gamma^k
    float priority;     // of the row that begins here, if the producer gives it
  };
  struct Emission {     // a finished row, not yet in the table
    const unsigned char* first;  // image of the window's first step; nullptr: the current step
    std::size_t open;            // ring position of that step
    std::uint32_t env;
    float reward;
    float discount;
    std::uint8_t terminated;
    std::uint8_t truncated;
    float priority;
  };
  struct Window {
    std::uint32_t begin;  // ring position of the oldest open step
    std::uint32_t count;
  };
  /// Storage the caller provides, sized by num_envs and num_step as said.
  struct Storage {
    Window* windows;       // [num_envs], zeroed; with the next two unused for num_step == 1 without frames
    OpenStep* open;        // [num_envs * num_step]
    unsigned char* images; // [num_envs * num_step * image_nbytes]
    Emission* emissions;   // [num_envs * num_step]
    std::uint64_t* keys;       // [num_envs * num_step * stack]: frames of the open steps; framed only
    std::uint64_t* row_keys;   // [rows_per_commit(config) * num_refs]; framed only
  };

  /// Rows of a framed table per lock hold: their keys stay within 64 KiB.
  static std::size_t rows_per_commit(const TableConfig& config) noexcept {
    const std::size_t fitting = 8192 / std::max<std::size_t>(1, config.num_refs);
    return std::min(kMaxBatch, std::max<std::size_t>(1, fitting));
  }

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
    if (num_step_ == 1) {
      for (; num_rows < num_envs_; ++num_rows) emit_step(num_rows, step);
    } else {
      for (std::size_t env = 0; env < num_envs_; ++env) num_rows += advance(env, step, num_rows);
    }
    return insert(step, num_rows);
  }

 private:
  OpenStep& open_step(std::size_t env, std::size_t age) const noexcept {
    return storage_.open[ring_index(env, age)];
  }
  std::size_t ring_index(std::size_t env, std::size_t age) const noexcept {
    return env * num_step_ + wrapped(storage_.windows[env].begin + age);
  }

  std::size_t wrapped(std::size_t position) const noexcept {  // below 2 num_step
    return position < num_step_ ? position : position - num_step_;
  }

  // A window of one step: what advance() makes of it, without windows.
  void emit_step(std::size_t env, const Step& step) noexcept {
    const bool terminated = step.terminated[env] != 0, truncated = step.truncated[env] != 0;
    storage_.emissions[env] = {nullptr,
                               env,
                               static_cast<std::uint32_t>(env),
                               static_cast<float>(step.reward(env)),
                               terminated ? 0.0f : static_cast<float>(gamma_),
                               terminated,
                               truncated,
                               step.priority ? step.priority[env] : 0.0f};
  }

  // Adds the step to the windows of one environment; returns the number of rows completed.
  std::size_t advance(std::size_t env, const Step& step, std::size_t first_row) noexcept {
    Window& window = storage_.windows[env];
    const double reward = step.reward(env);
    const bool terminated = step.terminated[env] != 0, truncated = step.truncated[env] != 0;
    open_step(env, window.count) = {0.0, 1.0, step.priority ? step.priority[env] : 0.0f};
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
          truncated,
          open.priority};
    }
    // The images of emitted steps stay untouched until the next add().
    window.begin = static_cast<std::uint32_t>(wrapped(window.begin + num_rows));
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
    float priorities[kMaxBatch];
    timespec busy_since{};
    for (std::size_t done = 0; done < num_rows;) {
      std::size_t num_claims = 0;
      const std::size_t wanted = num_rows - done < kMaxBatch ? num_rows - done : kMaxBatch;
      const Status reserved = table_.reserve(wanted, claims, &num_claims);
      if (reserved == Status::kBusy && !gave_up(busy_since)) continue;
      if (reserved != Status::kOk) return reserved;
      if (step.priority)
        for (std::size_t i = 0; i < num_claims; ++i)
          priorities[i] = storage_.emissions[done + i].priority;
      write_rows(claims, storage_.emissions + done, num_claims, step);
      const Status committed =
          table_.commit(claims, num_claims, nullptr, step.priority ? priorities : nullptr);
      if (committed != Status::kOk) return committed;
      done += num_claims;
    }
    return Status::kOk;
  }

  // As many environments at a time as their frames allow: frames and rows are reserved together
  // and published together, so that no other producer comes between a frame and its row.
  Status add_framed(const Step& step) noexcept {
    const std::size_t most = FrameChains::max_envs(table_.config(), schema_.stack);
    for (std::size_t first = 0; first < num_envs_; first += most) {
      const std::size_t num = std::min(most, num_envs_ - first);
      std::size_t num_rows = 0;
      for (std::size_t i = 0; i < num; ++i) num_rows += advance(first + i, step, num_rows);
      const Status status = insert_framed(step, first, num, num_rows);
      if (status != Status::kOk) return status;
    }
    return Status::kOk;
  }

  Status insert_framed(const Step& step, std::size_t first_env, std::size_t num_envs,
                       std::size_t num_rows) noexcept {
    Claim claims[kMaxBatch];
    float priorities[kMaxBatch];
    timespec busy_since{};
    const std::size_t most = rows_per_commit(table_.config());
    bool frames_wait = true;
    for (std::size_t done = 0; frames_wait || done < num_rows;) {
      if (frames_wait) chains_.plan(step, first_env, num_envs);
      const FrameBatch* frames = frames_wait ? &chains_.batch() : nullptr;
      std::size_t num_claims = 0;
      const Status reserved =
          table_.reserve(std::min(most, num_rows - done), claims, &num_claims, frames);
      if (reserved == Status::kGone || (reserved == Status::kBusy && !gave_up(busy_since))) continue;
      if (reserved != Status::kOk) return reserved;
      if (frames) {
        chains_.write(step, first_env, num_envs);
        for (std::size_t i = 0; i < num_envs; ++i) keep_keys(first_env + i, chains_.obs(i));
      }
      write_rows(claims, storage_.emissions + done, num_claims, step);
      for (std::size_t i = 0; i < num_claims; ++i) {
        const Emission& emission = storage_.emissions[done + i];
        priorities[i] = emission.priority;
        write_refs(claims[i].slot, emission, chains_.next(emission.env - first_env),
                   storage_.row_keys + i * table_.config().num_refs);
      }
      const Status committed =
          table_.commit_framed(claims, num_claims, nullptr, step.priority ? priorities : nullptr,
                               storage_.row_keys, frames);
      if (committed != Status::kOk) return committed;
      frames_wait = false;
      done += num_claims;
    }
    return Status::kOk;
  }

  // The step that advance() added is the one before the window's end, whatever was emitted since.
  void keep_keys(std::size_t env, const std::uint64_t* obs) noexcept {
    const std::size_t newest = ring_index(env, wrapped(storage_.windows[env].count + num_step_ - 1));
    std::copy_n(obs, schema_.stack, storage_.keys + newest * schema_.stack);
  }

  void write_refs(std::uint32_t slot, const Emission& emission, const std::uint64_t* next,
                  std::uint64_t* keys) noexcept {
    std::copy_n(storage_.keys + emission.open * schema_.stack, schema_.stack, keys);
    std::copy_n(next, schema_.stack, keys + schema_.stack);
    std::atomic<std::uint32_t>* refs = table_.frames().refs(slot);
    for (std::size_t r = 0; r < 2 * schema_.stack; ++r)
      refs[r].store(Key::slot(keys[r]), std::memory_order_relaxed);
  }

  // Every slot is in flight: others will commit within microseconds, unless stopped.
  static bool gave_up(timespec& since) noexcept {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (since.tv_sec == 0) since = now;
    sched_yield();
    return now.tv_sec - since.tv_sec > 10;
  }

  // Some rows at a time, field by field, so that items of one size are moved in a row.
  void write_rows(const Claim* claims, const Emission* emissions, std::size_t count,
                  const Step& step) const noexcept {
    constexpr std::size_t kBlock = 64;
    unsigned char* rows[kBlock];
    for (std::size_t start = 0; start < count; start += kBlock) {
      const std::size_t num = count - start < kBlock ? count - start : kBlock;
      for (std::size_t i = 0; i < num; ++i) rows[i] = table_.fields(claims[start + i].slot);
      for (std::size_t f = 0; f < schema_.num_fields; ++f)
        write_field(schema_.fields[f], step.arrays[f], emissions + start, rows, num);
    }
  }

  // One field of some rows; `array` holds its items of this step, if it is in one.
  static void write_field(const Field& field, const unsigned char* array, const Emission* emissions,
                          unsigned char* const* rows, std::size_t num) noexcept {
    const std::size_t nbytes = field.nbytes;
    const auto put = [&](auto&& item) { put_items(rows, field.offset, nbytes, num, item); };
    const auto bytes = [](const void* item) { return static_cast<const unsigned char*>(item); };
    switch (field.kind) {
      case FieldKind::kFirst:
        if (emissions[0].first)  // of all rows or none: num_step decides
          return put([&](std::size_t i) { return emissions[i].first + field.offset; });
        [[fallthrough]];
      case FieldKind::kNext:
        return put([&](std::size_t i) { return array + emissions[i].env * nbytes; });
      case FieldKind::kReward:
        return put([&](std::size_t i) { return bytes(&emissions[i].reward); });
      case FieldKind::kDiscount:
        return put([&](std::size_t i) { return bytes(&emissions[i].discount); });
      case FieldKind::kTerminated:
        return put([&](std::size_t i) { return &emissions[i].terminated; });
      case FieldKind::kTruncated:
        return put([&](std::size_t i) { return &emissions[i].truncated; });
      case FieldKind::kFrames:
      case FieldKind::kNextFrames: return;
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
