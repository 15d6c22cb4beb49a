// NumPy arrays at the edge of native code: what is expected of one, and making new ones.
#pragma once

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <nanobind/nanobind.h>
#include <numpy/arrayobject.h>

#include <string>
#include <vector>

namespace drivetrain::bind {

namespace nb = nanobind;

/// The dtype and item shape of one field; arrays of it have leading axes before the item's.
struct ArraySpec {
  nb::object name;  // interned str
  nb::object dtype;
  std::vector<npy_intp> item_shape;

  PyArray_Descr* descr() const { return reinterpret_cast<PyArray_Descr*>(dtype.ptr()); }
};

/// Whether `object` is a C-contiguous array of this dtype and shape (leading axes, then item's).
inline bool fits(PyObject* object, const ArraySpec& spec, const npy_intp* leading,
                 int num_leading) {
  if (!PyArray_Check(object)) return false;
  auto* array = reinterpret_cast<PyArrayObject*>(object);
  const int ndim = num_leading + static_cast<int>(spec.item_shape.size());
  if (PyArray_NDIM(array) != ndim || !PyArray_CHKFLAGS(array, NPY_ARRAY_CARRAY_RO)) return false;
  if (PyArray_DESCR(array) != spec.descr() &&
      !PyArray_EquivTypes(PyArray_DESCR(array), spec.descr()))
    return false;
  const npy_intp* shape = PyArray_DIMS(array);
  for (int i = 0; i < ndim; ++i)
    if (shape[i] != (i < num_leading ? leading[i] : spec.item_shape[i - num_leading])) return false;
  return true;
}

/// A new uninitialised array [leading..., item shape...].
inline nb::object new_array(const ArraySpec& spec, const npy_intp* leading, int num_leading) {
  npy_intp shape[NPY_MAXDIMS];
  int ndim = 0;
  for (; ndim < num_leading; ++ndim) shape[ndim] = leading[ndim];
  for (npy_intp extent : spec.item_shape) shape[ndim++] = extent;
  Py_INCREF(spec.dtype.ptr());  // PyArray_NewFromDescr steals a reference
  PyObject* array = PyArray_NewFromDescr(&PyArray_Type, spec.descr(), ndim, shape, nullptr,
                                         nullptr, 0, nullptr);
  if (array == nullptr) nb::raise_python_error();
  return nb::steal(array);
}

inline unsigned char* data_of(nb::handle array) {
  return static_cast<unsigned char*>(PyArray_DATA(reinterpret_cast<PyArrayObject*>(array.ptr())));
}

inline std::vector<npy_intp> to_shape(nb::handle shape) {
  std::vector<npy_intp> result;
  for (nb::handle extent : shape) result.push_back(nb::cast<npy_intp>(extent));
  return result;
}

}  // namespace drivetrain::bind
