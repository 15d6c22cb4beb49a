// drivetrain.scope._native: the recorder, spans and wrapped callables. Converts and raises.
#include "bind/scope_span.hpp"
#include "bind/scope_wrapped.hpp"

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

/// Also ends this thread's part, so that its file has the size of what is in it.
void stop() {
  thread_log.finish();
  event_log.close();
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
  m.def("stop", &stop);
  m.def("recording", [] { return event_log.recording(); });
  m.def(
      "mark_step", [] { thread_log.step(StepKind::kMarked); },
      "Say that a step of the program is over: counts are then also given per step.");
  m.attr("MUTE_ALL") = kMuteAll;
  m.def("mute", [](std::uint32_t mask) { return thread_log.mute(mask); }, "mask"_a,
        "Instruments by bit that record nothing in this thread from here on; returns those before.");
  m.def("lane", [](std::uint32_t number) { return thread_log.lane(number); }, "number"_a,
        "Go on with another stack of sites, 0 being the thread's own; returns the one before.");
}
