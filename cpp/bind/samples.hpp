// Samples as Python sees them: a named tuple (data, weights, keys) over one slab.
//
//   Sample ─▶ data: dict ─▶ (dict ─▶) arrays ─▶ slab        weights, keys ─▶ slab
//
// Making these objects takes as long as drawing some fifty rows. The latest small samples are
// therefore kept, and one that nobody else holds any more, not even one array of it, is filled
// again. A large sample is made anew each time, on a slab that waited for it.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "bind/arrays.hpp"
#include "bind/slabs.hpp"

namespace drivetrain::bind {

/// The leading axes of a sample: [batch], or [num_batches, batch].
struct BatchShape {
  npy_intp axes[2];
  int num_axes;

  std::size_t count() const {
    return static_cast<std::size_t>(num_axes == 2 ? axes[0] * axes[1] : axes[0]);
  }
  bool operator==(const BatchShape& other) const {
    return num_axes == other.num_axes && axes[0] == other.axes[0] &&
           (num_axes == 1 || axes[1] == other.axes[1]);
  }
};

/// Where the arrays of a sample begin: the fields in their order, then weights, then keys.
using Addresses = std::vector<unsigned char*>;

/// Two arrays of a sample, by number, whose stacks can be views of one run of frames.
struct Joint {
  std::size_t obs, next_obs;
};

/// Makes and recycles the samples of one replay. Its calls never overlap: the GIL sees to it.
class SampleMaker {
 public:
  /// `type`: the named tuple; at most `most_idle_nbytes` of slabs wait to be used again.
  SampleMaker(nb::object type, const std::vector<ArraySpec>& fields, std::size_t most_idle_nbytes)
      : type_(std::move(type)), pool_(std::make_shared<SlabPool>(most_idle_nbytes)) {
    for (const ArraySpec& field : fields) arrays_.push_back({field, keys_of(field.name)});
    auto dtype = nb::module_::import_("numpy").attr("dtype");
    arrays_.push_back({{nb::none(), dtype("float32"), {}}, {}});
    arrays_.push_back({{nb::none(), dtype("uint64"), {}}, {}});
  }

  /// A sample that nobody else holds, its arrays not initialised.
  nb::object make(const BatchShape& shape, Addresses& addresses) {
    count_made();
    std::vector<Kept> dying;  // last of all: that may run anybody's code
    for (std::size_t i = kept_.size(); i-- > 0;) {
      Kept& kept = kept_[i];
      if (!(kept.shape == shape) || Py_REFCNT(kept.sample.ptr()) != 1) continue;
      if (is_let_go(kept)) {
        addresses = kept.addresses;
        return kept.sample;
      }
      dying.push_back(std::move(kept));  // a part of it is held, or it was changed: of no more use
      kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return make_new(shape, addresses);
  }

  /// Whether `out` is a sample of this shape to write into, each of its arrays in memory of its own; `arrays`
  /// then hold them.
  bool take(nb::handle out, const BatchShape& shape, Addresses& addresses,
            std::vector<nb::object>& arrays) const {
    if (!PyObject_TypeCheck(out.ptr(), reinterpret_cast<PyTypeObject*>(type_.ptr()))) return false;
    addresses.clear();
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      PyObject* array = at(out.ptr(), i);
      if (!array || !fits(array, arrays_[i].spec, shape.axes, shape.num_axes, NPY_ARRAY_CARRAY))
        return false;
      arrays.push_back(nb::borrow(array));
      addresses.push_back(data_of(array));
    }
    return are_apart(addresses, shape);
  }

  /// Memory for a sample whose stacks may be joined: where its arrays begin, `runs` the same with stacks
  /// in runs of `shift` frames more. Make it a sample with finish(), once it is known what it holds.
  nb::object reserve(const BatchShape& shape, const std::vector<Joint>& joints, std::size_t shift,
                     Addresses& addresses, Addresses& runs) {
    count_made();
    std::size_t nbytes = nbytes_of(shape);
    for (const Joint& joint : joints) nbytes += run_nbytes(shape, joint, shift);
    unsigned char* memory = nullptr;
    const nb::object owner = pool_->take(nbytes, &memory);
    place(memory, shape, addresses);
    memory += nbytes_of(shape);
    runs = addresses;
    for (const Joint& joint : joints) {
      runs[joint.obs] = memory;
      runs[joint.next_obs] = memory + shift * frame_nbytes(joint);
      memory += run_nbytes(shape, joint, shift);
    }
    return owner;
  }

