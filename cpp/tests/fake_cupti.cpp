// A libcupti without a GPU, made from the same headers, and as much of a CUDA driver as loads what is injected.
//
// Tests launch "kernels" by fake_*(). Records are packed into the client's buffers as CUPTI does it: each of the size
// that its newest version has, calls at once, activities when buffers are flushed and then in reverse order.
//
// Over 400 lines: each function of CUPTI that the layer calls is here once, and tests must find one library.
#include <cupti.h>
#include <dlfcn.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

#if CUPTI_API_VERSION >= 130500
using Kernel = CUpti_ActivityKernel13;
using Copy = CUpti_ActivityMemcpy7;
using Set = CUpti_ActivityMemset5;
using Graph = CUpti_ActivityGraphTrace2;
using Sync = CUpti_ActivitySynchronization2;
using Overhead = CUpti_ActivityOverhead3;
#else
using Kernel = CUpti_ActivityKernel9;
using Copy = CUpti_ActivityMemcpy5;
using Set = CUpti_ActivityMemset4;
using Graph = CUpti_ActivityGraphTrace;
using Sync = CUpti_ActivitySynchronization;
using Overhead = CUpti_ActivityOverhead;
#endif
using PeerCopy = CUpti_ActivityMemcpyPtoP4;

constexpr std::uint32_t kMostKinds = 64;

struct Buffer {
  std::uint8_t* memory = nullptr;
  std::size_t nbytes = 0;
  std::size_t used = 0;
};

struct Fake {
  std::mutex mutex;
  std::map<std::string, int> failures = failures_of_environment();  // function, or function:kind
  bool enabled[kMostKinds] = {};
  std::map<std::uint32_t, bool> single_calls[kMostKinds];  // of the two interfaces: said since their kind was
  std::uint64_t cost_ns = cost_of_environment();  // of recording a call, in the thread that makes it
  bool has_subscriber = false;
  bool uses_system_threads = false;
  CUpti_TimestampCallbackFunc clock = nullptr;
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  Buffer buffer;
  std::vector<std::vector<std::uint8_t>> later;  // activities, until they are flushed
  std::vector<std::thread> workers;
  std::uint32_t next_correlation = 1;
  std::size_t num_dropped = 0;
  std::size_t cut_nbytes = 0;  // of the next buffer that is handed over
  bool passes_cut_records = false;
  pid_t initialised_in = 0;

  static std::uint64_t cost_of_environment() {
    const char* text = std::getenv("FAKE_CUPTI_COST_NS");
    return text != nullptr ? static_cast<std::uint64_t>(std::atoll(text)) : 0;
  }
  static std::map<std::string, int> failures_of_environment() {
    std::map<std::string, int> found;
    const char* text = std::getenv("FAKE_CUPTI_FAILURE");  // FUNCTION=CODE
    if (const char* at = text != nullptr ? std::strchr(text, '=') : nullptr)
      found[std::string(text, at)] = std::atoi(at + 1);
    return found;
  }
};

Fake& fake() {
  static Fake& only = *new Fake;
  return only;
}

thread_local std::map<int, std::vector<std::uint64_t>> external_ids;

CUptiResult result_of(const std::string& function) {
  const std::lock_guard lock(fake().mutex);
  const auto at = fake().failures.find(function);
  return at == fake().failures.end() ? CUPTI_SUCCESS : static_cast<CUptiResult>(at->second);
}

std::uint64_t now() {
  if (fake().clock != nullptr) return fake().clock();
  timespec time;
  ::clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000ull + static_cast<std::uint64_t>(time.tv_nsec);
}

std::size_t size_of(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return sizeof(Kernel);
    case CUPTI_ACTIVITY_KIND_MEMCPY: return sizeof(Copy);
    case CUPTI_ACTIVITY_KIND_MEMCPY2: return sizeof(PeerCopy);
    case CUPTI_ACTIVITY_KIND_MEMSET: return sizeof(Set);
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE: return sizeof(Graph);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: return sizeof(Sync);
    case CUPTI_ACTIVITY_KIND_OVERHEAD: return sizeof(Overhead);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: return sizeof(CUpti_ActivityExternalCorrelation);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER: return sizeof(CUpti_ActivityAPI);
    default: return 0;
  }
}

/// Under the lock: full buffers go to a thread of CUPTI's own, which is this.
Buffer take_buffer() {
  Fake& state = fake();
  Buffer taken = std::exchange(state.buffer, Buffer{});
  taken.used -= std::min(taken.used, std::exchange(state.cut_nbytes, 0));
  return taken;
}

