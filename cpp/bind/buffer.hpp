// A Python buffer held for as long as native code points into it. Used by both modules.
#pragma once

#include <nanobind/nanobind.h>

#include <stdexcept>
#include <string>

namespace drivetrain::bind {

namespace nb = nanobind;

class HeldBuffer {
 public:
  HeldBuffer(nb::handle object, bool writable) {
    if (PyObject_GetBuffer(object.ptr(), &view_, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) != 0)
      nb::raise_python_error();
  }
  ~HeldBuffer() { PyBuffer_Release(&view_); }  // needs the GIL
  HeldBuffer(const HeldBuffer&) = delete;
  HeldBuffer& operator=(const HeldBuffer&) = delete;

  unsigned char* data() const { return static_cast<unsigned char*>(view_.buf); }
  std::size_t nbytes() const { return static_cast<std::size_t>(view_.len); }

  /// The address of [offset, offset + nbytes), which must be inside and aligned.
  unsigned char* at(std::size_t offset, std::size_t nbytes_needed, std::size_t alignment) const {
    if (offset > nbytes() || nbytes() - offset < nbytes_needed)
      throw nb::value_error(("expected " + std::to_string(nbytes_needed) + " bytes at offset " +
                             std::to_string(offset) + ", got a buffer of " +
                             std::to_string(nbytes())).c_str());
    unsigned char* address = data() + offset;
    if (reinterpret_cast<std::uintptr_t>(address) % alignment != 0)
      throw nb::value_error(("offset " + std::to_string(offset) + " is not aligned to " +
                             std::to_string(alignment) + " bytes").c_str());
    return address;
  }

 private:
  Py_buffer view_;
};

}  // namespace drivetrain::bind
