// Records what a process does on NVIDIA GPUs, by CUPTI's activities, and hands it to the recorder as records of ours.
//
//   drivetrain profile -> CUDA_INJECTION64_PATH = this library
//   attach()             by Python, at the start of each process: where records go
//   InitializeInjection  by the CUDA driver, in its own initialisation and so before any context: starts recording
//   change(is_on)        by the recorder, between blocks of steps (event_log_blocks.hpp): off, and on again
//   stop()               by the recorder, when it ends
//
// So a process that uses no GPU never loads CUPTI, and one that is forked before CUDA begins has its own recording.
// Compiled where it is used (build.py). Whatever fails is one line in the session, and the program runs on.
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "conversion.hpp"

namespace drivetrain {
namespace {

constexpr std::size_t kBufferNbytes = 256 << 10;  // what a kill may lose per buffer; some 1,000 kernels
constexpr std::size_t kBatch = 64;
constexpr std::uint32_t kFlushEveryMs = 500;
constexpr CUpti_ExternalCorrelationKind kExternalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2;  // PyTorch has 0 and 1

std::uint64_t monotonic_ns() noexcept {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000ull + static_cast<std::uint64_t>(now.tv_nsec);
}

class Layer {
 public:
  /// False where the recorder is of another version than this library.
  bool attach(const GpuSink* sink) noexcept {
    const bool fits = sink->version == kGpuRecordVersion && sink->record_nbytes == sizeof(GpuRecord);
    sink_ = fits ? sink : nullptr;
    return fits;
  }

  void start() noexcept {
    // Without the lock: CUPTI may ask for a buffer at once.
    if (sink_ == nullptr || has_started_.exchange(true)) return;  // not a process that is recorded, or once more
    if (!open_library() || !subscribe()) return;
    conversion_ = new Conversion(*(names_ = new Names(*sink_, cupti_)), choose_clock());
    if (!enable()) return end();
    const bool tells = cupti_.cuptiActivityPushExternalCorrelationId != nullptr &&
                       cupti_.cuptiActivityPopExternalCorrelationId != nullptr;
    void (*const inside)(std::uint32_t) = [](std::uint32_t id) { layer().inside(id); };
    void (*const change)(bool) = [](bool is_on) { layer().change(is_on); };
    sink_->started([] { layer().stop(); }, tells ? inside : nullptr, can_choose_calls() ? change : nullptr);
  }

  /// For all threads. Calls that wait for a device stay recorded, so that how long blocks of steps waited is known of
  /// all of them. What was launched before keeps its record or not, as CUPTI likes: NVIDIA documents neither.
  void change(bool is_on) noexcept {
    const std::lock_guard switching(switching_);
    if (has_stopped_ || is_on == is_on_) return;
    is_on_ = is_on;
    const std::uint64_t begin_ns = monotonic_ns();
    // What ran without its call would belong to nobody; a call without what it launched does no harm.
    if (is_on) record_calls(true);
    bool all = true;
    for (const Kind& kind : kinds_)
      if (kind.kind != CUPTI_ACTIVITY_KIND_RUNTIME && kind.kind != CUPTI_ACTIVITY_KIND_OVERHEAD && !kind.is_lacking)
        all &= (is_on ? cupti_.cuptiActivityEnable : cupti_.cuptiActivityDisable)(kind.kind) == CUPTI_SUCCESS;
    if (!is_on) record_calls(false);
    if (!all && is_on)
      sink_->note("switching", "Of GPU work, CUPTI did not record everything again after it had been switched off.");
    const std::lock_guard lock(mutex_);
    add_switch(is_on, begin_ns);
    hand_over();
  }

  void stop() noexcept {
    {
      const std::lock_guard switching(switching_);
      has_stopped_ = true;
    }
    // Not under the lock: buffers are handed over meanwhile, by this thread and by others.
    cupti_.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    {
      // What found no room after the last buffer was full is in none.
      const std::lock_guard lock(mutex_);
      add_dropped(nullptr, 0);
      hand_over();
    }
    end();
  }

  void request(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) noexcept {
    const std::lock_guard lock(mutex_);
    if (spare_.empty()) {
      *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(64, kBufferNbytes));
    } else {
      *buffer = spare_.back();
      spare_.pop_back();
    }
    *size = *buffer != nullptr ? kBufferNbytes : 0;
    *most_records = 0;
  }