void put_bytes(const void* record, std::size_t nbytes) {
  Fake& state = fake();
  if (state.buffer.memory != nullptr && state.buffer.nbytes - state.buffer.used < nbytes) {
    const Buffer full = take_buffer();
    state.workers.emplace_back([full] { fake().complete(nullptr, 0, full.memory, full.nbytes, full.used); });
  }
  if (state.buffer.memory == nullptr) {
    std::size_t most_records = 0;
    state.request(&state.buffer.memory, &state.buffer.nbytes, &most_records);
    state.buffer.used = 0;
  }
  if (state.buffer.memory == nullptr || state.buffer.nbytes < nbytes) {
    ++state.num_dropped;
    return;
  }
  std::memcpy(state.buffer.memory + state.buffer.used, record, nbytes);
  state.buffer.used += nbytes;
}

/// Under the lock.
bool is_recorded(CUpti_ActivityKind kind, std::uint32_t cbid) {
  const auto& single = fake().single_calls[kind];
  const auto at = single.find(cbid);
  return at != single.end() ? at->second : fake().enabled[kind];
}

template <typename Record>
void put(const Record& record, bool at_once) {
  Fake& state = fake();
  const std::lock_guard lock(state.mutex);
  if (state.request == nullptr || record.kind >= kMostKinds) return;
  if constexpr (std::is_same_v<Record, CUpti_ActivityAPI>) {
    if (!is_recorded(record.kind, record.cbid)) return;
  } else if (!state.enabled[record.kind]) {
    return;
  }
  if (at_once) return put_bytes(&record, sizeof record);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&record);
  state.later.emplace_back(bytes, bytes + sizeof record);
}

/// Takes CPU time of the calling thread.
void spend(std::uint64_t ns) {
  const auto spent_ns = [] {
    timespec time;
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000ull + static_cast<std::uint64_t>(time.tv_nsec);
  };
  if (ns == 0) return;
  for (const std::uint64_t until = spent_ns() + ns; spent_ns() < until;) {
  }
}

/// A call of the runtime that begins now, with the external ids of its thread before it.
std::uint32_t call(CUpti_ActivityKind kind, std::uint32_t cbid) {
  std::uint32_t correlation;
  bool takes_time;
  {
    const std::lock_guard lock(fake().mutex);
    correlation = fake().next_correlation++;
    takes_time = fake().request != nullptr && is_recorded(kind, cbid);
  }
  if (takes_time) spend(fake().cost_ns);
  for (const auto& [external_kind, ids] : external_ids) {
    if (ids.empty()) continue;
    CUpti_ActivityExternalCorrelation external{};
    external.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    external.externalKind = static_cast<CUpti_ExternalCorrelationKind>(external_kind);
    external.externalId = ids.back();
    external.correlationId = correlation;
    put(external, true);
  }
  CUpti_ActivityAPI record{};
  record.kind = kind;
  record.cbid = cbid;
  record.start = now();
  record.end = record.start + 5'000;
  record.processId = static_cast<std::uint32_t>(::getpid());
  record.threadId = fake().uses_system_threads ? static_cast<std::uint32_t>(::syscall(SYS_gettid)) : 7;
  record.correlationId = correlation;
  put(record, true);
  return correlation;
}

/// Names live as long as the module of their kernel, which here is for good.
const char* kept(const char* name) {
  static std::set<std::string>& names = *new std::set<std::string>;
  const std::lock_guard lock(fake().mutex);
  return names.insert(name).first->c_str();
}

template <typename Record>
Record activity(CUpti_ActivityKind kind, std::uint32_t correlation, std::uint64_t ns) {
  Record record{};
  record.kind = kind;
  record.correlationId = correlation;
  record.deviceId = 1;
  record.contextId = 2;
  record.streamId = 3;
  record.start = now() + 2'000;
  record.end = record.start + ns;
  return record;
}

}  // namespace

// ---- What the layer calls ---------------------------------------------------------------------------------------

EXPORTED CUptiResult cuptiGetVersion(std::uint32_t* version) {
  *version = result_of("fake_version") != CUPTI_SUCCESS ? result_of("fake_version") : CUPTI_API_VERSION;
  return result_of("cuptiGetVersion");
}

EXPORTED CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  *text = result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" : "CUPTI_ERROR_FAKE";
  return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiGetTimestamp(std::uint64_t* time) {
  *time = now();
  return result_of("cuptiGetTimestamp");
}

