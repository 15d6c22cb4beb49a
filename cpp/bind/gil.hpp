// Native code without the GIL, also while the interpreter ends.
#pragma once

#include <Python.h>
#include <unistd.h>

namespace drivetrain::bind {

/// Releases the GIL for as long as it lives. Whoever wants the GIL back once the interpreter is ending, as a daemon
/// thread may, gets it no more: CPython before 3.14 ends such a thread by unwinding its stack, which would run into
/// destructors, nanobind's own guard among them, that nothing may leave, and would end the process with an abort. It
/// sleeps here instead until the process has ended, as CPython 3.14 has it.
class GilReleased {
 public:
  GilReleased() noexcept : state_(PyEval_SaveThread()) {}
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;
  ~GilReleased() {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {  // nothing else throws: pthread_exit has begun
      for (;;) ::pause();
    }
  }

 private:
  PyThreadState* state_;
};

}  // namespace drivetrain::bind