  void complete(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t valid_nbytes) noexcept {
    if (buffer == nullptr) return;
    const std::lock_guard lock(mutex_);
    read(buffer, valid_nbytes);
    if (const std::int64_t number = conversion_->take_untimed()) add_count(GpuKind::kUntimed, number);
    add_dropped(context, stream);
    hand_over();
    spare_.push_back(buffer);
  }

  static Layer& layer() noexcept {
    // Never destroyed: threads of CUPTI may outlive main().
    static Layer& only = *new Layer;
    return only;
  }

 private:
  bool open_library() noexcept {
    const char* chosen = std::getenv("DRIVETRAIN_LIBCUPTI");
    char why[512], sentence[768];
    if (cupti_.load(chosen != nullptr && *chosen != '\0' ? chosen : "libcupti.so", why, sizeof why)) return true;
    std::snprintf(sentence, sizeof sentence, "GPU work was not recorded: CUPTI could not be loaded: %s.", why);
    sink_->note("library", sentence);
    return false;
  }

  /// Also finds out whether anybody else records already.
  bool subscribe() noexcept {
    std::uint32_t version = 0;
    const CUptiResult asked = cupti_.cuptiGetVersion(&version);
    if (asked != CUPTI_SUCCESS) return refuse(asked);
    if (major_of(version) > major_of(CUPTI_API_VERSION)) {
      char sentence[256];
      std::snprintf(sentence, sizeof sentence,
                    "GPU work was not recorded: expected CUPTI of at most CUDA %u, for whose headers this was compiled, "
                    "got version %u; install the headers that belong to it.",
                    major_of(CUPTI_API_VERSION), version);
      sink_->note("version", sentence);
      return false;
    }
    const CUptiResult done = cupti_.cuptiSubscribe(
        &subscriber_, [](void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}, nullptr);
    return done == CUPTI_SUCCESS || refuse(done);
  }

  /// Versions were counted from 1 until CUDA 12, and are 130500 for CUDA 13.5 since.
  static std::uint32_t major_of(std::uint32_t version) noexcept { return version < 10'000 ? 12 : version / 10'000; }

  bool refuse(CUptiResult error) noexcept {
    const char* name = nullptr;
    if (cupti_.cuptiGetResultString(error, &name) != CUPTI_SUCCESS || name == nullptr) name = "an unknown error";
    const char *cause = "cupti", *why = "CUPTI refused";
    switch (error) {
      case CUPTI_ERROR_NOT_INITIALIZED:
      case CUPTI_ERROR_UNKNOWN:
        cause = "driver", why = "CUPTI found no NVIDIA driver that it can work with";
        break;
      case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
      case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
        cause = "permission", why = "this user has no permission, which the driver's administrator can give";
        break;
      case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
        cause = "subscriber", why = "another profiler (torch.profiler, Nsight) has CUPTI in this process";
        break;
      default: break;
    }
    char sentence[512];
    std::snprintf(sentence, sizeof sentence,
                  "GPU work was not recorded: %s (%s, %d). A trace of torch.profiler can be added instead: drivetrain report "
                  "DIR --kineto FILE.",
                  why, name, static_cast<int>(error));
    sink_->note(cause, sentence);
    return false;
  }

  /// Lets CUPTI take our clock; where it cannot, returns what is to be added to its own.
  std::int64_t choose_clock() noexcept {
    if (cupti_.cuptiActivityRegisterTimestampCallback != nullptr &&
        cupti_.cuptiActivityRegisterTimestampCallback(&monotonic_ns) == CUPTI_SUCCESS)
      return 0;
    std::uint64_t narrowest = ~std::uint64_t{0};
    std::int64_t offset = 0;
    for (int i = 0; i < 32; ++i) {
      std::uint64_t theirs = 0;
      const std::uint64_t before = monotonic_ns();
      if (cupti_.cuptiGetTimestamp(&theirs) != CUPTI_SUCCESS) break;
      const std::uint64_t after = monotonic_ns();
      if (after - before >= narrowest) continue;
      narrowest = after - before;
      offset = static_cast<std::int64_t>(before + narrowest / 2 - theirs);
    }
    return offset;
  }

