// The replay table as Python sees it: NumPy arrays in and out, the GIL released in between.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "bind/arrays.hpp"
#include "bind/buffer.hpp"
#include "bind/gil.hpp"
#include "bind/samples.hpp"
#include "drivetrain/gather.hpp"
#include "drivetrain/joined_stacks.hpp"
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
    case Status::kForgotten: raise("InvalidInput", "");  // worded in Python
    case Status::kBroken: raise("SegmentError", "the lock of this replay segment is broken");
  }
}

/// A name that is mistyped would run the slowest code without a word.
inline void require_known_simd() {
  if (!knows_wanted_simd())
    raise("InvalidInput", std::string("DRIVETRAIN_SIMD: expected baseline, avx2 or avx512, got '") + wanted_simd() +
                              "'; leave it unset for the best that this CPU has");
}

/// Calls `action` with the table's lock and without the GIL; raises when the lock is broken.
template <class Action>
void with_lock(ReplayTable& table, Action&& action) {
  Status status = Status::kBroken;
  {
    GilReleased released;
    ReplayTable::Lock lock(table);
    if (lock) {
      action();
      status = Status::kOk;
    }
  }
  check(status);
}

// Everything that points into the segment; lives until close() and the last call in progress.
struct Mapping {
  Mapping(nb::handle payload, const TableConfig& config, bool is_shared)
      : buffer(payload, true),
        table(buffer.at(0, table_nbytes(config), 64), config),
        is_shared(is_shared) {}

  // A forked child has a copy of what is not shared, and none of the threads that may have locked it.
  // Call with the GIL, before each use of the table.
  void follow_fork() {
    if (is_shared || owner == OwnerTag::self()) return;
    owner = OwnerTag::self();
    table.header().mutex.forget_holder();
  }

  HeldBuffer buffer;
  ReplayTable table;
  ThreadPool threads;  // for large samples; ends before the memory goes
  bool is_shared;
  std::uint32_t owner = OwnerTag::self();  // the process that has used the table last
};

/// Calls what works on the table for longer; raises what it says.
template <class Call>
void without_gil(Mapping& held, const Call& call) {
  Status status;
  {
    GilReleased released;
    status = call(held.table);
  }
  check(status);
}

inline TableConfig read_config(nb::dict values) {
  TableConfig config{};
  config.capacity = nb::cast<std::uint64_t>(values["capacity"]);
  config.row_stride = nb::cast<std::uint64_t>(values["row_stride"]);
  config.prioritized = nb::cast<bool>(values["prioritized"]);
  config.alpha = nb::cast<double>(values["alpha"]);
  config.seed = nb::cast<std::uint64_t>(values["seed"]);
  config.initial = static_cast<InitialPriority>(nb::cast<std::uint32_t>(values["initial"]));
  config.initial_priority = nb::cast<float>(values["initial_priority"]);
  config.weights_by_buffer = nb::cast<bool>(values["weights_by_buffer"]);
  config.num_frames = nb::cast<std::uint64_t>(values["num_frames"]);
  config.frame_stride = nb::cast<std::uint64_t>(values["frame_stride"]);
  config.num_refs = nb::cast<std::uint64_t>(values["num_refs"]);
  return config;
}

