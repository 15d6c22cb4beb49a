// drivetrain.replay._native: a replay table and its writers, for NumPy arrays.
//
// Converts, releases the GIL, raises. Arrays that do not fit are turned down by a return value, and
// Python (replay/checks.py) says why: the common path pays nothing for good messages.
#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>

#include "bind/arrays.hpp"
#include "bind/buffer.hpp"
#include "drivetrain/nstep.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace drivetrain;
using drivetrain::bind::ArraySpec;
using drivetrain::bind::HeldBuffer;

namespace {

[[noreturn]] void raise(const char* error, const std::string& message) {
  nb::object type = nb::module_::import_("drivetrain.core.errors").attr(error);
  PyErr_SetString(type.ptr(), message.c_str());
  nb::raise_python_error();
}

void check(Status status) {
  switch (status) {
    case Status::kOk: return;
    case Status::kNotEnoughData: raise("NotEnoughData", "");  // worded in Python
    case Status::kBusy:
      raise("SegmentError",
            "waited 10 s for a free slot: every slot of the buffer is being written by another "
            "process that has stopped; end it, or use a larger capacity");
    case Status::kBroken: raise("SegmentError", "the lock of this replay segment is broken");
  }
}

// Everything that points into the segment; lives until close() and the last call in progress.
struct Mapping {
  Mapping(nb::handle payload, const TableConfig& config)
      : buffer(payload, true), table(buffer.at(0, table_nbytes(config), 64), config) {}
  HeldBuffer buffer;
  ReplayTable table;
};

TableConfig read_config(nb::dict values) {
  TableConfig config{};
  config.capacity = nb::cast<std::uint64_t>(values["capacity"]);
  config.row_stride = nb::cast<std::uint64_t>(values["row_stride"]);
  config.prioritized = nb::cast<bool>(values["prioritized"]);
  config.alpha = nb::cast<float>(values["alpha"]);
  config.seed = nb::cast<std::uint64_t>(values["seed"]);
  return config;
}

class Table {
 public:
  // fields: (kind, offset, nbytes, name, dtype, shape) each
  Table(nb::handle payload, nb::dict config, nb::list fields, bool initialize)
      : config_(read_config(config)), mapping_(std::make_shared<Mapping>(payload, config_)) {
    if (initialize && !ReplayTable::initialize(mapping_->buffer.data(), config_))
      raise("SegmentError", "this system refuses robust process-shared mutexes");
    if (mapping_->table.header().version != kTableVersion)
      raise("ForeignSegment", "the replay segment was made by another version of drivetrain");
    for (nb::handle item : fields) {
      fields_.push_back({static_cast<FieldKind>(nb::cast<std::uint32_t>(item[0])),
                         nb::cast<std::size_t>(item[1]), nb::cast<std::size_t>(item[2])});
      specs_.push_back({nb::borrow(item[3]), nb::borrow(item[4]), bind::to_shape(item[5])});
    }
    auto dtype = nb::module_::import_("numpy").attr("dtype");
    weights_spec_ = {nb::none(), dtype("float32"), {}};
    keys_spec_ = {nb::none(), dtype("uint64"), {}};
  }

  void close() { mapping_.reset(); }
  bool closed() const { return mapping_ == nullptr; }

  std::shared_ptr<Mapping> hold() const {
    if (!mapping_) raise("Closed", "this replay is closed");
    return mapping_;
  }
  RowSchema schema() const { return {fields_.data(), fields_.size()}; }
  const std::vector<ArraySpec>& specs() const { return specs_; }

  // Returns (arrays, weights, keys); `out` is None or such a tuple, checked in Python.
  nb::tuple sample(std::size_t batch, double beta, bool stratified, std::size_t num_batches,
                   nb::handle out) {
    auto held = hold();
    npy_intp leading[2] = {static_cast<npy_intp>(num_batches), static_cast<npy_intp>(batch)};
    const npy_intp* axes = num_batches ? leading : leading + 1;
    const int num_axes = num_batches ? 2 : 1;
    const std::size_t count = batch * (num_batches ? num_batches : 1);
    nb::object result = out.is_none() ? new_sample(axes, num_axes) : nb::borrow(out);
    std::vector<unsigned char*> outputs;
    for (nb::handle array : result[0]) outputs.push_back(bind::data_of(array));
    auto* weights = reinterpret_cast<float*>(bind::data_of(result[1]));
    auto* keys = reinterpret_cast<std::uint64_t*>(bind::data_of(result[2]));
    if (draws_in_use_.test_and_set(std::memory_order_acquire)) {  // another thread samples here
      std::vector<Draw> draws;
      run_sample(held->table, batch, beta, stratified, count, draws, outputs, weights, keys);
    } else {
      struct Release {
        std::atomic_flag& flag;
        ~Release() { flag.clear(std::memory_order_release); }
      } release{draws_in_use_};
      run_sample(held->table, batch, beta, stratified, count, draws_, outputs, weights, keys);
    }
    return nb::borrow<nb::tuple>(result);
  }

