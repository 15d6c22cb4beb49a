// drivetrain.scope._native: the recorder, spans and wrapped callables. Converts and raises.
#include <dlfcn.h>

#include "bind/gil.hpp"
#include "bind/scope_span.hpp"
#include "bind/scope_wrapped.hpp"
#include "drivetrain/gpu_log.hpp"
#include "drivetrain/system_waits.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using drivetrain::bind::GilReleased;
using namespace drivetrain;

namespace {

/// The folder as the system has it: its name need not be text.
void start(nb::bytes folder, std::uint64_t limit_nbytes, std::uint32_t block_every, std::uint64_t process_start) {
  const int error = event_log.open(folder.c_str(), limit_nbytes, block_every, process_start);
  if (error == 0) return;
  errno = error;
  PyErr_SetFromErrnoWithFilename(PyExc_OSError, folder.c_str());
  nb::raise_python_error();
}

void start_totals(nb::bytes folder, std::uint64_t limit_nbytes, std::uint64_t process_start) {
  event_log.keeps_totals.store(true, std::memory_order_relaxed);
  start(folder, limit_nbytes, 0, process_start);
}

/// Also ends this thread's part, so that its file has the size of what is in it.
void stop() {
  {
    // CUPTI hands over what it has left, by threads of its own.
    GilReleased released;
    GpuLog::log().stop();
  }
  thread_log.finish();
  event_log.close();
  event_log.keeps_totals.store(false, std::memory_order_relaxed);
}

nb::list inside() {
  nb::list sites;
  thread_log.each_inside([&](std::uint32_t site) { sites.append(site); });
  return sites;
}

void wait_sites(std::uint32_t sleep, std::uint32_t lock, std::uint32_t ready, std::uint32_t process,
                std::uint32_t socket) {
  const auto use = [](std::uint32_t site) { return SiteUse{.site = site, .waits = true}; };
  system_waits = {use(sleep), use(lock), use(ready), use(process), use(socket)};
}

/// Of an extension module, or of the interpreter itself where the file is empty.
int record_waits_of(const char* file, const char* symbol) {
  if (*file == '\0') return record_waits(reinterpret_cast<const void*>(&PyErr_Occurred));
  void* library = ::dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return 0;
  const void* inside = ::dlsym(library, symbol);
  ::dlclose(library);  // Python keeps it loaded
  return inside == nullptr ? 0 : record_waits(inside);
}

SiteUse buffer_use;
getbufferproc buffer_of = nullptr;

int recorded_buffer(PyObject* object, Py_buffer* view, int flags) {
  thread_log.begin(buffer_use);
  const int result = buffer_of(object, view, flags);
  thread_log.end(buffer_use.site);
  return result;
}

/// NumPy, and everybody else, asks a type's own slot for the memory of an object: no method stands between. One type.
bool record_buffers(nb::handle type, std::uint32_t site) {
  if (!PyType_Check(type.ptr())) return false;
  auto* const procedures = reinterpret_cast<PyTypeObject*>(type.ptr())->tp_as_buffer;
  if (procedures == nullptr || procedures->bf_getbuffer == nullptr || buffer_of != nullptr) return false;
  buffer_use = SiteUse{.site = site, .collapses = true};
  buffer_of = procedures->bf_getbuffer;
  procedures->bf_getbuffer = &recorded_buffer;
  return true;
}

SiteUse collection_use;

/// One of gc.callbacks. Not of Python's: in a function of Python a signal would be handled that came during the
/// collection, and what its handler raises, as Ctrl-C does, be lost there.
void watch_collection(const char* stage, nb::handle) {
  std::strcmp(stage, "start") == 0 ? thread_log.begin(collection_use) : thread_log.end(collection_use.site);
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
  m.attr("Unbound") = nb::steal(bind::make_wrapped_type(nullptr));
  m.attr("Wrapped") = nb::steal(bind::make_wrapped_type(m.attr("Unbound").ptr()));
  m.attr("VERSION") = kEventLogVersion;
  m.attr("MOST_NESTED") = kMostNested;
  m.def("start", &start, "folder"_a, "limit_nbytes"_a, "block_every"_a, "process_start"_a = 0);
  m.def("start_totals", &start_totals, "folder"_a, "limit_nbytes"_a, "process_start"_a = 0);
  m.def("stop", &stop);
  m.def("recording", [] { return event_log.recording(); });
  m.def(
      "mark_step", [] { thread_log.step(StepKind::kMarked); },
      "Say that a step of the program is over, in the thread that takes it.\n\n"
      "Counts are then also given per step, and one of several blocks of the thread's steps is left unrecorded, to "
      "learn what recording costs (see `session`). Costs next to nothing while nothing records.");
  m.def("inside", &inside, "The sites that this thread is in, outermost first, muted or not.");
  m.def("wait_sites", &wait_sites, "sleep"_a, "lock"_a, "ready"_a, "process"_a, "socket"_a,
        "Sites of what the C library waits for; before any record_waits().");
  m.def("record_waits", &record_waits_of, "file"_a, "symbol"_a,
        "Record what an extension module waits for in the C library, or the interpreter where the file is empty; "
        "returns in how many places.");
  m.def("record_buffers", &record_buffers, "type"_a, "site"_a,
        "Record where the memory of a type's objects is asked for; false if it lends none, or another type is "
        "recorded.");
  const auto use_for_collections = [](std::uint32_t site) {
    collection_use = SiteUse{.site = site, .instrument = Instrument::kAnnotation};
  };
  m.def("collection_site", use_for_collections, "site"_a,
        "The site of garbage collections; before watch_collection() is called.");
  m.def("watch_collection", &watch_collection, "stage"_a, "info"_a, "For gc.callbacks.");
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
  m.def("current_lane", [] { return thread_log.current_lane(); });
}
