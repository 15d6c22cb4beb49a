// The recorder, of events and of sums: threads, forks, kills, limits, and stacks that are left out of order.
//
// Over 400 lines: sums are told by the same threads, forks, lanes and stacks as events, and must say the same.
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "drivetrain/event_log_thread.hpp"
#include "tests/check.hpp"
#include "tests/event_log_folder.hpp"

using namespace drivetrain;

namespace {

void record_pairs(std::uint32_t site, int pairs) {
  const SiteUse outer{.site = site}, inner{.site = site + 1};
  for (int i = 0; i < pairs; ++i) {
    thread_log.begin(outer);
    thread_log.begin(inner);
    thread_log.end(site + 1);
    thread_log.end(site);
  }
}

void threads_write_files_of_their_own() {
  Folder folder;
  CHECK(event_log.open(folder.path.c_str(), kNoLimit) == 0);
  std::vector<std::thread> threads;
  constexpr int kPairs = 30'000;  // several segments each
  for (std::uint32_t t = 0; t < 4; ++t) threads.emplace_back([t] { record_pairs(10 * t, kPairs); });
  for (auto& thread : threads) thread.join();
  event_log.close();
  const auto streams = read_all(folder);
  CHECK(streams.size() == 4);
  for (const auto& [key, stream] : streams) {
    const auto events = stream.events();
    CHECK(stream.segments.size() > 2);
    check_nested_and_ordered(events);
    CHECK(count(events, EventKind::kBegin) == 2 * kPairs && count(events, EventKind::kEnd) == 2 * kPairs);
    CHECK(events.back().kind == EventKind::kThreadEnd);
  }
}

void closing_while_threads_record_is_safe() {
  for (int round = 0; round < 20; ++round) {
    Folder folder;
    CHECK(event_log.open(folder.path.c_str(), kNoLimit) == 0);
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (std::uint32_t t = 0; t < 3; ++t)
      threads.emplace_back([&stop] {
        while (!stop.load()) record_pairs(1, 50);
      });
    for (auto pause = monotonic_ns(); monotonic_ns() < pause + 1'000'000;) {
    }
    event_log.close();
    stop.store(true);
    for (auto& thread : threads) thread.join();
    for (const auto& [key, stream] : read_all(folder)) check_nested_and_ordered(stream.events());
  }
}

void a_forked_child_goes_on_in_files_of_its_own() {
  Folder folder;
  CHECK(event_log.open(folder.path.c_str(), kNoLimit) == 0);
  thread_log.begin({.site = 7});
  const pid_t child = ::fork();
  if (child == 0) {
    record_pairs(20, 10);
    thread_log.end(7);
    thread_log.finish();
    ::_exit(0);
  }
  int status;
  CHECK(::waitpid(child, &status, 0) == child && status == 0);
  thread_log.end(7);
  thread_log.finish();
  event_log.close();
  auto streams = read_all(folder);
  CHECK(streams.size() == 2);
  const auto events = streams[{static_cast<std::uint32_t>(child), 0}].events();
  CHECK(events.front().kind == EventKind::kBegin && events.front().site == 7);
  check_nested_and_ordered(events);
  CHECK(count(events, EventKind::kBegin) == 21 && count(events, EventKind::kEnd) == 21);
  const auto own = streams[{static_cast<std::uint32_t>(::getpid()), 0}].events();
  CHECK(count(own, EventKind::kBegin) == 1 && count(own, EventKind::kEnd) == 1);
}

void a_killed_process_leaves_every_event_it_wrote() {
  Folder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    CHECK(event_log.open(folder.path.c_str(), kNoLimit) == 0);
    record_pairs(1, 12'345);
    ::raise(SIGKILL);
  }
  int status;
  CHECK(::waitpid(child, &status, 0) == child && WIFSIGNALED(status));
  const auto streams = read_all(folder);
  CHECK(streams.size() == 1);
  const auto events = streams.begin()->second.events();
  check_nested_and_ordered(events);
  CHECK(count(events, EventKind::kEnd) == 2 * 12'345);
}

void the_limit_holds_for_all_threads_and_says_what_was_dropped() {
  Folder folder;
  constexpr std::uint64_t kLimit = 200'000;
  CHECK(event_log.open(folder.path.c_str(), kLimit) == 0);
  constexpr int kPairs = 10'000;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) threads.emplace_back([] { record_pairs(1, kPairs); });
  for (auto& thread : threads) thread.join();
  CHECK(event_log.shared->taken_nbytes.load() <= kLimit);
  const std::uint64_t dropped = event_log.shared->num_dropped.load();
  event_log.close();
  std::uint64_t nbytes = 0, kept = 0, told = 0;
  for (const auto& [key, stream] : read_all(folder)) {
    const auto events = stream.events();
    nbytes += events.size() * sizeof(Event);
    kept += count(events, EventKind::kBegin) + count(events, EventKind::kEnd);
    told += stream.num_dropped;
  }
  CHECK(nbytes <= kLimit && told <= dropped);
  CHECK(kept + dropped >= 3 * 4 * kPairs && kept + dropped <= 3 * (4 * kPairs + 1));  // and ends of threads
}

void sites_left_out_of_order_or_never_entered_do_no_harm() {
  Folder folder;
  thread_log.begin({.site = 1});  // before the recording: its end is not written
  CHECK(event_log.open(folder.path.c_str(), kNoLimit) == 0);
  thread_log.end(1);
  thread_log.begin({.site = 2});
  thread_log.begin({.site = 3});
  thread_log.end(2);
  thread_log.end(3);
  for (std::uint32_t i = 0; i < kMostNested + 5; ++i) thread_log.begin({.site = 4});
  for (std::uint32_t i = 0; i < kMostNested + 5; ++i) thread_log.end(4);
  thread_log.end(4);
  thread_log.finish();
  event_log.close();
  const auto events = read_all(folder).begin()->second.events();
  CHECK(count(events, EventKind::kBegin) == 2 + kMostNested && count(events, EventKind::kEnd) == 2 + kMostNested);
  CHECK(events[0].site == 2 && events[2].kind == EventKind::kEnd && events[2].site == 2);
}

void only_the_outermost_site_ends_a_step_and_collapsing_sites_are_written_once() {
  Folder folder;
  CHECK(event_log.open(folder.path.c_str(), kNoLimit) == 0);
  const SiteUse wrapper{.site = 1, .step = StepKind::kSimulated, .ends_step = true, .collapses = true};
  const SiteUse simulator{.site = 2, .step = StepKind::kSimulated, .ends_step = true};
  thread_log.begin(wrapper);
  thread_log.begin(wrapper);
  thread_log.begin(simulator);
  thread_log.end(2);
  thread_log.end(1);
  thread_log.end(1);
  thread_log.begin(simulator);
  thread_log.end(2);
  thread_log.finish();
  event_log.close();
  const auto events = read_all(folder).begin()->second.events();
  check_nested_and_ordered(events);
  CHECK(count(events, EventKind::kBegin) == 3 && count(events, EventKind::kStep) == 2);
}

void lanes_hold_sites_while_others_run_without_limit_to_their_number() {
  Folder folder;
  CHECK(event_log.open(folder.path.c_str(), kNoLimit) == 0);
  const std::uint32_t many = 3 * kMostNested;
  thread_log.begin({.site = 7});  // lane 0's own, around all of it
  for (std::uint32_t lane = 1; lane <= many; ++lane) {
    CHECK(thread_log.lane(lane) == 0);
    thread_log.begin({.site = 1, .collapses = true});
    CHECK(thread_log.lane(0) == lane);
  }
  for (std::uint32_t lane = 1; lane <= many; ++lane) {
    thread_log.lane(lane);
    thread_log.begin({.site = 2});
    thread_log.end(2);
    thread_log.end(1);
    thread_log.end(7);  // lane 0 is in it, this one never was: analysis finds no begin
    thread_log.lane(0);
  }
  thread_log.end(7);
  thread_log.finish();
  event_log.close();
  const auto events = read_all(folder).begin()->second.events();
  std::map<std::uint32_t, std::vector<std::pair<EventKind, std::uint32_t>>> of_lane;
  std::uint32_t lane = 0;
  for (const Event& event : events) {
    if (event.kind == EventKind::kLane) lane = event.site;
    if (event.kind == EventKind::kBegin || event.kind == EventKind::kEnd)
      of_lane[lane].emplace_back(event.kind, event.site);
  }
  CHECK(of_lane.size() == many + 1 && of_lane[0].size() == 2);
  const std::vector<std::pair<EventKind, std::uint32_t>> expected{{EventKind::kBegin, 1}, {EventKind::kBegin, 2},
                                                                  {EventKind::kEnd, 2},   {EventKind::kEnd, 1},
                                                                  {EventKind::kEnd, 7}};
  for (lane = 1; lane <= many; ++lane) CHECK(of_lane[lane] == expected);
}

void what_a_lane_leaves_is_timed_also_above_a_site_that_collapsed() {
  Folder folder;
  CHECK(event_log.open(folder.path.c_str(), kNoLimit) == 0);
  const SiteUse wrapper{.site = 1, .collapses = true};
  thread_log.begin(wrapper);
  thread_log.begin(wrapper);
  thread_log.lane(5);
  thread_log.end(1);  // entered before the lane was last left
  thread_log.lane(0);
  thread_log.end(1);
  thread_log.end(1);
  thread_log.finish();
  event_log.close();
  const auto events = read_all(folder).begin()->second.events();
  CHECK(count(events, EventKind::kEnd) == 2 && events.back().kind == EventKind::kThreadEnd);
}

/// Entries by path, written as sites from the outermost: {1, 2} is 2 inside 1.
std::map<std::vector<std::uint32_t>, std::uint64_t> entries(const std::string& file) {
  std::FILE* stream = std::fopen(file.c_str(), "rb");
  alignas(TotalsHeader) static char raw[kTotalsNbytes];
  CHECK(std::fread(raw, 1, sizeof raw, stream) == sizeof raw);
  std::fclose(stream);
  auto& header = *reinterpret_cast<TotalsHeader*>(raw);
  auto* paths = reinterpret_cast<SitePath*>(raw + sizeof(TotalsHeader));
  CHECK(header.magic == kTotalsMagic);
  std::map<std::vector<std::uint32_t>, std::uint64_t> found;
  std::vector<std::vector<std::uint32_t>> names(1);
  std::uint64_t sum = paths[0].ns.load();
  for (std::uint32_t i = 1; i < header.num_paths.load(); ++i) {
    names.push_back(names[paths[i].parent]);
    names.back().push_back(paths[i].site);
    found[names.back()] += paths[i].num_entered.load();
    sum += paths[i].ns.load();
  }
  CHECK(sum == header.until_ns.load() - header.begin_ns);
  return found;
}

std::vector<std::string> totals_files(const Folder& folder) {
  std::vector<std::string> found;
  for (const auto& name : folder.names())
    if (name.ends_with(".totals")) found.push_back(folder.path + "/" + name);
  return found;
}

void sums_of_threads_are_their_own_and_can_be_read_meanwhile() {
  Folder folder;
  event_log.keeps_totals = true;
  CHECK(event_log.open(folder.path.c_str(), kNoLimit) == 0);
  constexpr int kPairs = 20'000;
  std::atomic<int> num_halfway{0};
  std::atomic<bool> go_on{false};
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      record_pairs(5, kPairs / 2);
      ++num_halfway;
      while (!go_on.load()) std::this_thread::yield();
      record_pairs(5, kPairs / 2);
    });
  while (num_halfway.load() < 3) std::this_thread::yield();
  using Entries = std::map<std::vector<std::uint32_t>, std::uint64_t>;
  const Entries half{{{5}, kPairs / 2}, {{5, 6}, kPairs / 2}}, whole{{{5}, kPairs}, {{5, 6}, kPairs}};
  CHECK(totals_files(folder).size() == 3);
  for (const auto& file : totals_files(folder)) CHECK(entries(file) == half);
  go_on.store(true);
  for (auto& thread : threads) thread.join();
  event_log.close();
  CHECK(totals_files(folder).size() == 3);
  for (const auto& file : totals_files(folder)) CHECK(entries(file) == whole);
}

