// Which functions in Python the names of a module or class mean, as one digest.
//
// name -> file, line and qualified name of the function's code, each pair hashed, the hashes added: in no order
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <cstring>

namespace drivetrain::bind {

namespace nb = nanobind;

/// Two independent sums of 64 bits; against accidents, not against somebody who looks for equal ones.
class Mixed {
 public:
  void add(const char* text, std::size_t nbytes) {
    add(nbytes);
    for (std::size_t at = 0; at < nbytes; at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, text + at, nbytes - at < 8 ? nbytes - at : 8);
      add(word);
    }
  }
  void add(std::uint64_t word) {
    first_ = (first_ ^ word) * 0x9E3779B97F4A7C15ull;
    first_ ^= first_ >> 32;
    second_ = (second_ + word) * 0xD6E8FEB86659FD93ull;
    second_ ^= second_ >> 29;
  }
  void add_text(PyObject* text) {
    Py_ssize_t nbytes = 0;
    const char* begin = PyUnicode_AsUTF8AndSize(text, &nbytes);
    if (begin == nullptr) nb::raise_python_error();
    add(begin, static_cast<std::size_t>(nbytes));
  }
  std::uint64_t first() const { return first_; }
  std::uint64_t second() const { return second_; }

 private:
  std::uint64_t first_ = 0, second_ = 0;
};

/// The dictionary of a class.
inline nb::object own_names(nb::handle kind) {
  auto* type = reinterpret_cast<PyTypeObject*>(kind.ptr());
#if PY_VERSION_HEX >= 0x030C0000
  return nb::steal(PyType_GetDict(type));
#else
  return nb::borrow(type->tp_dict);
#endif
}

/// How many names of a dictionary, or of a class, mean functions in Python, and what they mean: 24 bytes.
inline nb::bytes functions_digest(nb::handle names) {
  const nb::object kept = PyType_Check(names.ptr()) ? own_names(names) : nb::borrow(names);
  PyObject* held = kept.ptr();
  if (held == nullptr || !PyDict_Check(held)) throw nb::type_error("expected a dict or a class");
  std::uint64_t digest[3] = {0, 0, 0};
  PyObject *name = nullptr, *value = nullptr;
  Py_ssize_t at = 0;
  while (PyDict_Next(held, &at, &name, &value)) {
    if (!PyFunction_Check(value) || !PyUnicode_Check(name)) continue;
    const auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(value));
    Mixed mixed;
    mixed.add_text(name);
    mixed.add_text(code->co_filename);
    mixed.add_text(code->co_qualname);
    mixed.add(static_cast<std::uint64_t>(code->co_firstlineno));
    digest[0] += 1;
    digest[1] += mixed.first();
    digest[2] += mixed.second();
  }
  return nb::bytes(digest, sizeof digest);
}

}  // namespace drivetrain::bind
