// Writers together with the memory they work on, which the headers below them do not allocate.
// Knows no Python: native tests use it too.
#pragma once

#include <algorithm>
#include <vector>

#include "drivetrain/nstep.hpp"
#include "drivetrain/sequences.hpp"

namespace drivetrain::bind {

/// The keys of frames that a writer to a framed table works with; empty for others.
struct StackStorage {
  StackStorage(const RowSchema& schema, const TableConfig& config, std::size_t num_envs, bool compares)
      : compares(compares) {
    if (schema.stack == 0) return;
    const std::size_t planned =
        std::min(num_envs, FrameChains::max_envs(config, schema.stack)) * schema.stack;
    rows.resize(FrameChains::rows_per_commit(config) * config.num_refs);
    last.resize(num_envs * schema.stack);
    for (auto* keys : {&obs, &next, &kept}) keys->resize(planned);
    made.resize(2 * planned);
    claims.resize(2 * planned);
  }
  FrameChains::Storage chains() {
    return {last.data(), obs.data(), next.data(), kept.data(), made.data(), claims.data(), compares};
  }

  bool compares;

  std::vector<std::uint64_t> rows, last, obs, next, kept;
  std::vector<FrameChains::NewFrame> made;
  std::vector<Claim> claims;
};

/// Adds a step of environments first, first + 1, ..., or drops their open windows: a step that was left half way would be
/// missing in the middle of them, or be there with the frames of another.
template <class Writer>
Status added_or_dropped(Writer& writer, const Step& step, std::size_t first, std::size_t num) noexcept {
  const Status status = writer.add(step, first, num);
  for (std::size_t env = first; status != Status::kOk && env < first + num; ++env) writer.drop_windows(env);
  return status;
}

/// A writer of transitions with what it works on.
class Transitions {
 public:
  Transitions(ReplayTable& table, const RowSchema& schema, std::size_t num_envs,
              std::size_t num_step, double gamma, bool compares = true)
      : windows_(num_envs),
        open_(num_envs * num_step),
        images_(num_step > 1 ? num_envs * num_step * (table.config().row_stride - sizeof(RowHeader))
                             : 0),
        emissions_(num_envs * num_step),
        keys_(num_envs * num_step * schema.stack),
        stacks_(schema, table.config(), num_envs, compares),
        writer_(table, schema, num_step, gamma,
                {windows_.data(), open_.data(), images_.data(), emissions_.data(), keys_.data(),
                 stacks_.rows.data()},
                stacks_.chains()) {}
  Status add(const Step& step) noexcept { return add(step, 0, windows_.size()); }
  Status add(const Step& step, std::size_t first, std::size_t num) noexcept {
    return added_or_dropped(writer_, step, first, num);
  }
  void drop_windows(std::size_t env) noexcept { writer_.drop_windows(env); }

 private:
  std::vector<NStepWriter::Window> windows_;
  std::vector<NStepWriter::OpenStep> open_;
  std::vector<unsigned char> images_;
  std::vector<NStepWriter::Emission> emissions_;
  std::vector<std::uint64_t> keys_;
  StackStorage stacks_;
  NStepWriter writer_;
};

/// A writer of sequences with what it works on.
class Windows {
 public:
  Windows(ReplayTable& table, const RowSchema& schema, std::size_t num_envs, std::size_t period,
          double gamma, bool compares = true)
      : open_(num_envs),
        images_(num_envs * SequenceWriter::image_nbytes(table.config())),
        initials_(has_initials(schema)
                      ? SequenceWriter::max_open(schema.steps, period) * images_.size()
                      : 0),
        priorities_(table.config().initial == InitialPriority::kGiven
                        ? num_envs * SequenceWriter::max_open(schema.steps, period)
                        : 0),
        emissions_(num_envs),
        keys_(num_envs * table.config().num_refs),
        stacks_(schema, table.config(), num_envs, compares),
        writer_(table, schema, period, gamma,
                {open_.data(), images_.data(), initials_.data(), priorities_.data(),
                 emissions_.data(), keys_.data(), stacks_.rows.data()},
                stacks_.chains()) {}
  Status add(const Step& step) noexcept { return add(step, 0, open_.size()); }
  Status add(const Step& step, std::size_t first, std::size_t num) noexcept {
    return added_or_dropped(writer_, step, first, num);
  }
  void drop_windows(std::size_t env) noexcept { writer_.drop_windows(env); }

 private:
  static bool has_initials(const RowSchema& schema) {
    return std::any_of(schema.fields, schema.fields + schema.num_fields,
                       [](const Field& field) { return field.kind == FieldKind::kInitial; });
  }

  std::vector<SequenceWriter::Open> open_;
  std::vector<unsigned char> images_, initials_;
  std::vector<float> priorities_;
  std::vector<SequenceWriter::Emission> emissions_;
  std::vector<std::uint64_t> keys_;
  StackStorage stacks_;
  SequenceWriter writer_;
};

}  // namespace drivetrain::bind