void sums_of_a_killed_child_hold_what_it_did_and_its_parents_what_that_did() {
  Folder folder;
  event_log.keeps_totals = true;
  CHECK(event_log.open(folder.path.c_str(), kNoLimit) == 0);
  thread_log.begin({.site = 7});
  const std::string own = totals_files(folder)[0];
  const pid_t child = ::fork();
  if (child == 0) {
    record_pairs(20, 123);
    ::raise(SIGKILL);
  }
  int status;
  CHECK(::waitpid(child, &status, 0) == child && WIFSIGNALED(status));
  thread_log.end(7);
  thread_log.finish();
  event_log.close();
  using Entries = std::map<std::vector<std::uint32_t>, std::uint64_t>;
  const Entries parents{{{7}, 1}}, childs{{{7}, 1}, {{7, 20}, 123}, {{7, 20, 21}, 123}};
  CHECK(totals_files(folder).size() == 2);
  for (const auto& file : totals_files(folder)) CHECK(entries(file) == (file == own ? parents : childs));
}

void sums_keep_their_places_when_sites_are_left_out_of_order_or_in_other_lanes_or_find_no_room() {
  Folder folder;
  event_log.keeps_totals = true;
  CHECK(event_log.open(folder.path.c_str(), kNoLimit) == 0);
  thread_log.begin({.site = 1});
  thread_log.begin({.site = 2});
  thread_log.begin({.site = 3});
  thread_log.end(1);  // now in 2, 3
  thread_log.begin({.site = 4});
  thread_log.end(4);
  thread_log.end(3);
  thread_log.end(2);
  thread_log.begin({.site = 7});
  thread_log.lane(5);
  thread_log.begin({.site = 8});
  thread_log.lane(0);
  thread_log.lane(5);
  thread_log.end(8);
  thread_log.end(7);  // lane 0's: stays
  thread_log.begin({.site = 9});
  thread_log.end(9);
  thread_log.lane(0);
  thread_log.end(7);
  for (std::uint32_t site = 100; site < 100 + 2 * kMostPaths; ++site) {
    thread_log.begin({.site = site});
    thread_log.begin({.site = 1});
    thread_log.end(1);
    thread_log.end(site);
  }
  thread_log.begin({.site = 1});
  thread_log.end(1);
  thread_log.begin({.site = 1});
  thread_log.begin({.site = 100 + kMostPaths});  // no room for it, nor for what is in it
  thread_log.begin({.site = 1});
  thread_log.lane(5);
  thread_log.lane(0);
  thread_log.end(1);
  thread_log.end(100 + kMostPaths);
  thread_log.begin({.site = 2});  // still in 1
  thread_log.end(2);
  thread_log.end(1);
  const std::string file = totals_files(folder)[0];
  thread_log.finish();
  event_log.close();
  auto found = entries(file);
  CHECK((found[{1}] == 3) && (found[{1, 2}] == 2) && (found[{1, 2, 3}] == 1) && (found[{2, 3, 4}] == 1));
  CHECK((found[{7, 8}] == 1) && (found[{7, 9}] == 1) && found.count({9}) == 0);
  CHECK((found[{100, 1}] == 1) && found.count({100 + kMostPaths}) == 0);
}