  // The number of stale keys; -1: arrays do not fit, -2: a key is of no row, -3: a bad priority.
  std::int64_t update(nb::handle keys, nb::handle priorities) {
    auto held = hold();
    if (!PyArray_Check(keys.ptr()) || !PyArray_Check(priorities.ptr())) return -1;
    auto* key_array = reinterpret_cast<PyArrayObject*>(keys.ptr());
    auto* priority_array = reinterpret_cast<PyArrayObject*>(priorities.ptr());
    const int type = PyArray_TYPE(priority_array);
    if (PyArray_TYPE(key_array) != NPY_UINT64 || (type != NPY_FLOAT32 && type != NPY_FLOAT64) ||
        !PyArray_ISCARRAY_RO(key_array) || !PyArray_ISCARRAY_RO(priority_array) ||
        !PyArray_SAMESHAPE(key_array, priority_array))
      return -1;
    const auto count = static_cast<std::size_t>(PyArray_SIZE(key_array));
    const auto* key = static_cast<const std::uint64_t*>(PyArray_DATA(key_array));
    const void* values = PyArray_DATA(priority_array);
    nb::gil_scoped_release released;
    return type == NPY_FLOAT32
               ? run_update(held->table, key, static_cast<const float*>(values), count)
               : run_update(held->table, key, static_cast<const double*>(values), count);
  }

  nb::dict stats() {
    auto held = hold();
    nb::dict result;
    std::uint64_t size, inserted, used, next, total;
    std::uint32_t repairs;
    float max_priority;
    int exponent;
    {
      nb::gil_scoped_release released;
      ReplayTable::Lock lock(held->table);
      const TableHeader& header = held->table.header();
      size = header.num_committed, inserted = header.num_inserted, used = header.num_used;
      next = header.next_slot, total = header.tree.root, repairs = header.num_repairs;
      max_priority = header.max_priority, exponent = header.tree.unit_exponent;
    }
    result["size"] = size;
    result["num_inserted"] = inserted;
    result["num_used"] = used;
    result["next_slot"] = next;
    result["total_units"] = total;
    result["unit_exponent"] = exponent;
    result["max_priority"] = max_priority;
    result["num_repairs"] = repairs;
    result["random_block"] =
        held->table.header().random_block.load(std::memory_order_relaxed);
    return result;
  }

  std::uint64_t size() const {
    auto held = hold();
    nb::gil_scoped_release released;
    ReplayTable::Lock lock(held->table);
    return held->table.header().num_committed;
  }

  bool is_consistent() {
    auto held = hold();
    nb::gil_scoped_release released;
    ReplayTable::Lock lock(held->table);
    return lock && held->table.is_consistent();
  }

  // Copies the committed rows of slots [first, first + count): leaves [count] and generations
  // [count] (0: no row here) and raw rows [count, row bytes]. Safe against concurrent writers.
  void export_rows(std::size_t first, nb::handle rows, nb::handle leaves, nb::handle generations) {
    auto held = hold();
    const auto count = static_cast<std::size_t>(
        PyArray_SIZE(reinterpret_cast<PyArrayObject*>(generations.ptr())));
    unsigned char* row_out = bind::data_of(rows);
    auto* leaf_out = reinterpret_cast<float*>(bind::data_of(leaves));
    auto* generation_out = reinterpret_cast<std::uint32_t*>(bind::data_of(generations));
    nb::gil_scoped_release released;
    run_export(held->table, first, count, row_out, leaf_out, generation_out);
  }

  // Appends rows as export_rows gave them, with their leaves.
  void import_rows(nb::handle rows, nb::handle leaves) {
    auto held = hold();
    const auto count = static_cast<std::size_t>(
        PyArray_SIZE(reinterpret_cast<PyArrayObject*>(leaves.ptr())));
    const unsigned char* row = bind::data_of(rows);
    const auto* leaf = reinterpret_cast<const float*>(bind::data_of(leaves));
    const std::size_t nbytes = config_.row_stride - sizeof(RowHeader);
    Claim claims[kMaxBatch];
    for (std::size_t done = 0; done < count;) {
      std::size_t num = 0;
      check(held->table.reserve(std::min(kMaxBatch, count - done), claims, &num));
      for (std::size_t i = 0; i < num; ++i)
        copy_to_shared(held->table.fields(claims[i].slot), row + (done + i) * nbytes, nbytes);
      check(held->table.commit(claims, num, leaf + done));
      done += num;
    }
  }

