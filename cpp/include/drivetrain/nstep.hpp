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
#include "drivetrain/large_copy.hpp"
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
    Window* windows;       // [num_envs], zeroed; with the next three unused for num_step == 1 without frames
    OpenStep* open;        // [num_envs * num_step]
    unsigned char* images; // [num_envs * num_step * image_nbytes]
    Emission* emissions;   // [num_envs * num_step]
    std::uint64_t* keys;       // [num_envs * num_step * stack]: frames of the open steps; framed only
    std::uint64_t* row_keys;   // [rows_per_commit(config) * num_refs]; framed only
  };

  NStepWriter(ReplayTable& table, const RowSchema& schema, std::size_t num_step, double gamma,
              const Storage& storage, const FrameChains::Storage& chains = {}) noexcept
      : table_(table), schema_(schema), num_step_(num_step), gamma_(gamma),
        image_nbytes_(table.config().row_stride - sizeof(RowHeader)), storage_(storage),
        chains_(table, schema, chains) {}

  /// Takes one step of environments first .. first + num and inserts the rows it completes.
  Status add(const Step& step, std::size_t first, std::size_t num) noexcept {
    if (schema_.stack > 0) return add_framed(step, first, num);
    if (num_step_ == 1) return add_whole(step, first, num);
    std::size_t num_rows = 0;
    for (std::size_t env = first; env < first + num; ++env) num_rows += advance(env, step, num_rows);
    return insert(step, first, num, num_rows);
  }

  /// Forgets the open windows of an environment, whose next step continues none.
  void drop_windows(std::size_t env) noexcept {
    storage_.windows[env].count = 0;
    chains_.break_off(env);
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

  // Windows of one step: each environment completes a row, which is its step, as it lies in the arrays.
  Status add_whole(const Step& step, std::size_t first_env, std::size_t num_envs) noexcept {
    return chains_.insert(
        step, first_env, num_envs, num_envs, nullptr,
        [](std::size_t, const std::uint64_t*, const std::uint64_t*) {},
        [&](std::size_t row, const Claim* claims, std::size_t num, float* priorities) {
          write_steps(claims, first_env + row, num, step);
          if (priorities) std::copy_n(step.priority + first_env + row, num, priorities);
        });
  }

  // Environments first .. first + count, some at a time, field by field.
  void write_steps(const Claim* claims, std::size_t first, std::size_t count,
                   const Step& step) const noexcept {
    unsigned char* rows[kRows];
    for (std::size_t start = 0; start < count; start += kRows) {
      const std::size_t num = std::min(kRows, count - start), env = first + start;
      for (std::size_t i = 0; i < num; ++i) rows[i] = table_.fields(claims[start + i].slot);
      for (std::size_t f = 0; f < schema_.num_fields; ++f)
        if (!is_large(schema_.fields[f])) write_step_field(f, step, env, rows, num);
    }
    if (table_.config().row_stride < kLargeRow) return;
    write_large_fields(claims, count, [&](std::size_t f, std::size_t i) {
      return step.arrays[f] + (first + i) * schema_.fields[f].nbytes;
    });
  }

  void write_step_field(std::size_t index, const Step& step, std::size_t env,
                        unsigned char* const* rows, std::size_t num) const noexcept {
    const Field& field = schema_.fields[index];
    switch (field.kind) {
      case FieldKind::kFirst:
      case FieldKind::kNext:
        return put_array(rows, field.offset, field.nbytes, num, step.arrays[index] + env * field.nbytes);
      case FieldKind::kReward: {  // and the discount behind it
        float pairs[2 * kRows];
        for (std::size_t i = 0; i < num; ++i) {
          pairs[2 * i] = step.reward_f32 ? step.reward_f32[env + i] : static_cast<float>(step.reward_f64[env + i]);
          pairs[2 * i + 1] = step.terminated[env + i] ? 0.0f : static_cast<float>(gamma_);
        }
        return put_array(rows, field.offset, 2 * sizeof(float), num, pairs);
      }
      case FieldKind::kTerminated: {  // and `truncated` behind it
        std::uint8_t pairs[2 * kRows];
        for (std::size_t i = 0; i < num; ++i) {
          pairs[2 * i] = step.terminated[env + i] != 0;
          pairs[2 * i + 1] = step.truncated[env + i] != 0;
        }
        return put_array(rows, field.offset, 2, num, pairs);
      }
      default: return;  // written with the one before; what only sequences have
    }
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

  // As many environments at a time as their frames allow.
  Status add_framed(const Step& step, std::size_t first_env, std::size_t num_envs) noexcept {
    const std::size_t most = chains_.max_envs(), end = first_env + num_envs;
    for (std::size_t first = first_env; first < end; first += most) {
      const std::size_t num = std::min(most, end - first);
      std::size_t num_rows = 0;
      for (std::size_t i = 0; i < num; ++i) num_rows += advance(first + i, step, num_rows);
      const Status status = insert(step, first, num, num_rows);
      if (status != Status::kOk) return status;
    }
    return Status::kOk;
  }

  Status insert(const Step& step, std::size_t first_env, std::size_t num_envs,
                std::size_t num_rows) noexcept {
    return chains_.insert(
        step, first_env, num_envs, num_rows, storage_.row_keys,
        [&](std::size_t env, const std::uint64_t* obs, const std::uint64_t*) {
          keep_keys(env, obs);
        },
        [&](std::size_t row, const Claim* claims, std::size_t num, float* priorities) {
          const Emission* emissions = storage_.emissions + row;
          write_rows(claims, emissions, num, step);
          if (priorities)
            for (std::size_t i = 0; i < num; ++i) priorities[i] = emissions[i].priority;
          if (schema_.stack == 0) return;
          for (std::size_t i = 0; i < num; ++i)
            write_refs(claims[i].slot, emissions[i], chains_.next(emissions[i].env - first_env),
                       storage_.row_keys + i * table_.config().num_refs);
        });
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
    table_.frames().set_refs(slot, keys);
  }

  // Some rows at a time, field by field, so that items of one size are moved in a row.
  void write_rows(const Claim* claims, const Emission* emissions, std::size_t count,
                  const Step& step) const noexcept {
    unsigned char* rows[kRows];
    for (std::size_t start = 0; start < count; start += kRows) {
      const std::size_t num = std::min(kRows, count - start);
      for (std::size_t i = 0; i < num; ++i) rows[i] = table_.fields(claims[start + i].slot);
      for (std::size_t f = 0; f < schema_.num_fields; ++f)
        if (!is_large(schema_.fields[f]))
          write_field(schema_.fields[f], step.arrays[f], emissions + start, rows, num);
    }
    if (table_.config().row_stride < kLargeRow) return;
    write_large_fields(claims, count, [&](std::size_t f, std::size_t i) {
      const Field& field = schema_.fields[f];
      const bool is_kept = field.kind == FieldKind::kFirst && emissions[i].first;
      return is_kept ? emissions[i].first + field.offset
                     : step.arrays[f] + emissions[i].env * field.nbytes;
    });
  }

  bool is_large(const Field& field) const noexcept {
    const bool from_user = field.kind == FieldKind::kFirst || field.kind == FieldKind::kNext;
    return from_user && field.nbytes >= kLargePiece && table_.config().row_stride >= kLargeRow;
  }

  // Past the caches: nobody reads a new row before many others. item(f, i): field f of row i.
  template <class Item>
  [[gnu::noinline]] void write_large_fields(const Claim* claims, std::size_t count,
                                            Item&& item) const noexcept {
    LargeCopies copies(true);
    for (std::size_t f = 0; f < schema_.num_fields; ++f)
      for (std::size_t i = 0; i < count && is_large(schema_.fields[f]); ++i)
        copies.add(table_.fields(claims[i].slot) + schema_.fields[f].offset, item(f, i),
                   schema_.fields[f].nbytes);
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
      default: return;  // frames, which are elsewhere; what only sequences have
    }
  }

  static constexpr std::size_t kRows = 64;  // written at a time

  ReplayTable& table_;
  RowSchema schema_;
  std::size_t num_step_;
  double gamma_;
  std::size_t image_nbytes_;
  Storage storage_;
  FrameChains chains_;
};

}  // namespace drivetrain