void sums_of_a_thread_begin_anew_where_those_before_ended_in_a_lane() {
  std::map<std::vector<std::uint32_t>, std::uint64_t> found;
  for (int i = 0; i < 2; ++i) {
    Folder folder;
    event_log.keeps_totals = true;
    CHECK(event_log.open(folder.path.c_str(), kNoLimit) == 0);
    for (const std::uint32_t site : {1, 2}) {
      thread_log.begin({.site = site});
      thread_log.end(site);
    }
    thread_log.begin({.site = 1});
    thread_log.lane(5);
    const std::string file = totals_files(folder)[0];
    thread_log.finish();
    event_log.close();
    found = entries(file);
  }
  CHECK(found[{1}] == 2 && found[{2}] == 1);
}

void the_counters_time_is_the_kernels_and_never_goes_back() {
  ThreadClock clock;
  clock.start(first_moment());
  std::uint64_t last = 0;
  for (const std::uint64_t begin = monotonic_ns(); monotonic_ns() < begin + 60'000'000;) {
    const std::uint64_t before = monotonic_ns(), now = clock.now(), after = monotonic_ns();
    CHECK(now >= last);
    // Wherever this thread is held up, the kernel's clock goes on before and after.
    CHECK((now + 100'000 >= before) && (now <= after + 100'000));
    last = now;
  }
  clock.start(Moment{});
  CHECK(clock.now() >= last);
}

