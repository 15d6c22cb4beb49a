// The replay table as Python sees it: NumPy arrays in and out, the GIL released in between.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>

#include "bind/arrays.hpp"
#include "bind/buffer.hpp"
#include "drivetrain/rows.hpp"
#include "drivetrain/transfer.hpp"

namespace drivetrain::bind {

[[noreturn]] inline void raise(const char* error, const std::string& message) {
  nb::object type = nb::module_::import_("drivetrain.core.errors").attr(error);
  PyErr_SetString(type.ptr(), message.c_str());
  nb::raise_python_error();
}

inline void check(Status status) {
  switch (status) {
    case Status::kOk: return;
    case Status::kGone: return;  // writers plan anew and never hand it on
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

inline TableConfig read_config(nb::dict values) {
  TableConfig config{};
  config.capacity = nb::cast<std::uint64_t>(values["capacity"]);
  config.row_stride = nb::cast<std::uint64_t>(values["row_stride"]);
  config.prioritized = nb::cast<bool>(values["prioritized"]);
  config.alpha = nb::cast<float>(values["alpha"]);
  config.seed = nb::cast<std::uint64_t>(values["seed"]);
  config.num_frames = nb::cast<std::uint64_t>(values["num_frames"]);
  config.frame_stride = nb::cast<std::uint64_t>(values["frame_stride"]);
  config.num_refs = nb::cast<std::uint64_t>(values["num_refs"]);
  return config;
}

class Table {
 public:
  // fields: (kind, offset, nbytes, name, dtype, shape in samples, shape of a step) each
  Table(nb::handle payload, nb::dict config, nb::list fields, bool initialize)
      : config_(read_config(config)),
        stack_(nb::cast<std::size_t>(config["frame_stack"])),
        steps_(nb::cast<std::size_t>(config["steps"])),
        mapping_(std::make_shared<Mapping>(payload, config_)) {
    if (initialize && !ReplayTable::initialize(mapping_->buffer.data(), config_))
      raise("SegmentError", "this system refuses robust process-shared mutexes");
    if (mapping_->table.header().version != kTableVersion)
      raise("ForeignSegment", "the replay segment was made by another version of drivetrain");
    for (nb::handle item : fields) {
      fields_.push_back({static_cast<FieldKind>(nb::cast<std::uint32_t>(item[0])),
                         nb::cast<std::size_t>(item[1]), nb::cast<std::size_t>(item[2])});
      specs_.push_back({nb::borrow(item[3]), nb::borrow(item[4]), to_shape(item[5])});
      inputs_.push_back({nb::borrow(item[3]), nb::borrow(item[4]), to_shape(item[6])});
    }
    auto dtype = nb::module_::import_("numpy").attr("dtype");
    weights_spec_ = {nb::none(), dtype("float32"), {}};
    keys_spec_ = {nb::none(), dtype("uint64"), {}};
  }

  void close() { mapping_.reset(); }
  std::uint64_t num_frames() const { return config_.num_frames; }
  bool closed() const { return mapping_ == nullptr; }

  std::shared_ptr<Mapping> hold() const {
    if (!mapping_) raise("Closed", "this replay is closed");
    return mapping_;
  }
  RowSchema schema() const { return {fields_.data(), fields_.size(), stack_, steps_}; }
  const std::vector<ArraySpec>& inputs() const { return inputs_; }

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
    for (nb::handle array : result[0]) outputs.push_back(data_of(array));
    auto* weights = reinterpret_cast<float*>(data_of(result[1]));
    auto* keys = reinterpret_cast<std::uint64_t*>(data_of(result[2]));
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

  // The number of stale keys; -1: the arrays do not fit; below: as apply_priorities says.
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
    return static_cast<std::int64_t>(
        type == NPY_FLOAT32
            ? apply_priorities(held->table, key, static_cast<const float*>(values), count)
            : apply_priorities(held->table, key, static_cast<const double*>(values), count));
  }

  nb::dict stats() {
    auto held = hold();
    nb::dict result;
    std::uint64_t size, inserted, used, next, total, next_frame, dropped;
    std::uint32_t repairs;
    float max_priority;
    int exponent;
    {
      nb::gil_scoped_release released;
      ReplayTable::Lock lock(held->table);
      const TableHeader& header = held->table.header();
      size = header.num_committed, inserted = header.num_inserted, used = header.num_used;
      next = header.next_slot, total = header.tree.root, repairs = header.num_repairs;
      next_frame = header.next_frame, dropped = header.num_dropped;
      max_priority = header.max_priority, exponent = header.tree.unit_exponent;
    }
    result["size"] = size;
    result["num_inserted"] = inserted;
    result["num_used"] = used;
    result["next_slot"] = next;
    result["next_frame"] = next_frame;
    result["num_dropped"] = dropped;
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
    unsigned char* row_out = data_of(rows);
    auto* leaf_out = reinterpret_cast<float*>(data_of(leaves));
    auto* generation_out = reinterpret_cast<std::uint32_t*>(data_of(generations));
    nb::gil_scoped_release released;
    drivetrain::export_rows(held->table, first, count, row_out, leaf_out, generation_out);
  }

  // Appends rows as export_rows gave them, with their leaves; with the keys of their frames
  // [count, num_refs] in a framed table.
  void import_rows(nb::handle rows, nb::handle leaves, nb::handle keys) {
    auto held = hold();
    const auto count = static_cast<std::size_t>(
        PyArray_SIZE(reinterpret_cast<PyArrayObject*>(leaves.ptr())));
    const unsigned char* row = data_of(rows);
    const auto* leaf = reinterpret_cast<const float*>(data_of(leaves));
    const auto* key = keys.is_none() ? nullptr : reinterpret_cast<const std::uint64_t*>(data_of(keys));
    Status status;
    {
      nb::gil_scoped_release released;
      status = append_rows(held->table, row, leaf, count, key);
    }
    check(status);
  }

  // The generations [count] that the rows from `first` have now; what was exported before this call
  // is whole where they are the same.
  void export_generations(std::size_t first, nb::handle generations) {
    auto held = hold();
    const auto count = PyArray_SIZE(reinterpret_cast<PyArrayObject*>(generations.ptr()));
    auto* out = reinterpret_cast<std::uint32_t*>(data_of(generations));
    std::atomic_thread_fence(std::memory_order_acquire);  // earlier copies are over
    for (npy_intp i = 0; i < count; ++i)
      out[i] = held->table.row(first + static_cast<std::size_t>(i))
                   .generation.load(std::memory_order_relaxed);
  }

  // Copies frames [count, frame_stride] and their generations [count] (0: changed meanwhile).
  void export_frames(nb::handle slots, nb::handle frames, nb::handle generations) {
    auto held = hold();
    const auto count = static_cast<std::size_t>(
        PyArray_SIZE(reinterpret_cast<PyArrayObject*>(slots.ptr())));
    const auto* slot = reinterpret_cast<const std::uint32_t*>(data_of(slots));
    unsigned char* out = data_of(frames);
    auto* generation_out = reinterpret_cast<std::uint32_t*>(data_of(generations));
    nb::gil_scoped_release released;
    drivetrain::export_frames(held->table, slot, count, out, generation_out);
  }

  // Stores frames as export_frames gave them; fills in their keys [count].
  void import_frames(nb::handle frames, nb::handle keys) {
    auto held = hold();
    const auto count = static_cast<std::size_t>(
        PyArray_SIZE(reinterpret_cast<PyArrayObject*>(keys.ptr())));
    const unsigned char* data = data_of(frames);
    auto* key = reinterpret_cast<std::uint64_t*>(data_of(keys));
    Status status;
    {
      nb::gil_scoped_release released;
      status = append_frames(held->table, data, count, key);
    }
    check(status);
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
    for (const ArraySpec& spec : specs_) arrays.append(new_array(spec, axes, num_axes));
    return nb::make_tuple(arrays, new_array(weights_spec_, axes, num_axes),
                          new_array(keys_spec_, axes, num_axes));
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
        write_keys(draws.data(), count, keys);
      }
    }
    check(status);
  }

  TableConfig config_;
  std::size_t stack_;  // frames per observation; 0: rows hold their observations
  std::size_t steps_;  // of a row
  std::shared_ptr<Mapping> mapping_;
  std::vector<Field> fields_;
  std::vector<ArraySpec> specs_, inputs_;
  ArraySpec weights_spec_, keys_spec_;
  std::vector<Draw> draws_;  // guarded by draws_in_use_
  std::atomic_flag draws_in_use_;
};

}  // namespace drivetrain::bind
