// The CUPTI layer against a libcupti without a GPU (fake_cupti.cpp), in the way that a profiled program has it: loaded
// by the driver's initialisation, recording into a session's folder.
//
// A process has one layer, so each test is a process of its own.
//
// Over 400 lines: all tests of one layer, with the reader of recordings that they share.
#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>

#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "drivetrain/gpu_log.hpp"
#include "tests/check.hpp"
#include "tests/event_log_folder.hpp"

extern "C" {
unsigned cuInit(unsigned);
void fake_fail(const char*, int);
std::uint32_t fake_launch(const char*, std::uint64_t);
std::uint32_t fake_launch_by_driver(const char*, std::uint64_t);
void fake_untimed();
std::uint32_t fake_copy(std::uint8_t, std::uint64_t, std::uint64_t);
void fake_set(std::uint64_t);
void fake_graph(std::uint32_t);
std::uint32_t fake_synchronize(std::uint32_t, std::uint64_t);
void fake_overhead(std::uint32_t);
void fake_drop(std::size_t);
void fake_cut(std::size_t, int);
void fake_flush();
}

using namespace drivetrain;

namespace {

constexpr std::uint64_t kMs = 1'000'000;

/// What the reader in Python does, in a few lines.
struct Recorded {
  std::vector<GpuRecord> records;
  std::vector<std::string> names{"unknown"};
  std::vector<std::string> notes;

