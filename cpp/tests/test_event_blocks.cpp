// Blocks of steps in which instruments are muted: how they are chosen, and what a recording says of them.
#include <sys/wait.h>

#include <thread>

#include "tests/event_log_folder.hpp"

using namespace drivetrain;

namespace {

/// Takes steps of a fixed length on a clock of its own; returns the masks of whole rounds.
std::vector<std::vector<std::uint32_t>> rounds_of(BlockPlan& plan, std::uint64_t step_ns, std::uint32_t active,
                                                  int num_rounds, std::vector<std::uint64_t>* lengths = nullptr) {
  std::vector<std::vector<std::uint32_t>> rounds;
  std::uint64_t now = 1, steps = 0;
  while (static_cast<int>(rounds.size()) <= num_rounds) {
    now += step_ns;
    ++steps;
    BlockPlan::Block block;
    if (!plan.boundary() || !plan.next(now, active, block)) continue;
    if (lengths != nullptr && !rounds.empty()) lengths->push_back(steps);
    steps = 0;
    if (block.begins_round) rounds.emplace_back();
    rounds.back().push_back(block.mask);
  }
  rounds.pop_back();
  return rounds;
}

void a_round_mutes_each_way_once_in_random_order_and_its_blocks_are_as_many_steps_each() {
  BlockPlan plan;
  plan.start(7, 10);
  std::vector<std::uint64_t> lengths;
  const auto one = rounds_of(plan, 100'000, 1, 200, &lengths);
  std::vector<int> places(10);
  for (const auto& round : one) {
    CHECK(round.size() == 10);
    int muted = 0;
    for (std::size_t i = 0; i < round.size(); ++i) {
      CHECK(round[i] == 0 || round[i] == kMuteAll);
      muted += round[i] != 0;
      places[i] += round[i] != 0;
    }
    CHECK(muted == 1);
  }
  for (const int times : places) CHECK(times >= 5 && times <= 45);  // 20 expected, 4.2 the standard deviation
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    CHECK(lengths[i] == lengths[i / 10 * 10]);
    const std::uint64_t ns = lengths[i] * 100'000;
    CHECK(ns >= kBlockNs * 9 / 10 && ns <= 10 * kBlockNs);
  }
  plan.start(8, 10);
  for (const auto& round : rounds_of(plan, 100'000, 3, 20)) {
    CHECK(round.size() == 30);
    std::map<std::uint32_t, int> times;
    for (const std::uint32_t mask : round) ++times[mask];
    CHECK(times[0] == 27 && times[1] == 1 && times[2] == 1 && times[3] == 1);
  }
}

void gpus_are_one_more_way_of_muting_where_they_are_recorded() {
  BlockPlan plan;
  const auto times_of = [&](std::uint32_t active) {
    plan.start(9, 10);
    std::map<std::uint32_t, int> times;
    for (const auto& round : rounds_of(plan, 100'000, active, 20))
      for (const std::uint32_t mask : round) ++times[mask];
    return times;
  };
  using Times = std::map<std::uint32_t, int>;
  CHECK((times_of(1 | kMuteGpu) == Times{{0, 540}, {1, 20}, {kMuteGpu, 20}, {kMuteAll | kMuteGpu, 20}}));
  CHECK((times_of(kMuteGpu) == Times{{0, 180}, {kMuteAll | kMuteGpu, 20}}));
}

std::atomic<int> gpu_is_on{1}, num_switched{0};
std::atomic<bool> is_odd{false};

/// Steps until the GPU was switched some times, or a minute is over.
void take_steps_until_switched(int times) {
  for (const std::uint64_t begin = monotonic_ns(); num_switched < times && monotonic_ns() < begin + 60'000'000'000;) {
    thread_log.begin({.site = 1});
    thread_log.end(1);
    thread_log.step(StepKind::kMarked);
  }
}

void one_thread_at_a_time_switches_gpus_and_leaves_them_switched_on() {
  Folder folder;
  CHECK(event_log.open(folder.path.c_str(), kNoLimit, 2) == 0);
  event_log.switch_gpu = [](bool is_on) {
    if (gpu_is_on.exchange(is_on) == is_on) is_odd = true;  // two threads would repeat each other
    ++num_switched;
  };
  std::thread other([] { take_steps_until_switched(6); });
  take_steps_until_switched(6);
  other.join();
  take_steps_until_switched(12);  // whoever is left goes on
  thread_log.finish();
  CHECK(num_switched >= 12 && gpu_is_on == 1 && !is_odd && event_log.gpu_switcher == 0);
  event_log.switch_gpu = nullptr;
  event_log.close();
  int num_threads = 0;
  for (const auto& [key, thread] : read_all(folder)) {
    std::uint32_t masks = 0;
    for (const Event& event : thread.events())
      if (event.kind == EventKind::kBlock) masks |= event.site;
    num_threads += (masks & kMuteGpu) != 0;
  }
  CHECK(num_threads == 1 || num_threads == 2);
}

void a_child_that_is_forked_while_its_parent_is_muted_records_what_it_leaves() {
  Folder folder;
  CHECK(event_log.open(folder.path.c_str(), kNoLimit) == 0);
  thread_log.lane(0);  // its time line begins
  thread_log.mute(kMuteAll);
  thread_log.begin({.site = 1});
  const pid_t child = ::fork();
  if (child == 0) {
    thread_log.end(1);
    thread_log.begin({.site = 2});
    thread_log.end(2);
    thread_log.finish();
    ::_exit(0);
  }
  int status;
  CHECK(::waitpid(child, &status, 0) == child && status == 0);
  thread_log.end(1);
  thread_log.finish();
  event_log.close();
  const auto events = read_all(folder)[{static_cast<std::uint32_t>(child), 0}].events();
  check_nested_and_ordered(events);
  CHECK(count(events, EventKind::kBegin) == 2 && count(events, EventKind::kEnd) == 2);
  CHECK(events.back().kind == EventKind::kThreadEnd);
}

void blocks_follow_steps_that_become_slower_and_are_never_empty() {
  BlockPlan plan;
  plan.start(1, 2);
  std::uint64_t now = 1;
  for (int i = 0; i < 1000; ++i) {
    now += i < 500 ? 1'000'000 : 300'000'000;  // then one step is longer than a block should be
    BlockPlan::Block block;
    if (plan.boundary()) plan.next(now, 1, block);
  }
  int boundaries = 0;
  for (int i = 0; i < 10; ++i) {
    BlockPlan::Block block;
    now += 300'000'000;
    if (plan.boundary()) ++boundaries, plan.next(now, 1, block);
  }
  CHECK(boundaries == 10);
}

void muted_blocks_are_counted_and_what_is_entered_then_is_resumed() {
  Folder folder;
  CHECK(event_log.open(folder.path.c_str(), kNoLimit, 2) == 0);
  const SiteUse training{.site = 1};
  const SiteUse step{.site = 2, .step = StepKind::kSimulated, .ends_step = true};
  std::uint64_t num_steps = 0, times_resumed = 0;
  int times_muted = 0;
  bool was_muted = false;
  // Long enough for some rounds and for a span entered while muted that outlasts it, however slow the machine; or a minute.
  for (const std::uint64_t begin = monotonic_ns();
       (times_muted < 4 || times_resumed == 0) && monotonic_ns() < begin + 60'000'000'000;) {
    bool is_left_out = was_muted;
    thread_log.begin(training);  // often longer than a block
    for (int i = 0; i < 1000; ++i) {
      thread_log.begin(step);
      for (const std::uint64_t from = monotonic_ns(); monotonic_ns() < from + 20'000;) {
      }
      thread_log.end(2);
      ++num_steps;
      const bool is_muted = thread_log.is_muted(step);
      times_muted += is_muted && !was_muted;
      was_muted = is_muted;
      times_resumed += is_left_out && !is_muted;
      is_left_out = is_left_out && is_muted;
    }
    thread_log.end(1);
  }
  thread_log.finish();
  event_log.close();
  const auto events = read_all(folder).begin()->second.events();
  check_nested_and_ordered(events);
  std::uint64_t counted = 0, cut_off = 0, written = 0, muted = 0, spans = 0, resumed = 0;
  bool is_whole = false;
  std::uint32_t mask = 0;
  for (const Event& event : events) {
    if (event.kind == EventKind::kBlock) mask = event.site, muted += mask != 0, is_whole = false;
    const bool is_simulated = event.value == static_cast<std::uint16_t>(Counter::kSteps) + 1;
    if (event.kind == EventKind::kCount && is_simulated && mask != 0) counted += event.site, cut_off += is_whole ? 0 : event.site;
    if (event.kind == EventKind::kCount && event.value == static_cast<std::uint16_t>(Counter::kSpans) && mask != 0)
      spans += event.site, is_whole = true;
    written += event.kind == EventKind::kStep;
    resumed += event.kind == EventKind::kBegin && (event.value & kResumed) != 0;
    if (mask != 0) CHECK(event.kind != EventKind::kBegin || (event.value & kResumed) != 0);
  }
  CHECK(muted >= 4 && times_resumed > 0 && resumed == times_resumed);
  CHECK(counted > cut_off && spans >= counted - cut_off);
  CHECK(written + counted == num_steps);
  // Only the last block was not finished, and only where it is muted do events not tell of its steps.
  CHECK(mask != 0 || cut_off == 0);
}

void a_thread_with_lanes_has_no_blocks() {
  Folder folder;
  CHECK(event_log.open(folder.path.c_str(), kNoLimit, 2) == 0);
  thread_log.lane(1);
  for (const std::uint64_t begin = monotonic_ns(); monotonic_ns() < begin + 60'000'000;)
    thread_log.step(StepKind::kMarked);
  thread_log.finish();
  event_log.close();
  CHECK(count(read_all(folder).begin()->second.events(), EventKind::kBlock) == 0);
}

}  // namespace

int main() {
  std::printf("seeds 7, 8, 9 and 1; a clock of their own for the first two\n");
  a_round_mutes_each_way_once_in_random_order_and_its_blocks_are_as_many_steps_each();
  gpus_are_one_more_way_of_muting_where_they_are_recorded();
  one_thread_at_a_time_switches_gpus_and_leaves_them_switched_on();
  blocks_follow_steps_that_become_slower_and_are_never_empty();
  muted_blocks_are_counted_and_what_is_entered_then_is_resumed();
  a_thread_with_lanes_has_no_blocks();
  a_child_that_is_forked_while_its_parent_is_muted_records_what_it_leaves();
}
