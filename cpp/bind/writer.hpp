// A producer's writer as Python sees it: a step is a dict of arrays, one per field.
#pragma once

#include <optional>

#include "bind/table.hpp"
#include "bind/writers.hpp"
#include "drivetrain/transfer.hpp"

namespace drivetrain::bind {

class Writer {
 public:
  // period: steps between the beginnings of sequences; 0: rows are transitions.
  Writer(Table& table, std::size_t num_envs, std::size_t num_step, double gamma, std::size_t period)
      : table_(table),
        mapping_(table.hold()),
        num_envs_(static_cast<npy_intp>(num_envs)),
        arrays_(table.inputs().size()) {
    if (period) {
      sequences_.emplace(mapping_->table, table.schema(), num_envs, period, gamma);
    } else {
      transitions_.emplace(mapping_->table, table.schema(), num_envs, num_step, gamma);
    }
    auto dtype = nb::module_::import_("numpy").attr("dtype");
    reward_f64_ = {nb::str("reward"), dtype("float64"), {}};
    const RowSchema schema = table.schema();
    for (std::size_t f = 0; f < schema.num_fields; ++f) num_inputs_ += is_input(schema.fields[f]);
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
      status = sequences_ ? sequences_->add(native) : transitions_->add(native);
    }
    check(status);
    return true;
  }

 private:
  static bool is_input(const Field& field) {
    return field.kind != FieldKind::kDiscount && field.kind != FieldKind::kMask;
  }

  bool convert(nb::dict step, Step& native) {
    if (static_cast<std::size_t>(PyDict_GET_SIZE(step.ptr())) != num_inputs_) return false;
    const RowSchema schema = table_.schema();
    for (std::size_t f = 0; f < schema.num_fields; ++f) {
      const FieldKind kind = schema.fields[f].kind;
      if (!is_input(schema.fields[f])) continue;
      const ArraySpec& spec = table_.inputs()[f];
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
  std::optional<Transitions> transitions_;
  std::optional<Windows> sequences_;
  std::vector<const unsigned char*> arrays_;
  ArraySpec reward_f64_;
  ArraySpec priority_;  // without a name: the table gives new rows their priority
  std::size_t num_inputs_ = 0;
  std::atomic_flag in_use_;
};

}  // namespace drivetrain::bind