  explicit Recorded(const Folder& folder) {
    for (const auto& name : folder.names()) {
      const std::string text = contents(folder.path + "/" + name);
      if (name.ends_with(".gpu")) {
        GpuSegmentHeader header;
        std::memcpy(&header, text.data(), sizeof header);
        CHECK(header.magic == kGpuMagic && header.record_nbytes == sizeof(GpuRecord));
        GpuRecord record;
        for (std::size_t at = sizeof header; at + sizeof record <= text.size(); at += sizeof record) {
          std::memcpy(&record, text.data() + at, sizeof record);
          if (record.begin_ns == 0) break;
          records.push_back(record);
        }
      } else if (name.ends_with(".gpu-names")) {
        for (std::size_t at = 0; at < text.size(); at += names.back().size() + 1) names.emplace_back(text.c_str() + at);
      } else if (name.ends_with(".not-captured")) {
        notes.push_back(text);
      }
    }
  }
  static std::string contents(const std::string& path) {
    std::string text;
    char part[4096];
    std::FILE* file = std::fopen(path.c_str(), "rb");
    for (std::size_t n; (n = std::fread(part, 1, sizeof part, file)) > 0;) text.append(part, n);
    std::fclose(file);
    return text;
  }
  std::vector<GpuRecord> of(GpuKind kind) const {
    std::vector<GpuRecord> found;
    for (const GpuRecord& record : records)
      if (record.kind == kind) found.push_back(record);
    return found;
  }
  GpuRecord only(GpuKind kind) const {
    CHECK(of(kind).size() == 1);
    return of(kind).front();
  }
};

void attach() {
  void* layer = ::dlopen(std::getenv("CUDA_INJECTION64_PATH"), RTLD_NOW);
  CHECK(layer != nullptr);
  const auto attach = reinterpret_cast<int (*)(const GpuSink*)>(::dlsym(layer, "drivetrain_gpu_attach"));
  GpuSink other = gpu_sink;
  ++other.version;
  CHECK(attach(&other) == 0 && attach(&gpu_sink) == 1);
}

void open(const Folder& folder, std::uint64_t limit_nbytes = kNoLimit) {
  CHECK(event_log.open(folder.path.c_str(), limit_nbytes) == 0);
  attach();
}

void close() {
  GpuLog::log().stop();
  event_log.close();
}

/// Records what `work` does on the GPU.
Recorded recorded(const std::function<void()>& work) {
  Folder folder;
  open(folder);
  CHECK(cuInit(0) == 0);
  work();
  close();
  return Recorded(folder);
}

void every_kind_of_record_keeps_what_it_says() {
  const std::uint64_t before = monotonic_ns();
  const Recorded found = recorded([] {
    CHECK(fake_launch("_Z4stepPfi", 10 * kMs) == 1);
    CHECK(fake_launch_by_driver("plain_name", kMs) == 2);
    fake_copy(1, 4096, kMs);
    fake_copy(10, 512, kMs);
    fake_set(64);
    fake_graph(5);
    fake_synchronize(3, kMs);
    fake_overhead(2 << 16);
  });
  const auto named = [&](const GpuRecord& record) { return found.names.at(record.name); };
  const auto kernels = found.of(GpuKind::kKernel);
  CHECK(kernels.size() == 2);
  const GpuRecord& first = kernels[1];  // the last was flushed first
  CHECK(named(first) == "step(float*, int)" && named(kernels[0]) == "plain_name");
  CHECK(first.correlation == 1 && first.device == 1 && first.context == 2 && first.stream == 3 && first.value == 0);
  CHECK(first.graph == 0 && kernels[0].graph == 9 && first.end_ns - first.begin_ns == 10 * kMs);
  CHECK(first.begin_ns > before && first.begin_ns < monotonic_ns() + 1000 * kMs);
  const auto copies = found.of(GpuKind::kCopy);
  CHECK(copies.size() == 2 && copies[1].value == 4096 && copies[1].detail == 1 && copies[0].detail == 10);
  CHECK(named(copies[1]) == "copy, host to device" && named(copies[0]) == "copy, between devices");
  CHECK(found.only(GpuKind::kSet).value == 64 && found.only(GpuKind::kGraph).graph == 5);
  const GpuRecord sync = found.only(GpuKind::kSync);
  CHECK(sync.detail == 3 && sync.correlation == 5 && sync.end_ns - sync.begin_ns == kMs);
  const GpuRecord overhead = found.only(GpuKind::kOverhead);
  CHECK(overhead.detail == 2 && overhead.value == 77 && named(overhead) == "CUPTI instrumentation");
  const auto calls = found.of(GpuKind::kRuntime);
  CHECK(calls.size() == 4 && named(calls[0]) == "cudaLaunchKernel" && calls[0].correlation == 1);
  CHECK(calls[0].value == ::syscall(SYS_gettid));
  CHECK(named(found.only(GpuKind::kDriver)) == "cuLaunchKernel");
  CHECK(found.notes.empty());
}

void threads_lose_nothing_while_buffers_fill() {
  constexpr int kThreads = 4, kLaunches = 3'000;
  const Recorded found = recorded([] {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([] {
        for (int i = 0; i < kLaunches; ++i) fake_launch(i % 2 == 0 ? "even" : "odd", 100);
      });
    for (auto& thread : threads) thread.join();
  });
  std::set<std::uint32_t> launched, called;
  std::set<std::int64_t> tids;
  for (const GpuRecord& record : found.of(GpuKind::kKernel)) launched.insert(record.correlation);
  for (const GpuRecord& record : found.of(GpuKind::kRuntime)) called.insert(record.correlation), tids.insert(record.value);
  CHECK(launched.size() == kThreads * kLaunches && launched == called && tids.size() == kThreads);
  CHECK((std::set<std::string>(found.names.begin(), found.names.end()) ==
         std::set<std::string>{"unknown", "cudaLaunchKernel", "even", "odd"}));
}

void a_launch_knows_the_site_of_its_thread() {
  const Recorded found = recorded([] {
    fake_launch("outside", 1);
    thread_log.begin({.site = 4});
    fake_launch("in 4", 1);
    thread_log.begin({.site = 6});
    fake_launch("in 6", 1);
    std::thread([] { fake_launch("in no site of its own", 1); }).join();
    thread_log.end(4);  // as generators do
    fake_launch("still in 6", 1);
    thread_log.lane(1);
    fake_launch("in another lane", 1);
    thread_log.lane(0);
    thread_log.end(6);
    fake_launch("outside again", 1);
    thread_log.finish();
  });
  std::map<std::uint32_t, std::int64_t> inside;
  for (const GpuRecord& record : found.of(GpuKind::kExternal)) inside[record.correlation] = record.value;
  CHECK((inside == std::map<std::uint32_t, std::int64_t>{{2, 5}, {3, 7}, {5, 7}}));
}

void what_was_dropped_or_has_no_time_is_counted() {
  const Recorded found = recorded([] {
    fake_launch("kernel", 1);
    fake_untimed();
    fake_untimed();
    fake_drop(12);
  });
  CHECK(found.of(GpuKind::kKernel).size() == 1);
  CHECK(found.only(GpuKind::kUntimed).value == 2 && found.only(GpuKind::kDropped).value == 12);
}

void a_buffer_that_is_cut_off_keeps_what_is_before(bool passes_cut_records) {
  const Recorded found = recorded([=] {
    for (int i = 0; i < 10; ++i) fake_launch("kernel", 1);
    fake_cut(200, passes_cut_records);
  });
  // The last activity lacks its end: with its tail alone missing it could still be told.
  CHECK(found.of(GpuKind::kRuntime).size() == 10 && found.of(GpuKind::kKernel).size() == 9);
}

void a_refusal_is_one_line_and_the_program_runs_on(const char* function, int code, const char* says) {
  const Recorded found = recorded([] { fake_launch("kernel", 1); });
  std::printf("  %s %d: %s\n", function, code, found.notes.empty() ? "(nothing)" : found.notes[0].c_str());
  CHECK(found.records.empty() && found.notes.size() == 1);
  CHECK(found.notes[0].find(says) != std::string::npos && found.notes[0].find('\n') == std::string::npos);
}

void a_kind_that_is_lacking_is_named_and_the_rest_recorded() {
  fake_fail("cuptiActivityEnable:51", 14);
  const Recorded found = recorded([] { fake_launch("kernel", 1), fake_graph(1); });
  CHECK(found.of(GpuKind::kKernel).size() == 1 && found.of(GpuKind::kGraph).empty());
  CHECK(found.notes.size() == 1 && found.notes[0].find("CUDA graphs") != std::string::npos);
}

void without_our_clock_times_are_moved_to_it() {
  fake_fail("cuptiActivityRegisterTimestampCallback", 15);
  const std::uint64_t before = monotonic_ns();
  const Recorded found = recorded([] { fake_launch("kernel", 1); });
  const std::uint64_t begin = found.only(GpuKind::kKernel).begin_ns, after = monotonic_ns();
  // CUPTI's own clock is that of the calendar, decades away; a minute is for clocks that are being set.
  CHECK(begin + 60'000 * kMs > before && begin < after + 60'000 * kMs);
}

void what_is_launched_while_recording_is_switched_off_leaves_no_record_but_waits_do() {
  const std::uint64_t before = monotonic_ns();
  const Recorded found = recorded([] {
    void (*const change)(bool) = event_log.switch_gpu;
    CHECK(change != nullptr);
    fake_launch("before", kMs);
    thread_log.begin({.site = 4});
    for (int turn = 0; turn < 2; ++turn) {
      change(false);
      change(false);  // once more is nothing
      fake_launch("meanwhile", kMs);
      fake_launch_by_driver("meanwhile", kMs);
      fake_copy(1, 8, kMs);
      fake_set(8);
      fake_synchronize(3, kMs);
      fake_overhead(1 << 16);
      change(true);
    }
    fake_launch("after", kMs);
    fake_launch_by_driver("after", kMs);
    fake_synchronize(3, kMs);
    thread_log.finish();
  });
  const auto named = [&](GpuKind kind) {
    std::multiset<std::string> names;
    for (const GpuRecord& record : found.of(kind)) names.insert(found.names.at(record.name));
    return names;
  };
  using Names = std::multiset<std::string>;
  CHECK((named(GpuKind::kKernel) == Names{"before", "after", "after"}));
  CHECK((named(GpuKind::kRuntime) == Names{"cudaLaunchKernel", "cudaLaunchKernel", "cudaStreamSynchronize",
                                          "cudaStreamSynchronize", "cudaStreamSynchronize"}));
  CHECK(named(GpuKind::kDriver).size() == 1 && found.of(GpuKind::kCopy).empty() && found.of(GpuKind::kSet).empty());
  CHECK(found.of(GpuKind::kSync).size() == 1 && found.of(GpuKind::kExternal).size() == 3);
  int num_own = 0;
  std::vector<GpuRecord> switches;
  for (const GpuRecord& record : found.of(GpuKind::kOverhead))
    record.detail < kSwitchedOff ? static_cast<void>(++num_own) : switches.push_back(record);
  CHECK(num_own == 2 && switches.size() == 4);
  std::uint64_t last = before;
  for (std::size_t i = 0; i < switches.size(); ++i) {
    CHECK(switches[i].detail == (i % 2 == 0 ? kSwitchedOff : kSwitchedOn));
    CHECK(switches[i].value == ::syscall(SYS_gettid));
    CHECK(last <= switches[i].begin_ns && switches[i].begin_ns <= switches[i].end_ns);
    last = switches[i].end_ns;
  }
  CHECK(found.notes.empty());
}

void what_cannot_be_switched_on_again_is_said() {
  const Recorded found = recorded([] {
    void (*const change)(bool) = event_log.switch_gpu;
    change(false);
    fake_fail("cuptiActivityEnable:10", 999);
    change(true);
    fake_launch("lost", kMs);
  });
  CHECK(found.of(GpuKind::kKernel).empty() && found.of(GpuKind::kRuntime).size() == 1);
  CHECK(found.notes.size() == 1 && found.notes[0].find("everything again") != std::string::npos);
}

void a_process_forked_before_cuda_begins_has_a_recording_of_its_own() {
  Folder folder;
  open(folder);
  const pid_t child = ::fork();
  CHECK(cuInit(0) == 0);
  fake_launch(child == 0 ? "child" : "parent", 1);
  close();
  if (child == 0) ::_exit(GpuLog::log().is_lost() ? 1 : 0);
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child && status == 0);
  CHECK(Recorded(folder).of(GpuKind::kKernel).size() == 2);
}