EXPORTED CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, std::uint32_t cbid, const char** name) {
  static const std::map<std::uint32_t, const char*> runtime{
      {CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, "cudaLaunchKernel_v7000"},
      {CUPTI_RUNTIME_TRACE_CBID_cudaGetLastError_v3020, "cudaGetLastError_v3020"},
      {CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020, "cudaMemcpyAsync_v3020"},
      {CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020, "cudaStreamSynchronize_v3020"}};
  static const std::map<std::uint32_t, const char*> driver{{CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, "cuLaunchKernel"},
                                                           {CUPTI_DRIVER_TRACE_CBID_cuCtxGetCurrent, "cuCtxGetCurrent"}};
  const auto& names = domain == CUPTI_CB_DOMAIN_RUNTIME_API ? runtime : driver;
  const auto at = names.find(cbid);
  *name = at == names.end() ? nullptr : at->second;
  return at == names.end() ? CUPTI_ERROR_INVALID_PARAMETER : CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc, void*) {
  if (const CUptiResult result = result_of("cuptiSubscribe")) return result;
  const std::lock_guard lock(fake().mutex);
  if (fake().has_subscriber) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  fake().has_subscriber = true;
  *subscriber = nullptr;
  return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) {
  const std::lock_guard lock(fake().mutex);
  fake().has_subscriber = false;
  return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                                    CUpti_BuffersCallbackCompleteFunc complete) {
  if (const CUptiResult result = result_of("cuptiActivityRegisterCallbacks")) return result;
  const std::lock_guard lock(fake().mutex);
  fake().request = request;
  fake().complete = complete;
  return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock) {
  if (const CUptiResult result = result_of("cuptiActivityRegisterTimestampCallback")) return result;
  for (const bool is_enabled : fake().enabled)
    if (is_enabled) std::abort();  // too late, as CUPTI documents it
  fake().clock = clock;
  return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type) {
  fake().uses_system_threads = type == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM;
  return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiActivityFlushPeriod(std::uint32_t) { return CUPTI_SUCCESS; }

EXPORTED CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (const CUptiResult result = result_of("cuptiActivityEnable:" + std::to_string(kind))) return result;
  const std::lock_guard lock(fake().mutex);
  fake().enabled[kind] = true;
  fake().single_calls[kind].clear();
  return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  const std::lock_guard lock(fake().mutex);
  fake().enabled[kind] = false;
  fake().single_calls[kind].clear();
  return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId cbid, std::uint8_t enable) {
  const std::lock_guard lock(fake().mutex);
  if (cbid != CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel) std::abort();  // of the names above, one launches
  fake().single_calls[CUPTI_ACTIVITY_KIND_DRIVER][cbid] = enable != 0;
  return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId cbid, std::uint8_t enable) {
  const bool is_left_out = cbid == CUPTI_RUNTIME_TRACE_CBID_cudaGetLastError_v3020 && enable == 0;
  if (!is_left_out && (cbid != CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020 || enable != 1)) std::abort();
  const std::lock_guard lock(fake().mutex);
  fake().single_calls[CUPTI_ACTIVITY_KIND_RUNTIME][cbid] = enable != 0;
  return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t, std::size_t* num_dropped) {
  // No lock: it is called while a buffer is handed over, and may be by whoever holds it.
  *num_dropped = __atomic_exchange_n(&fake().num_dropped, 0, __ATOMIC_RELAXED);
  return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t nbytes, CUpti_Activity** record) {
  std::uint8_t* next = buffer;
  if (*record != nullptr) next = reinterpret_cast<std::uint8_t*>(*record) + size_of((*record)->kind);
  const std::uint8_t* const end = buffer + nbytes;
  if (next >= end) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  auto* const found = reinterpret_cast<CUpti_Activity*>(next);
  const std::size_t room = static_cast<std::size_t>(end - next);
  if (room < sizeof(CUpti_Activity) || size_of(found->kind) == 0) return CUPTI_ERROR_INVALID_KIND;
  if (room < size_of(found->kind) && !fake().passes_cut_records) return CUPTI_ERROR_INVALID_KIND;
  *record = found;
  return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiActivityFlushAll(std::uint32_t) {
  Fake& state = fake();
  std::vector<std::thread> workers;
  Buffer rest;
  {
    const std::lock_guard lock(state.mutex);
    for (auto at = state.later.rbegin(); at != state.later.rend(); ++at) put_bytes(at->data(), at->size());
    state.later.clear();
    workers.swap(state.workers);
    rest = take_buffer();
  }
  for (auto& worker : workers) worker.join();
  if (rest.memory != nullptr) state.complete(nullptr, 0, rest.memory, rest.nbytes, rest.used);
  return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, std::uint64_t id) {
  external_ids[kind].push_back(id);
  return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, std::uint64_t*) {
  if (external_ids[kind].empty()) std::abort();
  external_ids[kind].pop_back();
  return CUPTI_SUCCESS;
}

// ---- What the driver does --------------------------------------------------------------------------------------

EXPORTED CUresult cuDriverGetVersion(int* version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuInit(unsigned) {
  Fake& state = fake();
  if (state.initialised_in != 0)
    return state.initialised_in == ::getpid() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;  // forked since
  state.initialised_in = ::getpid();
  const char* path = std::getenv("CUDA_INJECTION64_PATH");
  void* library = path != nullptr ? ::dlopen(path, RTLD_NOW) : nullptr;
  if (library == nullptr) return CUDA_SUCCESS;
  const auto begin = reinterpret_cast<int (*)()>(::dlsym(library, "InitializeInjection"));
  return begin == nullptr || begin() == 1 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

// ---- What tests do ---------------------------------------------------------------------------------------------

EXPORTED void fake_fail(const char* function, int code) {
  const std::lock_guard lock(fake().mutex);
  fake().failures[function] = code;
}

EXPORTED std::uint32_t fake_launch(const char* name, std::uint64_t ns) {
  const std::uint32_t correlation = call(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000);
  auto record = activity<Kernel>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, correlation, ns);
  record.name = kept(name);
  put(record, false);
  return correlation;
}

EXPORTED std::uint32_t fake_launch_by_driver(const char* name, std::uint64_t ns) {
  const std::uint32_t correlation = call(CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel);
  auto record = activity<Kernel>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, correlation, ns);
  record.name = kept(name);
  record.graphId = 9;
  put(record, false);
  return correlation;
}

EXPORTED void fake_untimed() {
  auto record = activity<Kernel>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 0, 0);
  record.start = record.end = 0;
  put(record, false);
}