  bool enable() noexcept {
    if (cupti_.cuptiSetThreadIdType != nullptr) cupti_.cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
    const CUptiResult registered = cupti_.cuptiActivityRegisterCallbacks(
        [](std::uint8_t** buffer, std::size_t* size, std::size_t* most) { layer().request(buffer, size, most); },
        [](CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t, std::size_t valid_nbytes) {
          layer().complete(context, stream, buffer, valid_nbytes);
        });
    if (registered != CUPTI_SUCCESS) return refuse(registered);
    char lacking[256] = "";
    for (Kind& kind : kinds_) {
      const CUptiResult done = cupti_.cuptiActivityEnable(kind.kind);
      kind.is_lacking = done != CUPTI_SUCCESS;
      if (!kind.is_lacking) continue;
      if (kind.is_needed) return refuse(done);
      const std::size_t length = std::strlen(lacking);
      std::snprintf(lacking + length, sizeof lacking - length, "%s%s", length > 0 ? ", " : "", kind.name);
    }
    choose_calls();
    if (cupti_.cuptiActivityFlushPeriod != nullptr) cupti_.cuptiActivityFlushPeriod(kFlushEveryMs);
    if (*lacking != '\0') {
      char sentence[384];
      std::snprintf(sentence, sizeof sentence, "Of GPU work, this CUPTI did not record: %s.", lacking);
      sink_->note("kinds", sentence);
    }
    return true;
  }

  /// Of the driver's calls those that put work on a device, wait, or may take long; of the runtime's all but those that
  /// only ask, of which a small network makes more than launches.
  void choose_calls() noexcept {
    static constexpr const char* kAdded[] = {"cuLaunch",  "cuMemcpy", "cuMemset",   "cuGraphLaunch", "cuGraphInst",
                                             "cuMemAlloc", "cuMemFree", "cuModuleLoad", "cuLibraryLoad"};
    static constexpr const char* kLeftOut[] = {"cudaGetDevice_", "cudaSetDevice_", "cudaGetLastError",
                                               "cudaPeekAtLastError", "cudaStreamIsCapturing",
                                               "cudaStreamGetCaptureInfo", "cudaDeviceGetAttribute",
                                               "cudaEventQuery", "cudaPushCall", "cudaPopCall"};
    const auto begins_with = [](const char* name, const auto& any) {
      for (const char* text : any)
        if (std::strncmp(name, text, std::strlen(text)) == 0) return true;
      return false;
    };
    const auto each = [&](CUpti_CallbackDomain domain, std::uint32_t num_calls, const auto& visit) {
      for (std::uint32_t cbid = 1; cbid < num_calls; ++cbid) {
        const char* name = nullptr;
        if (cupti_.cuptiGetCallbackName(domain, cbid, &name) == CUPTI_SUCCESS && name != nullptr) visit(cbid, name);
      }
    };
    const auto waits = [](const char* name) { return std::strstr(name, "Synchronize") != nullptr; };
    each(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_SIZE, [&](std::uint32_t cbid, const char* name) {
      if (waits(name))
        driver_waits_.push_back(cbid);
      else if (begins_with(name, kAdded))
        driver_calls_.push_back(cbid);
    });
    each(CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_SIZE, [&](std::uint32_t cbid, const char* name) {
      if (begins_with(name[0] == '_' ? name + 2 : name, kLeftOut))
        runtime_left_out_.push_back(cbid);
      else if (waits(name))
        runtime_waits_.push_back(cbid);
    });
    if (cupti_.cuptiActivityEnableDriverApi == nullptr) cupti_.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_DRIVER);
    record_calls(true);
  }

  bool can_choose_calls() const noexcept {
    return cupti_.cuptiActivityEnableDriverApi != nullptr && cupti_.cuptiActivityEnableRuntimeApi != nullptr;
  }

  /// The calls that were chosen, or of them only those that wait. A kind overrides what was said of its calls before.
  void record_calls(bool is_on) noexcept {
    if (cupti_.cuptiActivityEnableRuntimeApi != nullptr) {
      (is_on ? cupti_.cuptiActivityEnable : cupti_.cuptiActivityDisable)(CUPTI_ACTIVITY_KIND_RUNTIME);
      for (const std::uint32_t cbid : is_on ? runtime_left_out_ : runtime_waits_)
        cupti_.cuptiActivityEnableRuntimeApi(cbid, is_on ? 0 : 1);
    }
    if (cupti_.cuptiActivityEnableDriverApi != nullptr) {
      for (const std::uint32_t cbid : driver_waits_) cupti_.cuptiActivityEnableDriverApi(cbid, 1);
      for (const std::uint32_t cbid : driver_calls_) cupti_.cuptiActivityEnableDriverApi(cbid, is_on ? 1 : 0);
    }
  }

  /// Nothing is torn down (cuptiFinalize): with CUDA graphs that crashed before CUDA 12.6.
  void end() noexcept {
    cupti_.cuptiActivityDisable(CUPTI_ACTIVITY_KIND_DRIVER);
    for (const Kind& kind : kinds_) cupti_.cuptiActivityDisable(kind.kind);
    cupti_.cuptiUnsubscribe(subscriber_);
  }

