// The sum tree alone, private to one process and without a lock: for measuring and for learning.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <type_traits>

#include "bind/arrays.hpp"
#include "bind/gil.hpp"
#include "drivetrain/sum_tree.hpp"

namespace drivetrain::bind {

/// The data of a contiguous one-dimensional array of this NumPy type, and its length. A non-const
/// Value asks for a writable array.
template <class Value>
Value* flat_data(nb::handle object, int type, const char* what, std::size_t* count) {
  constexpr int kFlags = std::is_const_v<Value> ? NPY_ARRAY_CARRAY_RO : NPY_ARRAY_CARRAY;
  auto* array = reinterpret_cast<PyArrayObject*>(object.ptr());
  if (!PyArray_Check(object.ptr()) || PyArray_TYPE(array) != type || PyArray_NDIM(array) != 1 ||
      !PyArray_CHKFLAGS(array, kFlags))
    throw nb::value_error((std::string("expected a contiguous one-dimensional array of ") + what +
                           "; convert it with numpy.ascontiguousarray").c_str());
  *count = static_cast<std::size_t>(PyArray_DIM(array, 0));
  return static_cast<Value*>(PyArray_DATA(array));
}

inline void expect_as_many(std::size_t expected, std::size_t got) {
  if (expected != got)
    throw nb::value_error(("expected two arrays of one length, got " + std::to_string(expected) +
                           " and " + std::to_string(got)).c_str());
}

class Tree {
 public:
  explicit Tree(std::uint64_t capacity)
      : capacity_(checked(capacity)),
        memory_(static_cast<unsigned char*>(::operator new(SumTree::nbytes_for(capacity), kLine))),
        tree_(zeroed(memory_.get(), capacity), &state_, capacity) {
    tree_.initialize(kHeadroom);
  }
  Tree(const Tree&) = delete;  // tree_ points to state_
  Tree& operator=(const Tree&) = delete;

  std::uint64_t total() const { return tree_.total(); }
  double total_priority() const {
    return std::ldexp(static_cast<double>(tree_.total()), state_.unit_exponent);
  }

  void update(nb::handle indices, nb::handle priorities) {
    std::size_t count, num_priorities;
    const auto* index = flat_data<const std::uint32_t>(indices, NPY_UINT32, "uint32", &count);
    const auto* priority = flat_data<const float>(priorities, NPY_FLOAT32, "float32", &num_priorities);
    expect_as_many(count, num_priorities);
    for (std::size_t i = 0; i < count; ++i)
      if (index[i] >= capacity_ || !(priority[i] >= 0) || std::isinf(priority[i]))
        throw nb::value_error(
            "expected indices below the capacity and finite priorities >= 0; nothing was changed");
    GilReleased released;
    for (std::size_t start = 0; start < count; start += kMaxTreeBatch)
      tree_.update(index + start, priority + start, std::min(kMaxTreeBatch, count - start));
  }

  void find(nb::handle targets, nb::handle out) const {
    std::size_t count, num_out;
    const auto* target = flat_data<const std::uint64_t>(targets, NPY_UINT64, "uint64", &count);
    auto* index = flat_data<std::uint32_t>(out, NPY_UINT32, "uint32", &num_out);
    expect_as_many(count, num_out);
    for (std::size_t i = 0; i < count; ++i)
      if (target[i] >= tree_.total()) throw nb::value_error("expected targets below the total");
    GilReleased released;
    for (std::size_t start = 0; start < count; start += kMaxTreeBatch)
      tree_.find(target + start, std::min(kMaxTreeBatch, count - start), index + start,
                 best_simd_level());
  }

 private:
  static constexpr std::align_val_t kLine{64};
  static constexpr double kHeadroom = 4096.0;  // as a replay's own tree begins
  struct Free {
    void operator()(unsigned char* memory) const { ::operator delete(memory, kLine); }
  };

  static std::uint64_t checked(std::uint64_t capacity) {
    if (capacity < 1 || capacity >= (1ull << 32))
      throw nb::value_error(("capacity: expected 1 to 2^32 - 1, got " + std::to_string(capacity)).c_str());
    return capacity;
  }
  static void* zeroed(unsigned char* memory, std::uint64_t capacity) {
    return std::memset(memory, 0, SumTree::nbytes_for(capacity));
  }

  std::uint64_t capacity_;
  std::unique_ptr<unsigned char, Free> memory_;
  TreeState state_{};
  SumTree tree_;
};

}  // namespace drivetrain::bind
