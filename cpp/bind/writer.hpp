// A producer's writer as Python sees it: a step is a dict of arrays, one per field.
#pragma once

#include <optional>
#include <string>

#include "bind/table.hpp"
#include "bind/writers.hpp"
#include "drivetrain/transfer.hpp"

namespace drivetrain::bind {

class Writer {
 public:
  // period: steps between the beginnings of sequences; 0: rows are transitions. compares: see chains.hpp.
  Writer(Table& table, std::size_t num_envs, std::size_t num_step, double gamma, std::size_t period, bool compares)
      : table_(table),
        mapping_(table.hold()),
        num_envs_(static_cast<npy_intp>(num_envs)),
        arrays_(table.inputs().size()) {
    if (period) {
      sequences_.emplace(mapping_->table, table.schema(), num_envs, period, gamma, compares);
    } else {
      transitions_.emplace(mapping_->table, table.schema(), num_envs, num_step, gamma, compares);
    }
    auto dtype = nb::module_::import_("numpy").attr("dtype");
    reward_f64_ = {nb::str("reward"), dtype("float64"), {}};
    marks_ = {nb::str("where"), dtype("bool"), {}};
    const RowSchema schema = table.schema();
    for (std::size_t f = 0; f < schema.num_fields; ++f) num_inputs_ += is_input(schema.fields[f]);
    if (mapping_->table.config().initial == InitialPriority::kGiven) {
      priority_ = {nb::steal(PyUnicode_InternFromString("priority")), dtype("float32"), {}};
      ++num_inputs_;
    }
  }

  // Whether the step, a dict, fitted and was added; otherwise nothing has changed.
  bool add(nb::dict step) {
    return add_found(size_of(step), Values{step.ptr()}, nullptr);
  }

  // The same for the keywords of a call, which spares making a dict of them. Names are compared by
  // identity: those of calls and of fields are interned. Others are left to the caller's slow way.
  bool add(PyObject* const* values, PyObject* names) {
    const Py_ssize_t count = PyTuple_GET_SIZE(names);
    return add_found(static_cast<std::size_t>(count), [&](nb::handle name) -> PyObject* {
      for (Py_ssize_t i = 0; i < count; ++i)
        if (PyTuple_GET_ITEM(names, i) == name.ptr()) return values[i];
      return nullptr;
    }, nullptr);
  }

  // The same for the environments that `where`, bool[num_envs], marks, and for no others.
  bool add_some(nb::handle where, nb::dict step) {
    const bool* marks = marks_of(where);
    return add_found(size_of(step), Values{step.ptr()}, marks);
  }

  // Lets go of the memory of a closed table; not during a call, the next of which does it then.
  void close() {
    if (!table_.closed() || in_use_.test_and_set(std::memory_order_acquire)) return;
    transitions_.reset();
    sequences_.reset();
    mapping_.reset();
    in_use_.clear(std::memory_order_release);
  }

  // Forget the open windows of the environments that `where` marks.
  void drop_windows(nb::handle where) {
    const bool* marks = marks_of(where);
    const InUse in_use(*this);
    drop_marked(marks, 0);
  }

 private:
  // A call in progress: one at a time.
  class InUse {
   public:
    [[gnu::always_inline]] explicit InUse(Writer& writer) : flag_(writer.in_use_) {
      if (writer.table_.closed()) {
        writer.close();
        raise("Closed", "this replay is closed");
      }
      if (flag_.test_and_set(std::memory_order_acquire))
        raise("InvalidInput",
              "this writer is in use by another thread; give each producer a writer of its own");
    }
    ~InUse() { flag_.clear(std::memory_order_release); }
    InUse(const InUse&) = delete;
    InUse& operator=(const InUse&) = delete;

   private:
    std::atomic_flag& flag_;
  };

  static std::size_t size_of(nb::dict step) { return static_cast<std::size_t>(PyDict_GET_SIZE(step.ptr())); }
  struct Values {  // of a dict, by their names
    PyObject* dict;
    PyObject* operator()(nb::handle name) const { return PyDict_GetItemWithError(dict, name.ptr()); }
  };

  const bool* marks_of(nb::handle where) const {
    if (!fits(where.ptr(), marks_, &num_envs_, 1))
      raise("InvalidInput", "where: expected a contiguous array of Booleans, one per environment");
    return reinterpret_cast<const bool*>(data_of(where.ptr()));
  }

  // marks: of the environments that have stepped; nullptr: all have.
  template <class Find>
  bool add_found(std::size_t num_found, Find&& find, const bool* marks) {
    const InUse in_use(*this);
    mapping_->follow_fork();
    Step native{arrays_.data(), nullptr, nullptr, nullptr, nullptr};
    if (num_found != num_inputs_ || !convert(find, native)) return false;
    Status status;
    {
      GilReleased released;
      status = marks ? add_marked(native, marks) : sequences_ ? sequences_->add(native) : transitions_->add(native);
    }
    check(status);
    return true;
  }