  void restore(float max_priority, std::uint64_t random_block, std::uint64_t num_inserted) {
    auto held = hold();
    ReplayTable::Lock lock(held->table);
    held->table.header().max_priority = max_priority;
    held->table.header().num_inserted = num_inserted;
    held->table.header().random_block.store(random_block, std::memory_order_relaxed);
  }

 private:
  nb::object new_sample(const npy_intp* axes, int num_axes) const {
    nb::list arrays;
    for (const ArraySpec& spec : specs_) arrays.append(bind::new_array(spec, axes, num_axes));
    return nb::make_tuple(arrays, bind::new_array(weights_spec_, axes, num_axes),
                          bind::new_array(keys_spec_, axes, num_axes));
  }

  void run_sample(ReplayTable& table, std::size_t batch, double beta, bool stratified,
                  std::size_t count, std::vector<Draw>& draws,
                  const std::vector<unsigned char*>& outputs, float* weights,
                  std::uint64_t* keys) const {
    Status status;
    {
      nb::gil_scoped_release released;
      if (draws.size() < count) draws.resize(count);
      Sampler sampler(table, best_simd_level());
      const RowSchema rows = schema();
      status = sampler.sample(count, batch, stratified ? batch : 0, draws.data(),
                              [&](std::size_t first, std::size_t num, const Draw* drawn) {
                                gather_rows(rows, table, outputs.data(), first, num, drawn);
                              });
      if (status == Status::kOk) {
        importance_weights(draws.data(), batch, count, static_cast<float>(beta), weights);
        for (std::size_t i = 0; i < count; ++i)
          keys[i] = Key::make(draws[i].slot, draws[i].generation);
      }
    }
    check(status);
  }

  // w_i = (N P(i))^-beta / max over the batch = (min P / P(i))^beta  (arXiv 1511.05952, 3.4)
  void importance_weights(const Draw* draws, std::size_t batch, std::size_t count, float beta,
                          float* weights) const {
    for (std::size_t start = 0; start < count; start += batch) {
      double least = draws[start].probability;
      for (std::size_t i = 0; i < batch; ++i)
        least = std::min(least, draws[start + i].probability);
      for (std::size_t i = 0; i < batch; ++i)
        weights[start + i] =
            config_.prioritized
                ? std::pow(static_cast<float>(least / draws[start + i].probability), beta)
                : 1.0f;
    }
  }

  template <class Real>
  std::int64_t run_update(ReplayTable& table, const std::uint64_t* keys, const Real* priorities,
                          std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t generation = Key::generation(keys[i]);
      if (Key::slot(keys[i]) >= config_.capacity || generation == 0 || (generation & 1)) return -2;
      if (!(priorities[i] >= 0) || !(priorities[i] <= std::numeric_limits<float>::max())) return -3;
    }
    float leaves[kMaxBatch];
    std::uint64_t num_stale = 0;
    for (std::size_t start = 0; start < count; start += kMaxBatch) {
      const std::size_t num = std::min(kMaxBatch, count - start);
      float largest = 0;
      for (std::size_t i = 0; i < num; ++i) {
        const auto priority = static_cast<float>(priorities[start + i]);
        largest = std::max(largest, priority);
        leaves[i] = table.leaf_of(priority);
      }
      if (table.update_priorities(keys + start, leaves, num, largest, &num_stale) != Status::kOk)
        return -4;
    }
    return static_cast<std::int64_t>(num_stale);
  }