void a_process_forked_after_it_writes_nothing_and_knows_that() {
  Folder folder;
  open(folder);
  CHECK(cuInit(0) == 0);
  fake_launch("parent", 1);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_lost = GpuLog::log().is_lost() && cuInit(0) != 0;
    thread_log.begin({.site = 1});
    close();
    ::_exit(is_lost ? 0 : 1);
  }
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child && status == 0);
  fake_launch("parent again", 1);
  close();
  CHECK(!GpuLog::log().is_lost() && Recorded(folder).of(GpuKind::kKernel).size() == 2);
}

void what_was_handed_over_outlives_sigkill() {
  Folder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    open(folder);
    CHECK(cuInit(0) == 0);
    for (int i = 0; i < 5'000; ++i) fake_launch("kernel", 1);
    fake_flush();
    ::raise(SIGKILL);
  }
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child && WIFSIGNALED(status));
  const Recorded found(folder);
  CHECK(found.of(GpuKind::kKernel).size() == 5'000 && found.names.size() == 3);
}

void records_stop_at_the_sessions_limit_and_are_counted() {
  Folder folder;
  open(folder, 128 << 10);
  CHECK(cuInit(0) == 0);
  for (int i = 0; i < 3'000; ++i) fake_launch("kernel", 1);
  close();
  const std::size_t kept = Recorded(folder).records.size();
  CHECK(kept > 1'000 && kept + event_log.shared->num_dropped.load() == 6'000);
}

void nothing_happens_in_a_process_that_does_not_record() {
  CHECK(cuInit(0) == 0);
  fake_launch("kernel", 1);
}

void run(const std::function<void()>& test, const char* name) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    test();
    std::fflush(stdout);
    ::_exit(0);
  }
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child);
  std::printf("%s %s\n", status == 0 ? "passed" : "FAILED", name);
  CHECK(status == 0);
}

}  // namespace

