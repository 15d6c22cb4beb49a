// drivetrain.core._native: locks, waits, broadcasts and process identity for shared memory; running kernels;
// what functions names mean.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <limits>
#include <vector>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "bind/buffer.hpp"
#include "bind/functions.hpp"
#include "bind/gil.hpp"
#include "bind/tiles.hpp"
#include "drivetrain/futex.hpp"
#include "drivetrain/mutex.hpp"
#include "drivetrain/process.hpp"
#include "drivetrain/seqlock.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using drivetrain::bind::GilReleased;
using drivetrain::bind::HeldBuffer;

namespace {

constexpr std::size_t kMutexNbytes = sizeof(drivetrain::RobustMutex);

class Mutex {
 public:
  Mutex(nb::handle buffer, std::size_t offset, bool initialize) : buffer_(buffer, true) {
    void* address = buffer_.at(offset, sizeof(drivetrain::RobustMutex), 64);
    mutex_ = static_cast<drivetrain::RobustMutex*>(address);
    if (initialize && !mutex_->initialize())
      throw std::runtime_error("this system refuses robust process-shared mutexes");
  }

  bool enter() {
    enter_within(std::numeric_limits<double>::infinity());
    return died_;
  }

  // Whether it was entered: a live holder may keep it, as a process does that is stopped. Signals
  // are heeded meanwhile.
  bool enter_within(double timeout_s) {
    constexpr double kSliceS = 0.2;
    auto result = drivetrain::LockResult::kTimedOut;
    for (double left_s = timeout_s;; left_s -= kSliceS) {
      {
        GilReleased released;
        result = mutex_->lock_within(std::clamp(left_s, 0.0, kSliceS));
      }
      if (result != drivetrain::LockResult::kTimedOut) break;
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (left_s <= kSliceS) return false;
    }
    if (result == drivetrain::LockResult::kFailed)
      throw std::runtime_error("no usable mutex at this offset of the segment");
    died_ = result == drivetrain::LockResult::kOwnerDied;
    return true;
  }

  int holder() const { return mutex_->holder(); }

  // Whoever learnt of the death has repaired the data by the end of its `with` block.
  void exit() {
    if (died_) mutex_->mark_consistent();
    died_ = false;
    mutex_->unlock();
  }

 private:
  HeldBuffer buffer_;
  drivetrain::RobustMutex* mutex_;
  bool died_ = false;  // written while the lock is held
};

// What a `with` block enters for so long at most; it is told whether it has the lock.
class Within {
 public:
  Within(Mutex& mutex, double timeout_s) : mutex_(mutex), timeout_s_(timeout_s) {}
  bool enter() { return entered_ = mutex_.enter_within(timeout_s_); }
  void exit() {
    if (entered_) mutex_.exit();
    entered_ = false;
  }

 private:
  Mutex& mutex_;
  double timeout_s_;
  bool entered_ = false;
};

class Channel {
 public:
  Channel(nb::handle buffer, std::size_t offset, std::size_t payload_nbytes)
      : buffer_(buffer, true),
        payload_nbytes_(payload_nbytes),
        broadcast_(buffer_.at(offset, drivetrain::Broadcast::nbytes_for(payload_nbytes),
                              drivetrain::Broadcast::kAlignment),
                   payload_nbytes) {}

  std::uint64_t publish(nb::handle payload) {
    HeldBuffer held(payload, false);
    expect(held);
    GilReleased released;
    return broadcast_.publish(held.data());
  }
  std::uint64_t read(nb::handle out) const {
    HeldBuffer held(out, true);
    expect(held);
    GilReleased released;
    return broadcast_.read(held.data());
  }
  std::uint64_t version() const { return broadcast_.version(); }