  static void run_export(ReplayTable& table, std::size_t first, std::size_t count,
                         unsigned char* rows, float* leaves, std::uint32_t* generations) {
    const std::size_t nbytes = table.config().row_stride - sizeof(RowHeader);
    const bool prioritized = table.config().prioritized;
    const auto note = [&](std::size_t i) {
      const std::uint32_t generation =
          table.row(first + i).generation.load(std::memory_order_relaxed);
      generations[i] = generation & 1 ? 0 : generation;
      leaves[i] = prioritized ? table.tree().leaf(first + i) : 1.0f;
    };
    const auto copy = [&](std::size_t i) {
      copy_from_shared(rows + i * nbytes, table.fields(first + i), nbytes);
    };
    {
      ReplayTable::Lock lock(table);
      for (std::size_t i = 0; i < count; ++i) note(i);
    }
    for (std::size_t i = 0; i < count; ++i) copy(i);
    std::atomic_thread_fence(std::memory_order_acquire);
    for (std::size_t i = 0; i < count; ++i) {
      if (generations[i] == 0 ||
          table.row(first + i).generation.load(std::memory_order_relaxed) == generations[i])
        continue;
      ReplayTable::Lock lock(table);  // it changed: under the lock a whole row stays whole
      note(i);
      copy(i);
    }
  }

  TableConfig config_;
  std::shared_ptr<Mapping> mapping_;
  std::vector<Field> fields_;
  std::vector<ArraySpec> specs_;
  ArraySpec weights_spec_, keys_spec_;
  std::vector<Draw> draws_;  // guarded by draws_in_use_
  std::atomic_flag draws_in_use_;
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
        writer_(mapping_->table, table.schema(), num_envs, num_step, gamma,
                {windows_.data(), open_.data(), images_.data(), emissions_.data()}),
        arrays_(table.specs().size()) {
    auto dtype = nb::module_::import_("numpy").attr("dtype");
    reward_f32_ = {nb::str("reward"), dtype("float32"), {}};
    reward_f64_ = {nb::str("reward"), dtype("float64"), {}};
    for (const ArraySpec& spec : table.specs())
      num_inputs_ += !is(spec, "discount");
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
      if (kind == FieldKind::kReward && bind::fits(array, reward_f64_, &num_envs_, 1)) {
        native.reward_f64 = reinterpret_cast<const double*>(bind::data_of(array));
        continue;
      }
      if (!bind::fits(array, spec, &num_envs_, 1)) return false;
      const unsigned char* data = bind::data_of(array);
      switch (kind) {
        case FieldKind::kReward: native.reward_f32 = reinterpret_cast<const float*>(data); break;
        case FieldKind::kTerminated: native.terminated = data; break;
        case FieldKind::kTruncated: native.truncated = data; break;
        default: arrays_[f] = data;
      }
    }
    return true;
  }

  Table& table_;  // kept alive by nanobind
  std::shared_ptr<Mapping> mapping_;
  npy_intp num_envs_;
  std::vector<NStepWriter::Window> windows_;
  std::vector<NStepWriter::OpenStep> open_;
  std::vector<unsigned char> images_;
  std::vector<NStepWriter::Emission> emissions_;
  NStepWriter writer_;
  std::vector<const unsigned char*> arrays_;
  ArraySpec reward_f32_, reward_f64_;
  std::size_t num_inputs_ = 0;
  std::atomic_flag in_use_;
};

int import_numpy() {
  import_array1(-1);
  return 0;
}

}  // namespace

NB_MODULE(_native, m) {
  if (import_numpy() != 0) nb::raise_python_error();
  m.attr("ROW_HEADER_NBYTES") = sizeof(RowHeader);
  m.attr("EXPORT_ROWS") = kMaxBatch;
  m.def("simd_level", [] { return simd_name(best_simd_level()); });
  m.def("table_nbytes", [](nb::dict config) { return table_nbytes(read_config(config)); });
  nb::class_<Table>(m, "Table")
      .def(nb::init<nb::handle, nb::dict, nb::list, bool>(), "payload"_a, "config"_a, "fields"_a,
           "initialize"_a)
      .def("close", &Table::close)
      .def_prop_ro("closed", &Table::closed)
      .def("sample", &Table::sample, "batch_size"_a, "beta"_a, "stratified"_a, "num_batches"_a,
           "out"_a.none())
      .def("update", &Table::update, "keys"_a, "priorities"_a)
      .def("stats", &Table::stats)
      .def("size", &Table::size)
      .def("is_consistent", &Table::is_consistent)
      .def("export_rows", &Table::export_rows, "first"_a, "rows"_a, "leaves"_a, "generations"_a)
      .def("import_rows", &Table::import_rows, "rows"_a, "leaves"_a)
      .def("restore", &Table::restore, "max_priority"_a, "random_block"_a, "num_inserted"_a);
  nb::class_<Writer>(m, "Writer")
      .def(nb::init<Table&, std::size_t, std::size_t, double>(), nb::keep_alive<1, 2>(), "table"_a,
           "num_envs"_a, "num_step"_a, "gamma"_a)
      .def("add", &Writer::add, "step"_a);
}