class Table {
 public:
  // fields: (kind, offset, nbytes, name, dtype, shape in samples, shape of a step) each; sample_type:
  // the named tuple of samples
  Table(nb::handle payload, nb::dict config, nb::list fields, nb::object sample_type,
        bool initialize, bool is_shared)
      : config_(read_config(config)),
        stack_(nb::cast<std::size_t>(config["frame_stack"])),
        steps_(nb::cast<std::size_t>(config["steps"])),
        shift_(nb::cast<std::size_t>(config["stack_shift"])),
        mapping_(std::make_shared<Mapping>(payload, config_, is_shared)) {
    require_known_simd();
    if (initialize && !ReplayTable::initialize(mapping_->buffer.data(), config_))
      raise("SegmentError", "this system refuses robust process-shared mutexes");
    if (mapping_->table.header().version != kTableVersion)
      raise("ForeignSegment", "the replay segment was made by another version of drivetrain");
    std::vector<ArraySpec> sampled;
    for (nb::handle item : fields) {
      fields_.push_back({static_cast<FieldKind>(nb::cast<std::uint32_t>(item[0])),
                         nb::cast<std::size_t>(item[1]), nb::cast<std::size_t>(item[2])});
      sampled.push_back({nb::borrow(item[3]), nb::borrow(item[4]), to_shape(item[5])});
      inputs_.push_back({nb::borrow(item[3]), nb::borrow(item[4]), to_shape(item[6])});
    }
    for (std::size_t f = 0; shift_ && f < fields_.size(); ++f)
      if (fields_[f].kind == FieldKind::kFrames) joints_.push_back({f, 0});
    for (std::size_t f = 0, joint = 0; shift_ && f < fields_.size(); ++f)  // in the order of those of obs
      if (fields_[f].kind == FieldKind::kNextFrames) joints_[joint++].next_obs = f;
    const std::size_t most_idle_nbytes = std::max<std::size_t>(256 << 20, table_nbytes(config_) / 8);
    samples_ = std::make_unique<SampleMaker>(sample_type, sampled, most_idle_nbytes);
  }

  void close() {
    mapping_.reset();
    scratch_.reset();
    samples_->close();
  }
  std::uint64_t num_frames() const { return config_.num_frames; }
  bool closed() const { return mapping_ == nullptr; }

  std::shared_ptr<Mapping> hold() const {
    if (!mapping_) raise("Closed", "this replay is closed");
    mapping_->follow_fork();
    return mapping_;
  }
  RowSchema schema() const { return {fields_.data(), fields_.size(), stack_, steps_}; }
  const std::vector<ArraySpec>& inputs() const { return inputs_; }

  // A new sample, or `out`; None where an argument does not fit, or is not of the plainest type. join: have
  // obs and next_obs in one where it can be, without `out`.
  nb::object sample(nb::handle batch_size, nb::handle beta, nb::handle mode,
                    nb::handle num_batches, nb::handle out, nb::handle num_threads, bool join) {
    auto held = hold();
    const std::size_t batch = plain_int(batch_size, config_.capacity);
    const std::size_t batches = num_batches.is_none() ? 1 : plain_int(num_batches, kMostDraws);
    const auto threads = static_cast<unsigned>(plain_int(num_threads, ThreadPool::kMostThreads));
    const bool stratified = is_text(mode, "stratified");
    if (batch == 0 || batches == 0 || threads == 0 || batches > std::max<std::size_t>(1, kMostDraws / batch) ||
        !PyFloat_CheckExact(beta.ptr()) || !(stratified || is_text(mode, "iid")))
      return nb::none();
    const double exponent = PyFloat_AS_DOUBLE(beta.ptr());
    if (!(exponent >= 0 && exponent <= 1)) return nb::none();
    BatchShape shape{{static_cast<npy_intp>(batch), 0}, 1};
    if (!num_batches.is_none())
      shape = {{static_cast<npy_intp>(batches), static_cast<npy_intp>(batch)}, 2};

    std::unique_ptr<Scratch> scratch = std::move(scratch_);  // another thread may be using it
    if (!scratch) scratch = std::make_unique<Scratch>();
    scratch->joined = false;  // as the call before may have left it
    nb::object result = nb::borrow(out);
    join = join && !joints_.empty() && out.is_none();
    if (join)
      result = samples_->reserve(shape, joints_, shift_, scratch->addresses, scratch->runs);
    else if (out.is_none())
      result = samples_->make(shape, scratch->addresses);
    else if (!samples_->take(out, shape, scratch->addresses, scratch->arrays))
      result = nb::none();
    Status status = Status::kOk;
    if (!result.is_none()) {
      GilReleased released;
      status = fill(held->table, batch, batch * batches, stratified, exponent,
                    {held->threads, threads}, *scratch, join);
    }
    if (scratch->joined && status == Status::kOk)
      result = samples_->finish(shape, result, scratch->runs, joints_, shift_);
    else if (join && status == Status::kOk)
      result = samples_->finish(shape, result, scratch->addresses, {}, 0);
    scratch->arrays.clear();
    if (scratch->draws.size() > kMostKeptDraws) std::vector<Draw>().swap(scratch->draws);
    scratch_ = std::move(scratch);
    check(status);
    return result;
  }