  /// Up to the end, or to a record that is cut off.
  void read(std::uint8_t* buffer, std::size_t valid_nbytes) noexcept {
    CUpti_Activity* record = nullptr;
    while (cupti_.cuptiActivityGetNextRecord(buffer, valid_nbytes, &record) == CUPTI_SUCCESS) {
      if (conversion_->convert(record, buffer + valid_nbytes, batch_[num_in_batch_])) ++num_in_batch_;
      if (num_in_batch_ == kBatch) hand_over();
    }
  }

  /// Since it was last asked.
  void add_dropped(CUcontext context, std::uint32_t stream) noexcept {
    std::size_t num_dropped = 0;
    if (cupti_.cuptiActivityGetNumDroppedRecords(context, stream, &num_dropped) == CUPTI_SUCCESS && num_dropped > 0)
      add_count(GpuKind::kDropped, static_cast<std::int64_t>(num_dropped));
  }

  void add_count(GpuKind kind, std::int64_t count) noexcept {
    if (num_in_batch_ == kBatch) hand_over();
    GpuRecord& record = batch_[num_in_batch_++] = GpuRecord{};
    record.begin_ns = record.end_ns = monotonic_ns();
    record.kind = kind;
    record.value = count;
  }

  /// How long switching took this thread, and since when.
  void add_switch(bool is_on, std::uint64_t begin_ns) noexcept {
    if (num_in_batch_ == kBatch) hand_over();
    GpuRecord& record = batch_[num_in_batch_++] = GpuRecord{};
    record.begin_ns = begin_ns;
    record.end_ns = monotonic_ns();
    record.kind = GpuKind::kOverhead;
    record.detail = is_on ? kSwitchedOn : kSwitchedOff;
    record.value = ::syscall(SYS_gettid);
    record.name = names_->number(is_on ? "recording switched on" : "recording switched off");
  }

  void hand_over() noexcept {
    sink_->put(batch_, num_in_batch_);
    num_in_batch_ = 0;
  }

  void inside(std::uint32_t id) noexcept {
    thread_local bool is_inside = false;
    if (is_inside) cupti_.cuptiActivityPopExternalCorrelationId(kExternalKind, nullptr);
    is_inside = id != 0 && cupti_.cuptiActivityPushExternalCorrelationId(kExternalKind, id) == CUPTI_SUCCESS;
  }

  struct Kind {
    CUpti_ActivityKind kind;
    const char* name;
    bool is_needed;
    bool is_lacking = false;
  };
  Kind kinds_[9] = {
      {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, "external ids", false},
      {CUPTI_ACTIVITY_KIND_OVERHEAD, "its own overhead", false},
      {CUPTI_ACTIVITY_KIND_RUNTIME, "calls of the runtime", true},
      {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, "synchronisation", false},
      {CUPTI_ACTIVITY_KIND_MEMCPY, "copies", true},
      {CUPTI_ACTIVITY_KIND_MEMCPY2, "copies between devices", false},
      {CUPTI_ACTIVITY_KIND_MEMSET, "memory sets", false},
      {CUPTI_ACTIVITY_KIND_GRAPH_TRACE, "CUDA graphs as a whole", false},
      {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "kernels", true},
  };

  std::mutex mutex_;  // guards buffers, names and the batch
  std::mutex switching_;  // guards what is on; taken before the other
  bool is_on_ = true, has_stopped_ = false;
  std::vector<std::uint32_t> runtime_left_out_, runtime_waits_, driver_calls_, driver_waits_;
  std::atomic<bool> has_started_{false};
  const GpuSink* sink_ = nullptr;
  Cupti cupti_;
  CUpti_SubscriberHandle subscriber_ = nullptr;
  Names* names_ = nullptr;
  Conversion* conversion_ = nullptr;
  std::vector<std::uint8_t*> spare_;
  GpuRecord batch_[kBatch];
  std::size_t num_in_batch_ = 0;
};

}  // namespace
}  // namespace drivetrain

extern "C" {

/// Where records go; 0 where they cannot.
__attribute__((visibility("default"))) int drivetrain_gpu_attach(const drivetrain::GpuSink* sink) {
  return drivetrain::Layer::layer().attach(sink) ? 1 : 0;
}

/// The name under which the CUDA driver looks for what it is to call in cuInit().
__attribute__((visibility("default"))) int InitializeInjection() {
  drivetrain::Layer::layer().start();
  return 1;
}
}