EXPORTED std::uint32_t fake_copy(std::uint8_t kind, std::uint64_t nbytes, std::uint64_t ns) {
  const std::uint32_t correlation = call(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020);
  if (kind == CUPTI_ACTIVITY_MEMCPY_KIND_PTOP) {
    auto record = activity<PeerCopy>(CUPTI_ACTIVITY_KIND_MEMCPY2, correlation, ns);
    record.copyKind = kind;
    record.bytes = nbytes;
    put(record, false);
  } else {
    auto record = activity<Copy>(CUPTI_ACTIVITY_KIND_MEMCPY, correlation, ns);
    record.copyKind = kind;
    record.bytes = nbytes;
    put(record, false);
  }
  return correlation;
}

EXPORTED void fake_set(std::uint64_t nbytes) {
  auto record = activity<Set>(CUPTI_ACTIVITY_KIND_MEMSET, 0, 100);
  record.bytes = nbytes;
  put(record, false);
}

EXPORTED void fake_graph(std::uint32_t graph) {
  auto record = activity<Graph>(CUPTI_ACTIVITY_KIND_GRAPH_TRACE, 0, 1'000);
  record.graphId = graph;
  put(record, false);
}

EXPORTED std::uint32_t fake_synchronize(std::uint32_t type, std::uint64_t ns) {
  const std::uint32_t correlation =
      call(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020);
  Sync record{};
  record.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  record.type = static_cast<CUpti_ActivitySynchronizationType>(type);
  record.correlationId = correlation;
  record.contextId = 2;
  record.streamId = 3;
  record.start = now();
  record.end = record.start + ns;
  put(record, true);
  return correlation;
}

EXPORTED void fake_overhead(std::uint32_t kind) {
  Overhead record{};
  record.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  record.overheadKind = static_cast<CUpti_ActivityOverheadKind>(kind);
  record.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  record.objectId.pt.threadId = 77;
  record.start = now();
  record.end = record.start + 300;
  put(record, true);
}

EXPORTED void fake_drop(std::size_t number) { __atomic_fetch_add(&fake().num_dropped, number, __ATOMIC_RELAXED); }

/// The next buffer that is handed over ends so many bytes early, maybe inside a record that is passed all the same.
EXPORTED void fake_cut(std::size_t nbytes, int passes_cut_records) {
  const std::lock_guard lock(fake().mutex);
  fake().cut_nbytes = nbytes;
  fake().passes_cut_records = passes_cut_records != 0;
}

EXPORTED void fake_flush() { cuptiActivityFlushAll(0); }