  // The number of stale keys; -1: there is something wrong; below: as apply_priorities says.
  std::int64_t update(nb::handle keys, nb::handle priorities) {
    auto held = hold();
    if (!config_.prioritized || !PyArray_Check(keys.ptr()) || !PyArray_Check(priorities.ptr())) return -1;
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
    const SimdLevel simd = best_simd_level();
    GilReleased released;
    return type == NPY_FLOAT32
               ? apply_priorities(held->table, key, static_cast<const float*>(values), count, simd)
               : apply_priorities(held->table, key, static_cast<const double*>(values), count, simd);
  }

  // The rows of keys of this table into `out`, a sample of their shape: weights 1; where a key is stale, all is zero.
  // False: they do not fit each other.
  bool read(nb::handle keys, nb::handle out) {
    auto held = hold();
    auto* array = reinterpret_cast<PyArrayObject*>(keys.ptr());
    if (!PyArray_Check(keys.ptr()) || PyArray_TYPE(array) != NPY_UINT64 || !PyArray_ISCARRAY_RO(array)) return false;
    const int axes = PyArray_NDIM(array);
    if (axes < 1 || axes > 2) return false;
    const BatchShape shape{{PyArray_DIM(array, 0), axes == 2 ? PyArray_DIM(array, 1) : 0}, axes};
    Addresses addresses;
    std::vector<nb::object> arrays;
    if (!samples_->take(out, shape, addresses, arrays)) return false;
    const auto* key = static_cast<const std::uint64_t*>(PyArray_DATA(array));
    GilReleased released;
    read_rows(held->table, key, shape.count(), addresses);
    return true;
  }

  double alpha() const { return hold()->table.alpha(); }

  void set_alpha(double alpha, bool rescale) {
    without_gil(*hold(), [=](ReplayTable& table) { return table.set_alpha(alpha, rescale); });
  }

  void clear() {
    without_gil(*hold(), [](ReplayTable& table) { return table.clear(); });
  }

  nb::dict stats() {
    auto held = hold();
    nb::dict result;
    std::uint64_t size, inserted, used, next, total, next_frame, dropped;
    std::uint32_t repairs;
    float max_priority;
    int exponent;
    with_lock(held->table, [&] {
      const TableHeader& header = held->table.header();
      size = header.num_committed, inserted = header.num_inserted, used = header.num_used;
      next = header.next_slot, total = header.tree.root, repairs = header.num_repairs;
      next_frame = header.next_frame, dropped = header.num_dropped;
      max_priority = header.max_priority, exponent = header.tree.unit_exponent;
    });
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
    std::uint64_t size = 0;
    with_lock(held->table, [&] { size = held->table.header().num_committed; });
    return size;
  }

  bool is_consistent() {
    auto held = hold();
    GilReleased released;
    ReplayTable::Lock lock(held->table);
    return lock && held->table.is_consistent();
  }

  // Bytes of slabs that wait to be used again; for tests.
  std::size_t idle_nbytes() const { return samples_->idle_nbytes(); }

  int traverse(visitproc visit, void* arg) const { return samples_->traverse(visit, arg); }
  void let_go() { samples_->close(); }

 private:
  static constexpr std::size_t kMostDraws = std::size_t{1} << 31;  // per call, all batches together
  static constexpr std::size_t kMostKeptDraws = std::size_t{1} << 18;  // from one call to the next: 4 MiB