  // Marked environments that are neighbours at once.
  [[gnu::noinline]] Status add_marked(const Step& step, const bool* marks) noexcept {
    for (std::size_t first = 0, end = 0; first < num_envs(); first = end + 1) {
      for (end = first; end < num_envs() && marks[end];) ++end;
      if (end == first) continue;
      const Status status =
          sequences_ ? sequences_->add(step, first, end - first) : transitions_->add(step, first, end - first);
      if (status == Status::kOk) continue;
      drop_marked(marks, end);
      return status;
    }
    return Status::kOk;
  }

  void drop_marked(const bool* marks, std::size_t first) noexcept {
    for (std::size_t env = first; env < num_envs(); ++env) {
      if (!marks[env]) continue;
      if (sequences_)
        sequences_->drop_windows(env);
      else
        transitions_->drop_windows(env);
    }
  }

  static bool is_input(const Field& field) {
    return field.kind != FieldKind::kDiscount && field.kind != FieldKind::kMask;
  }

  template <class Find>
  bool convert(Find&& find, Step& native) {
    const RowSchema schema = table_.schema();
    for (std::size_t f = 0; f < schema.num_fields; ++f) {
      const FieldKind kind = schema.fields[f].kind;
      if (!is_input(schema.fields[f])) continue;
      const ArraySpec& spec = table_.inputs()[f];
      PyObject* array = find(spec.name);
      if (array == nullptr) return false;
      if (!fits(array, spec, &num_envs_, 1)) {
        if (kind != FieldKind::kReward || !fits(array, reward_f64_, &num_envs_, 1)) return false;
        native.reward_f64 = reinterpret_cast<const double*>(data_of(array));
        if (!are_rewards(native.reward_f64, num_envs())) return false;
        continue;
      }
      const unsigned char* data = data_of(array);
      switch (kind) {
        case FieldKind::kReward:
          native.reward_f32 = reinterpret_cast<const float*>(data);
          if (!are_rewards(native.reward_f32, num_envs())) return false;
          break;
        case FieldKind::kTerminated: native.terminated = data; break;
        case FieldKind::kTruncated: native.truncated = data; break;
        default: arrays_[f] = data;
      }
    }
    return !priority_.name.is_valid() || convert_priority(find(priority_.name), native);
  }

  bool convert_priority(PyObject* array, Step& native) {
    if (array == nullptr || !fits(array, priority_, &num_envs_, 1)) return false;
    native.priority = reinterpret_cast<const float*>(data_of(array));
    return are_priorities(native.priority, num_envs(), best_simd_level());
  }

  std::size_t num_envs() const { return static_cast<std::size_t>(num_envs_); }

  Table& table_;  // kept alive by nanobind
  std::shared_ptr<Mapping> mapping_;
  npy_intp num_envs_;
  std::optional<Transitions> transitions_;
  std::optional<Windows> sequences_;
  std::vector<const unsigned char*> arrays_;
  ArraySpec reward_f64_, marks_;
  ArraySpec priority_;  // without a name: the table gives new rows their priority
  std::size_t num_inputs_ = 0;
  std::atomic_flag in_use_;
};

// add(**step) of a writer as a function of its own. Keywords that do not fit go to `slowly`, which
// says why or makes them fit; it must not refer to whoever keeps this function, or both live on.
inline nb::object keyword_add(nb::handle writer, nb::handle slowly, const nb::str& doc) {
  static const std::string text = std::string("add(**step)\n--\n\n") + doc.c_str();  // what `help` shows
  static PyMethodDef method = {
      "add",
      reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(
          +[](PyObject* self, PyObject* const* arguments, Py_ssize_t num_positional,
              PyObject* names) -> PyObject* {
            auto* owner = nb::inst_ptr<Writer>(nb::handle(PyTuple_GET_ITEM(self, 0)));
            try {
              if (num_positional == 0 && names && owner->add(arguments, names)) Py_RETURN_NONE;
            } catch (nb::python_error& error) {
              error.restore();
              return nullptr;
            }
            return PyObject_Vectorcall(PyTuple_GET_ITEM(self, 1), arguments,
                                       static_cast<std::size_t>(num_positional), names);
          })),
      METH_FASTCALL | METH_KEYWORDS, text.c_str()};
  const nb::tuple self = nb::make_tuple(writer, slowly);
  return nb::steal(PyCFunction_NewEx(&method, self.ptr(), nullptr));
}

}  // namespace drivetrain::bind
