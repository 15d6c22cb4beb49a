// NumPy arrays at the edge of native code: what is expected of one, and making new ones.
#pragma once

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <nanobind/nanobind.h>
#include <numpy/arrayobject.h>

#include <algorithm>
#include <string>
#include <vector>

namespace drivetrain::bind {

namespace nb = nanobind;

/// Loads NumPy's C interface, which a module needs before anything else here; throws what importing raised, Ctrl-C
/// too. NumPy's own macros around the same call (import_array) would print it first, as a traceback.
inline void import_numpy() {
  if (_import_array() < 0) nb::raise_python_error();
}

/// The dtype and item shape of one field; arrays of it have leading axes before the item's.
struct ArraySpec {
  nb::object name;  // interned str
  nb::object dtype;
  std::vector<npy_intp> item_shape;

  PyArray_Descr* descr() const { return reinterpret_cast<PyArray_Descr*>(dtype.ptr()); }
  /// Bytes of one item.
  std::size_t nbytes() const {
    auto nbytes = static_cast<std::size_t>(PyDataType_ELSIZE(descr()));
    for (npy_intp extent : item_shape) nbytes *= static_cast<std::size_t>(extent);
    return nbytes;
  }
};

/// Whether `object` is an array of this dtype, shape (leading axes, then item's) and `flags`.
inline bool fits(PyObject* object, const ArraySpec& spec, const npy_intp* leading, int num_leading,
                 int flags = NPY_ARRAY_CARRAY_RO) {
  if (!PyArray_Check(object)) return false;
  auto* array = reinterpret_cast<PyArrayObject*>(object);
  const int ndim = num_leading + static_cast<int>(spec.item_shape.size());
  if (PyArray_NDIM(array) != ndim || !PyArray_CHKFLAGS(array, flags)) return false;
  if (PyArray_DESCR(array) != spec.descr() &&
      !PyArray_EquivTypes(PyArray_DESCR(array), spec.descr()))
    return false;
  const npy_intp* shape = PyArray_DIMS(array);
  for (int i = 0; i < ndim; ++i)
    if (shape[i] != (i < num_leading ? leading[i] : spec.item_shape[i - num_leading])) return false;
  return true;
}

/// An array [leading..., item shape...] over memory that lives as long as `owner`.
inline nb::object array_over(unsigned char* memory, const ArraySpec& spec, const npy_intp* leading,
                             int num_leading, const nb::object& owner) {
  npy_intp shape[NPY_MAXDIMS];
  int ndim = 0;
  for (; ndim < num_leading; ++ndim) shape[ndim] = leading[ndim];
  for (npy_intp extent : spec.item_shape) shape[ndim++] = extent;
  Py_INCREF(spec.dtype.ptr());  // PyArray_NewFromDescr steals a reference
  nb::object array = nb::steal(PyArray_NewFromDescr(&PyArray_Type, spec.descr(), ndim, shape,
                                                    nullptr, memory, NPY_ARRAY_CARRAY, nullptr));
  if (!array.is_valid() || PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array.ptr()),
                                                 owner.inc_ref().ptr()) != 0)
    nb::raise_python_error();
  return array;
}

/// A view of `run`, an array like it but longer along the axis behind the leading ones, from position
/// `begin` on; nobody can write through it.
inline nb::object part_of_run(const nb::object& run, const ArraySpec& spec, int num_leading,
                              std::size_t begin) {
  auto* whole = reinterpret_cast<PyArrayObject*>(run.ptr());
  npy_intp shape[NPY_MAXDIMS];
  std::copy_n(PyArray_DIMS(whole), PyArray_NDIM(whole), shape);
  shape[num_leading] = spec.item_shape[0];
  char* data = PyArray_BYTES(whole) + static_cast<npy_intp>(begin) * PyArray_STRIDE(whole, num_leading);
  Py_INCREF(spec.dtype.ptr());  // PyArray_NewFromDescr steals a reference
  nb::object view = nb::steal(PyArray_NewFromDescr(&PyArray_Type, spec.descr(), PyArray_NDIM(whole), shape,
                                                   PyArray_STRIDES(whole), data, 0, nullptr));
  if (!view.is_valid() || PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(view.ptr()),
                                                run.inc_ref().ptr()) != 0)
    nb::raise_python_error();
  return view;
}

inline bool has_weak_references(PyObject* object) {
  const auto* bytes = reinterpret_cast<const char*>(object);
  return *reinterpret_cast<PyObject* const*>(bytes + Py_TYPE(object)->tp_weaklistoffset) != nullptr;
}

inline unsigned char* data_of(nb::handle array) {
  return static_cast<unsigned char*>(PyArray_DATA(reinterpret_cast<PyArrayObject*>(array.ptr())));
}

inline std::size_t count_of(nb::handle array) {
  return static_cast<std::size_t>(PyArray_SIZE(reinterpret_cast<PyArrayObject*>(array.ptr())));
}

inline std::vector<npy_intp> to_shape(nb::handle shape) {
  std::vector<npy_intp> result;
  for (nb::handle extent : shape) result.push_back(nb::cast<npy_intp>(extent));
  return result;
}

}  // namespace drivetrain::bind