 private:
  void expect(const HeldBuffer& held) const {
    if (held.nbytes() != payload_nbytes_)
      throw nb::value_error(("expected a payload of " + std::to_string(payload_nbytes_) +
                             " bytes, got " + std::to_string(held.nbytes())).c_str());
  }
  HeldBuffer buffer_;
  std::size_t payload_nbytes_;
  drivetrain::Broadcast broadcast_;
};

std::atomic<std::uint32_t>* word_at(const HeldBuffer& buffer, std::size_t offset) {
  return reinterpret_cast<std::atomic<std::uint32_t>*>(buffer.at(offset, 4, 4));
}

// Denormals cost 1.2x of a training run on x86 (Adam's moments): flush to zero, take as zero.
void flush_denormals() {
#if defined(__SSE__)
  _mm_setcsr(_mm_getcsr() | 0x8040);
#elif defined(__aarch64__)
  std::uint64_t control;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  __asm__ volatile("msr fpcr, %0" : : "r"(control | (1ull << 24)));
#endif
}

/// Where each buffer begins: the array of pointers that a compiled kernel takes, as bytes.
/// NumPy's own way, `array.ctypes.data`, takes a microsecond for each.
nb::bytes addresses(nb::sequence buffers) {
  std::vector<const void*> begins;
  begins.reserve(nb::len(buffers));
  for (nb::handle buffer : buffers) begins.push_back(HeldBuffer(buffer, false).data());
  return nb::bytes(begins.data(), begins.size() * sizeof(void*));
}

}  // namespace

NB_MODULE(_native, m) {
  // What a user's module holds may outlive the check: JAX keeps the classes that it registered.
  nb::set_leak_warnings(false);
  nb::class_<Mutex>(m, "Mutex")
      .def(nb::init<nb::handle, std::size_t, bool>(), "buffer"_a, "offset"_a, nb::kw_only(),
           "initialize"_a)
      .def("__enter__", &Mutex::enter)
      .def("within", [](Mutex& self, double timeout_s) { return Within(self, timeout_s); },
           "timeout_s"_a, nb::keep_alive<0, 1>())
      .def_prop_ro("holder", &Mutex::holder)
      .def("__exit__", [](Mutex& self, nb::args) { self.exit(); })
      .def_ro_static("NBYTES", &kMutexNbytes);
  nb::class_<Within>(m, "MutexWithin")
      .def("__enter__", &Within::enter)
      .def("__exit__", [](Within& self, nb::args) { self.exit(); });
  nb::class_<Channel>(m, "Broadcast")
      .def(nb::init<nb::handle, std::size_t, std::size_t>(), "buffer"_a, "offset"_a,
           "payload_nbytes"_a)
      .def_static("nbytes_for", &drivetrain::Broadcast::nbytes_for, "payload_nbytes"_a)
      .def("publish", &Channel::publish, "payload"_a)
      .def("read", &Channel::read, "out"_a)
      .def_prop_ro("version", &Channel::version);
  nb::class_<drivetrain::bind::Tiles>(m, "Tiles")
      .def(nb::init<unsigned>(), "num_threads"_a)
      .def("run", &drivetrain::bind::Tiles::run, "kernel"_a, "num_tiles"_a, "num_envs"_a,
           "num_steps"_a, "first_step"_a, "addresses"_a);
  m.def(
      "futex_wait",
      [](nb::handle buffer, std::size_t offset, std::uint32_t expected, double timeout_s) {
        HeldBuffer held(buffer, true);
        auto* word = word_at(held, offset);
        GilReleased released;
        return drivetrain::futex_wait(word, expected, timeout_s);
      },
      "buffer"_a, "offset"_a, "expected"_a, "timeout_s"_a);
  m.def(
      "futex_wake",
      [](nb::handle buffer, std::size_t offset) {
        HeldBuffer held(buffer, true);
        return drivetrain::futex_wake(word_at(held, offset));
      },
      "buffer"_a, "offset"_a);
  m.def("flush_denormals", &flush_denormals);
  m.def("addresses", &addresses, "buffers"_a);
  m.def("functions_digest", &drivetrain::bind::functions_digest, "names"_a);
#if defined(__clang__)
  m.attr("COMPILER") = "clang " __clang_version__;
#else
  m.attr("COMPILER") = "gcc " __VERSION__;
#endif
  m.def("process_start_time",
        [](std::int64_t pid) { return drivetrain::read_process_stat(pid).start_time; }, "pid"_a);
  m.def("process_is_alive", &drivetrain::process_is_alive, "pid"_a, "start_time"_a);
}