  /// A sample over reserved memory: with joints, obs and next_obs are views of runs at these addresses.
  nb::object finish(const BatchShape& shape, const nb::object& owner, const Addresses& addresses,
                    const std::vector<Joint>& joints, std::size_t shift) const {
    std::vector<nb::object> arrays(arrays_.size());
    for (const Joint& joint : joints) {
      ArraySpec longer = arrays_[joint.obs].spec;
      longer.item_shape[0] += static_cast<npy_intp>(shift);
      const nb::object run = array_over(addresses[joint.obs], longer, shape.axes, shape.num_axes, owner);
      arrays[joint.obs] = part_of_run(run, arrays_[joint.obs].spec, shape.num_axes, 0);
      arrays[joint.next_obs] = part_of_run(run, arrays_[joint.obs].spec, shape.num_axes, shift);
    }
    for (std::size_t i = 0; i < arrays.size(); ++i)
      if (!arrays[i].is_valid())
        arrays[i] = array_over(addresses[i], arrays_[i].spec, shape.axes, shape.num_axes, owner);
    return sample_of(arrays);
  }

  /// Frees all memory that waits. Samples that are held stay what they are.
  void close() {
    const std::vector<Kept> dying = std::move(kept_);
    pool_->close();
  }

  std::size_t idle_nbytes() const { return pool_->idle_nbytes(); }

  int traverse(visitproc visit, void* arg) const {
    for (const Kept& kept : kept_) Py_VISIT(kept.sample.ptr());
    return 0;
  }

 private:
#ifdef Py_GIL_DISABLED
  static constexpr bool kCanRecycle = false;  // a count of 1 says nothing there
#else
  static constexpr bool kCanRecycle = true;
#endif
  static constexpr std::size_t kMostKept = 3;  // the caller's last, the one before, and a spare
  static constexpr std::size_t kMostKeptNbytes = 1 << 20;
  static constexpr std::size_t kMadeBetween = 64;  // samples, before memory that waited meanwhile is freed

  struct Array {
    ArraySpec spec;
    std::vector<nb::object> keys;  // of the dicts that lead to it; none for weights and keys
  };
  struct Kept {
    BatchShape shape;
    nb::object sample, owner;
    Addresses addresses;
  };

  void count_made() {
    if (++num_made_ % kMadeBetween == 0) pool_->free_unused();
  }

  static std::vector<nb::object> keys_of(const nb::object& name) {
    std::vector<nb::object> keys;
    for (nb::handle key : name.attr("split")("/")) {
      PyObject* interned = key.inc_ref().ptr();
      PyUnicode_InternInPlace(&interned);
      keys.push_back(nb::steal(interned));
    }
    return keys;
  }

  // Array i of a sample, borrowed; nullptr where there is none.
  PyObject* at(PyObject* sample, std::size_t i) const {
    if (i + 2 >= arrays_.size())
      return PyTuple_GET_ITEM(sample, static_cast<Py_ssize_t>(i + 3 - arrays_.size()));
    PyObject* found = PyTuple_GET_ITEM(sample, 0);
    for (const nb::object& key : arrays_[i].keys) {
      if (!PyDict_CheckExact(found)) return nullptr;
      found = PyDict_GetItemWithError(found, key.ptr());
      if (!found) return nullptr;
    }
    return found;
  }

  nb::object make_new(const BatchShape& shape, Addresses& addresses) {
    const std::size_t nbytes = nbytes_of(shape);
    unsigned char* memory = nullptr;
    const nb::object owner = pool_->take(nbytes, &memory);
    place(memory, shape, addresses);
    const nb::object sample = finish(shape, owner, addresses, {}, 0);
    if (kCanRecycle && nbytes <= kMostKeptNbytes) keep({shape, sample, owner, addresses});
    return sample;
  }

  std::size_t nbytes_of(const BatchShape& shape) const {
    std::size_t nbytes = 0;
    for (const Array& array : arrays_) nbytes += aligned_nbytes(array.spec.nbytes() * shape.count());
    return nbytes;
  }
  // Whether no two arrays have a byte in common; those of one slab follow each other.
  bool are_apart(const Addresses& addresses, const BatchShape& shape) const {
    const auto end = [&](std::size_t i) { return addresses[i] + arrays_[i].spec.nbytes() * shape.count(); };
    bool in_order = true;
    for (std::size_t i = 1; i < addresses.size(); ++i) in_order &= end(i - 1) <= addresses[i];
    if (in_order) return true;
    for (std::size_t i = 1; i < addresses.size(); ++i)
      for (std::size_t k = 0; k < i; ++k)
        if (std::max(addresses[i], addresses[k]) < std::min(end(i), end(k))) return false;
    return true;
  }
  std::size_t frame_nbytes(const Joint& joint) const {
    const ArraySpec& spec = arrays_[joint.obs].spec;
    return spec.nbytes() / static_cast<std::size_t>(spec.item_shape[0]);
  }
  std::size_t run_nbytes(const BatchShape& shape, const Joint& joint, std::size_t shift) const {
    return aligned_nbytes((arrays_[joint.obs].spec.nbytes() + shift * frame_nbytes(joint)) * shape.count());
  }
  void place(unsigned char* memory, const BatchShape& shape, Addresses& addresses) const {
    addresses.clear();
    for (const Array& array : arrays_) {
      addresses.push_back(memory);
      memory += aligned_nbytes(array.spec.nbytes() * shape.count());
    }
  }