void the_counters_time_is_the_kernels_soon_after_a_suspension_in_which_the_counter_went_on() {
  ThreadClock clock;
  // Half an hour of which the kernel's clock knows a tenth of a second: what the rate is measured over.
  clock.start({read_counter() - 5'000'000'000'000, monotonic_ns() - 100'000'000});
  clock.now();
  for (const std::uint64_t begin = monotonic_ns(); monotonic_ns() < begin + 20'000'000;) {
  }
  CHECK(clock.now() + 5'000'000 >= monotonic_ns());
}

void a_thread_holds_no_file_open_and_its_segment_is_cut_all_the_same() {
  Folder folder;
  CHECK(event_log.open(folder.path.c_str(), kNoLimit) == 0);
  const int before = ::dup(0);
  ::close(before);  // the number that whatever is opened next will have
  std::thread([&] {
    record_pairs(1, 10);
    const int mine = ::dup(0);
    CHECK(mine == before);
    ::close(mine);
  }).join();
  event_log.close();
  for (const auto& name : folder.names()) {
    struct stat about;
    CHECK(::stat((folder.path + "/" + name).c_str(), &about) == 0 && about.st_size < 1024);
  }
}

void a_file_that_lies_where_a_segment_lay_is_not_cut() {
  Folder folder;
  CHECK(event_log.open(folder.path.c_str(), kNoLimit) == 0);
  std::string mine;
  std::thread([&] {
    record_pairs(1, 10);
    for (const auto& name : folder.names())
      if (name != "shared") mine = folder.path + "/" + name;
    CHECK(::unlink(mine.c_str()) == 0);
    const int fd = ::open(mine.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(fd >= 0 && ::ftruncate(fd, 100'000) == 0);
    ::close(fd);
  }).join();
  event_log.close();
  struct stat about;
  CHECK(::stat(mine.c_str(), &about) == 0 && about.st_size == 100'000);
}

}  // namespace

int main() {
  std::printf("no random draws\n");
  the_counters_time_is_the_kernels_and_never_goes_back();
  the_counters_time_is_the_kernels_soon_after_a_suspension_in_which_the_counter_went_on();
  threads_write_files_of_their_own();
  closing_while_threads_record_is_safe();
  a_forked_child_goes_on_in_files_of_its_own();
  a_killed_process_leaves_every_event_it_wrote();
  the_limit_holds_for_all_threads_and_says_what_was_dropped();
  a_thread_holds_no_file_open_and_its_segment_is_cut_all_the_same();
  a_file_that_lies_where_a_segment_lay_is_not_cut();
  sites_left_out_of_order_or_never_entered_do_no_harm();
  only_the_outermost_site_ends_a_step_and_collapsing_sites_are_written_once();
  lanes_hold_sites_while_others_run_without_limit_to_their_number();
  what_a_lane_leaves_is_timed_also_above_a_site_that_collapsed();
  sums_of_threads_are_their_own_and_can_be_read_meanwhile();
  sums_of_a_killed_child_hold_what_it_did_and_its_parents_what_that_did();
  sums_keep_their_places_when_sites_are_left_out_of_order_or_in_other_lanes_or_find_no_room();
  sums_of_a_thread_begin_anew_where_those_before_ended_in_a_lane();
}