#define RUN(test) run([] { test; }, #test)

int main() {
  RUN(every_kind_of_record_keeps_what_it_says());
  RUN(threads_lose_nothing_while_buffers_fill());
  RUN(a_launch_knows_the_site_of_its_thread());
  RUN(what_was_dropped_or_has_no_time_is_counted());
  RUN(a_buffer_that_is_cut_off_keeps_what_is_before(false));
  RUN(a_buffer_that_is_cut_off_keeps_what_is_before(true));
  const struct {
    const char* function;
    int code;
    const char* says;
  } refusals[] = {
      {"cuptiGetVersion", 999, "driver"},
      {"cuptiGetVersion", 15, "driver"},
      {"fake_version", 990'000, "990000"},
      {"cuptiSubscribe", 39, "another profiler"},
      {"cuptiSubscribe", 35, "permission"},
      {"cuptiActivityEnable:10", 35, "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"},
      {"cuptiActivityEnable:10", 43, "CUPTI refused"},
      {"cuptiActivityRegisterCallbacks", 1, "CUPTI refused"},
  };
  for (const auto& [function, code, says] : refusals)
    run(
        [function = function, code = code, says = says] {
          fake_fail(function, code);
          a_refusal_is_one_line_and_the_program_runs_on(function, code, says);
        },
        "a_refusal_is_one_line_and_the_program_runs_on");
  run(
      [] {
        ::setenv("DRIVETRAIN_LIBCUPTI", "libcupti-that-is-nowhere.so", 1);
        a_refusal_is_one_line_and_the_program_runs_on("dlopen", 0, "libcupti-that-is-nowhere.so");
      },
      "a_library_that_is_missing_is_one_line");
  RUN(a_kind_that_is_lacking_is_named_and_the_rest_recorded());
  RUN(without_our_clock_times_are_moved_to_it());
  RUN(what_is_launched_while_recording_is_switched_off_leaves_no_record_but_waits_do());
  RUN(what_cannot_be_switched_on_again_is_said());
  RUN(a_process_forked_before_cuda_begins_has_a_recording_of_its_own());
  RUN(a_process_forked_after_it_writes_nothing_and_knows_that());
  RUN(what_was_handed_over_outlives_sigkill());
  RUN(records_stop_at_the_sessions_limit_and_are_counted());
  RUN(nothing_happens_in_a_process_that_does_not_record());
  std::printf("test_cupti passed\n");
}