  // A sample of these arrays: the fields, weights, keys.
  nb::object sample_of(const std::vector<nb::object>& arrays) const {
    auto* type = reinterpret_cast<PyTypeObject*>(type_.ptr());
    const nb::object sample = nb::steal(type->tp_alloc(type, 3));
    if (!sample.is_valid()) nb::raise_python_error();
    nb::dict data;
    PyTuple_SET_ITEM(sample.ptr(), 0, data.inc_ref().ptr());
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      if (arrays_[i].keys.empty())
        PyTuple_SET_ITEM(sample.ptr(), PyTuple_GET_ITEM(sample.ptr(), 1) ? 2 : 1,
                         arrays[i].inc_ref().ptr());
      else
        put(data, arrays_[i].keys, arrays[i]);
    }
    return sample;
  }

  static void put(nb::handle data, const std::vector<nb::object>& keys, const nb::object& array) {
    PyObject* inner = data.ptr();
    for (std::size_t depth = 0; depth + 1 < keys.size(); ++depth) {
      const nb::dict group;  // unless there is one
      inner = PyDict_SetDefault(inner, keys[depth].ptr(), group.ptr());
      if (!inner) nb::raise_python_error();
    }
    if (PyDict_SetItem(inner, keys.back().ptr(), array.ptr()) != 0) nb::raise_python_error();
  }

  void keep(Kept made) {
    kept_.push_back(std::move(made));
    if (kept_.size() <= kMostKept) return;
    const Kept oldest = std::move(kept_.front());
    kept_.erase(kept_.begin());
  }  // `oldest` dies last: that may run anybody's code

  // Whether we alone hold a sample and all that it consists of, and it is as it was made. Whoever
  // holds an array, be it by a view, a memoryview or DLPack, holds a reference to it.
  bool is_let_go(const Kept& kept) const {
    PyObject* sample = kept.sample.ptr();
    std::size_t num = 0;
    return Py_REFCNT(sample) == 1 && is_let_go(PyTuple_GET_ITEM(sample, 0), 0, kept, num) &&
           num + 2 == arrays_.size() && is_let_go(PyTuple_GET_ITEM(sample, 1), kept, num) &&
           is_let_go(PyTuple_GET_ITEM(sample, 2), kept, num + 1);
  }
  // A dict whose keys are at `depth` of the paths, beginning with array `num`.
  bool is_let_go(PyObject* dict, std::size_t depth, const Kept& kept, std::size_t& num) const {
    if (Py_REFCNT(dict) != 1) return false;
    PyObject *key, *value;
    for (Py_ssize_t position = 0; PyDict_Next(dict, &position, &key, &value);) {
      if (num + 2 >= arrays_.size()) return false;
      const std::vector<nb::object>& keys = arrays_[num].keys;
      if (depth >= keys.size() || key != keys[depth].ptr()) return false;
      const bool is_last = depth + 1 == keys.size();
      if (is_last ? !is_let_go(value, kept, num++)
                  : !PyDict_CheckExact(value) || !is_let_go(value, depth + 1, kept, num))
        return false;
    }
    return true;
  }
  bool is_let_go(PyObject* array, const Kept& kept, std::size_t i) const {
    return Py_REFCNT(array) == 1 &&
           fits(array, arrays_[i].spec, kept.shape.axes, kept.shape.num_axes, NPY_ARRAY_CARRAY) &&
           data_of(array) == kept.addresses[i] && !has_weak_references(array) &&
           PyArray_BASE(reinterpret_cast<PyArrayObject*>(array)) == kept.owner.ptr();  // no view
  }

  nb::object type_;
  std::vector<Array> arrays_;  // the fields, weights, keys
  std::shared_ptr<SlabPool> pool_;
  std::vector<Kept> kept_;
  std::size_t num_made_ = 0;
};

}  // namespace drivetrain::bind
