// drivetrain.scope._native: the recorder, spans and wrapped callables. Converts and raises.
#include "bind/scope_span.hpp"
#include "bind/scope_wrapped.hpp"
#include "drivetrain/gpu_log.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace drivetrain;

namespace {

void start(const char* folder, std::uint64_t limit_nbytes, std::uint32_t block_every) {
  const int error = event_log.open(folder, limit_nbytes, block_every);
  if (error == 0) return;
  errno = error;
  PyErr_SetFromErrnoWithFilename(PyExc_OSError, folder);
  nb::raise_python_error();
}

void start_totals(const char* folder, std::uint64_t limit_nbytes) {
  event_log.keeps_totals.store(true, std::memory_order_relaxed);
  start(folder, limit_nbytes, 0);
}

/// Also ends this thread's part, so that its file has the size of what is in it.
void stop() {
  {
    // CUPTI hands over what it has left, by threads of its own.
    nb::gil_scoped_release released;
    GpuLog::log().stop();
  }
  thread_log.finish();
  event_log.close();
  event_log.keeps_totals.store(false, std::memory_order_relaxed);
}

SiteUse operator_use;  // written before whoever calls these is told of them

/// For a framework that tells of its operators in C++: as plain functions, for code that does not link to this.
void begin_operator() { thread_log.begin(operator_use); }
void end_operator() { thread_log.end(operator_use.site); }

nb::tuple operator_callbacks(std::uint32_t site) {
  operator_use = SiteUse{.site = site, .collapses = true};  // operators call operators
  return nb::make_tuple(reinterpret_cast<std::uintptr_t>(&begin_operator),
                        reinterpret_cast<std::uintptr_t>(&end_operator));
}

}  // namespace

NB_MODULE(_native, m) {
  m.attr("Span") = nb::steal(bind::make_span_type());
  m.attr("Nothing") = nb::steal(bind::make_nothing_type());
  m.attr("Wrapped") = nb::steal(bind::make_wrapped_type());
  m.attr("VERSION") = kEventLogVersion;
  m.attr("EVENT_NBYTES") = sizeof(Event);
  m.attr("MOST_NESTED") = kMostNested;
  m.def("start", &start, "folder"_a, "limit_nbytes"_a, "block_every"_a);
  m.def("start_totals", &start_totals, "folder"_a, "limit_nbytes"_a);
  m.def("stop", &stop);
  m.def("recording", [] { return event_log.recording(); });
  m.def(
      "mark_step", [] { thread_log.step(StepKind::kMarked); },
      "Say that a step of the program is over: counts are then also given per step.");
  m.def("operator_callbacks", &operator_callbacks, "site"_a,
        "Addresses of two functions of nothing, which enter and leave a site.");
  m.def(
      "gpu_sink", [] { return reinterpret_cast<std::uintptr_t>(&gpu_sink); },
      "Address of the functions that take records of GPUs (gpu_record.hpp).");
  m.def("gpu_is_lost", [] { return GpuLog::log().is_lost(); },
        "Whether this process was forked from one whose GPU work was being recorded.");
  m.attr("GPU_RECORD_VERSION") = kGpuRecordVersion;
  m.attr("MUTE_ALL") = kMuteAll;
  m.attr("MUTE_GPU") = kMuteGpu;
  m.def("mute", [](std::uint32_t mask) { return thread_log.mute(mask); }, "mask"_a,
        "Instruments by bit that record nothing in this thread from here on; returns those before.");
  m.def("lane", [](std::uint32_t number) { return thread_log.lane(number); }, "number"_a,
        "Go on with another stack of sites, 0 being the thread's own; returns the one before.");
}