  struct Scratch {  // what a call needs besides its result
    std::vector<Draw> draws;
    Addresses addresses, runs;
    bool joined = false;  // the sample lies in `runs`
    std::vector<nb::object> arrays;  // of the caller's `out`, held meanwhile
  };

  // An exact int in 1..most; else 0.
  static std::size_t plain_int(nb::handle object, std::size_t most) {
    if (!PyLong_CheckExact(object.ptr())) return 0;
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object.ptr(), &overflow);
    return value < 1 || static_cast<std::size_t>(value) > most ? 0 : static_cast<std::size_t>(value);
  }
  static bool is_text(nb::handle object, const char* text) {
    return PyUnicode_CheckExact(object.ptr()) &&
           PyUnicode_CompareWithASCIIString(object.ptr(), text) == 0;
  }

  Status fill(ReplayTable& table, std::size_t batch, std::size_t count, bool stratified, double beta,
              const Gatherers& gatherers, Scratch& scratch, bool join) const {
    if (scratch.draws.size() < count) scratch.draws.resize(count);
    Draw* draws = scratch.draws.data();
    const SimdLevel simd = best_simd_level();
    Sampler sampler(table, simd);
    RowSchema rows = schema();
    rows.shift = join ? shift_ : 0;
    unsigned char* const* outputs = scratch.addresses.data();
    const auto sample = [&](auto&& gather) {
      return sampler.sample(count, batch, stratified ? batch : 0, draws, gather);
    };
    JoinedStacks joined(rows, scratch.runs.data(), outputs);
    const Status status = join ? sample([&](std::size_t first, std::size_t num, const Draw* drawn) {
      joined.gather(table, first, num, drawn, gatherers);
    })
                               : sample([&](std::size_t first, std::size_t num, const Draw* drawn) {
      gather_rows(rows, table, outputs, first, num, drawn, gatherers);
    });
    scratch.joined = joined.are_joined();
    if (status != Status::kOk) return status;
    auto* weights = reinterpret_cast<float*>(outputs[rows.num_fields]);
    if (config_.prioritized)
      importance_weights(draws, batch, count, beta, config_.weights_by_buffer, weights, simd);
    else
      std::fill_n(weights, count, 1.0f);
    write_keys(draws, count, reinterpret_cast<std::uint64_t*>(outputs[rows.num_fields + 1]));
    return status;
  }

  void read_rows(ReplayTable& table, const std::uint64_t* keys, std::size_t count, const Addresses& outputs) const {
    const RowSchema rows = schema();
    std::vector<Draw> draws(count);
    const Sampler sampler(table, best_simd_level());
    sampler.read(keys, count, draws.data(), [&](std::size_t first, std::size_t num, const Draw* drawn) {
      gather_rows(rows, table, outputs.data(), first, num, drawn);
    });
    auto* weights = reinterpret_cast<float*>(outputs[rows.num_fields]);
    for (std::size_t i = 0; i < count; ++i) {
      weights[i] = is_committed(draws[i].generation) ? 1.0f : 0.0f;
      for (std::size_t f = 0; f < rows.num_fields && weights[i] == 0; ++f)
        std::memset(outputs[f] + i * rows.fields[f].nbytes, 0, rows.fields[f].nbytes);
    }
    std::copy_n(keys, count, reinterpret_cast<std::uint64_t*>(outputs[rows.num_fields + 1]));
  }

  TableConfig config_;
  std::size_t stack_;  // frames per observation; 0: rows hold their observations
  std::size_t steps_;  // of a row
  std::size_t shift_;  // frames from a stack of obs to that of next_obs, as a rule; 0: they share none
  std::vector<Joint> joints_;
  std::shared_ptr<Mapping> mapping_;
  std::vector<Field> fields_;
  std::vector<ArraySpec> inputs_;  // what a step brings, by field
  std::unique_ptr<SampleMaker> samples_;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace drivetrain::bind
