// A producer's writer as Python sees it: a step is a dict of arrays, one per field.
#pragma once

#include "bind/table.hpp"
#include "drivetrain/nstep.hpp"
#include "drivetrain/transfer.hpp"

namespace drivetrain::bind {

/// The keys of frames that a writer to a framed table works with; empty for others.
struct StackStorage {
  StackStorage(const RowSchema& schema, const TableConfig& config, std::size_t num_envs,
               std::size_t num_step) {
    if (schema.stack == 0) return;
    const std::size_t planned =
        std::min(num_envs, FrameChains::max_envs(config, schema.stack)) * schema.stack;
    open.resize(num_envs * num_step * schema.stack);
    rows.resize(NStepWriter::rows_per_commit(config) * config.num_refs);
    last.resize(num_envs * schema.stack);
    for (auto* keys : {&obs, &next, &kept}) keys->resize(planned);
    made.resize(2 * planned);
    claims.resize(2 * planned);
  }
  FrameChains::Storage chains() {
    return {last.data(), obs.data(), next.data(), kept.data(), made.data(), claims.data()};
  }

  std::vector<std::uint64_t> open, rows, last, obs, next, kept;
  std::vector<FrameChains::NewFrame> made;
  std::vector<Claim> claims;
};

class Writer {
 public:
  Writer(Table& table, std::size_t num_envs, std::size_t num_step, double gamma)
      : table_(table),
        mapping_(table.hold()),
        num_envs_(static_cast<npy_intp>(num_envs)),
        windows_(num_envs),
        open_(num_envs * num_step),
        images_(num_step > 1 ? num_envs * num_step * image_nbytes() : 0),
        emissions_(num_envs * num_step),
        stacks_(table.schema(), mapping_->table.config(), num_envs, num_step),
        writer_(mapping_->table, table.schema(), num_envs, num_step, gamma,
                {windows_.data(), open_.data(), images_.data(), emissions_.data(),
                 stacks_.open.data(), stacks_.rows.data()},
                stacks_.chains()),
        arrays_(table.specs().size()) {
    auto dtype = nb::module_::import_("numpy").attr("dtype");
    reward_f64_ = {nb::str("reward"), dtype("float64"), {}};
    for (const ArraySpec& spec : table.specs())
      num_inputs_ += !is(spec, "discount");
    if (mapping_->table.config().initial == InitialPriority::kGiven) {
      priority_ = {nb::str("priority"), dtype("float32"), {}};
      ++num_inputs_;
    }
  }

  // Whether the step fitted and was added; otherwise nothing has changed.
  bool add(nb::dict step) {
    if (table_.closed()) raise("Closed", "this replay is closed");
    if (in_use_.test_and_set(std::memory_order_acquire))
      raise("InvalidInput",
            "this writer is in use by another thread; give each producer a writer of its own");
    struct Release {
      std::atomic_flag& flag;
      ~Release() { flag.clear(std::memory_order_release); }
    } release{in_use_};
    Step native{arrays_.data(), nullptr, nullptr, nullptr, nullptr};
    if (!convert(step, native)) return false;
    Status status;
    {
      nb::gil_scoped_release released;
      status = writer_.add(native);
    }
    check(status);
    return true;
  }

 private:
  std::size_t image_nbytes() const {
    return mapping_->table.config().row_stride - sizeof(RowHeader);
  }
  static bool is(const ArraySpec& spec, const char* name) {
    return PyUnicode_CompareWithASCIIString(spec.name.ptr(), name) == 0;
  }

  bool convert(nb::dict step, Step& native) {
    if (static_cast<std::size_t>(PyDict_GET_SIZE(step.ptr())) != num_inputs_) return false;
    const RowSchema schema = table_.schema();
    for (std::size_t f = 0; f < schema.num_fields; ++f) {
      const FieldKind kind = schema.fields[f].kind;
      if (kind == FieldKind::kDiscount) continue;
      const ArraySpec& spec = table_.specs()[f];
      PyObject* array = PyDict_GetItemWithError(step.ptr(), spec.name.ptr());
      if (array == nullptr) return false;
      if (!fits(array, spec, &num_envs_, 1)) {
        if (kind != FieldKind::kReward || !fits(array, reward_f64_, &num_envs_, 1)) return false;
        native.reward_f64 = reinterpret_cast<const double*>(data_of(array));
        continue;
      }
      const unsigned char* data = data_of(array);
      switch (kind) {
        case FieldKind::kReward: native.reward_f32 = reinterpret_cast<const float*>(data); break;
        case FieldKind::kTerminated: native.terminated = data; break;
        case FieldKind::kTruncated: native.truncated = data; break;
        default: arrays_[f] = data;
      }
    }
    return !priority_.name.is_valid() || convert_priority(step, native);
  }

  bool convert_priority(nb::dict step, Step& native) {
    PyObject* array = PyDict_GetItemWithError(step.ptr(), priority_.name.ptr());
    if (array == nullptr || !fits(array, priority_, &num_envs_, 1)) return false;
    native.priority = reinterpret_cast<const float*>(data_of(array));
    return are_priorities(native.priority, static_cast<std::size_t>(num_envs_));
  }

  Table& table_;  // kept alive by nanobind
  std::shared_ptr<Mapping> mapping_;
  npy_intp num_envs_;
  std::vector<NStepWriter::Window> windows_;
  std::vector<NStepWriter::OpenStep> open_;
  std::vector<unsigned char> images_;
  std::vector<NStepWriter::Emission> emissions_;
  StackStorage stacks_;
  NStepWriter writer_;
  std::vector<const unsigned char*> arrays_;
  ArraySpec reward_f64_;
  ArraySpec priority_;  // without a name: the table gives new rows their priority
  std::size_t num_inputs_ = 0;
  std::atomic_flag in_use_;
};

}  // namespace drivetrain::bind
