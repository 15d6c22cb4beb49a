// A process is killed between every two writes it makes under the lock, each once. After each
// death: the lock is free, sums and counts are exact, no row is torn, and the slots the dead
// process held are used again.
//
// A dry run of the scenario counts the crash points it passes; then for k = 0, 1, ... a child runs
// the same scenario on a fresh table and kills itself at the k-th. Repairs are killed as well: a
// second child inherits the lock of the first and dies at every point of the repair.
//
// Over 400 lines: the scenarios together die at all crash points there are, which is checked at the end.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <string>

#include "stacked.hpp"

using namespace drivetrain;
using namespace drivetrain::test;

namespace {

long points_left = -1;  // kill at zero; negative: only count
long points_passed = 0;
// Where the last child was killed, which it tells in memory that it shares; and how many were, where.
char* last_point = static_cast<char*>(
    mmap(nullptr, 64, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
std::map<std::string, long> deaths;

void at_crash_point(const char* name) {
  ++points_passed;
  if (points_left == 0) {
    std::snprintf(last_point, 64, "%s", name);
    kill(getpid(), SIGKILL);
  }
  if (points_left > 0) --points_left;
}

constexpr std::uint64_t kCapacity = 40, kStackedRows = 12, kStackedFrames = 24,
                        kSequenceRows = 10;

// New leaves for all whole rows, in an order in which no two neighbours follow each other: enough
// changes for the tree to add them to its upper levels by a table.
void update_all(ReplayTable& table) {
  std::uint64_t keys[kCapacity], num_keys = 0, num_stale = 0;
  float leaves[kCapacity];
  for (std::uint64_t k = 0; k < kCapacity; ++k) {
    const auto slot = static_cast<std::uint32_t>(k * 17 % kCapacity);
    const std::uint32_t generation = table.row(slot).generation.load();
    if (!is_committed(generation)) continue;
    leaves[num_keys] = 0.25f + static_cast<float>(k);
    keys[num_keys++] = Key::make(slot, generation);
  }
  CHECK(num_keys > 20);
  CHECK(table.update_priorities(keys, leaves, leaves, num_keys, table.alpha(), &num_stale) == Status::kOk);
  CHECK(num_stale == 0);
}

// Everything that writes under the lock: inserts that wrap, updates, a growing unit.
void scenario(ReplayTable& table) {
  CHECK(insert_tagged(table, 17, 1000));
  std::vector<Draw> draws(8);
  std::vector<std::uint64_t> tags(8), keys(8);
  CHECK(sample_tagged(table, 8, true, draws.data(), tags.data()) == Status::kOk);
  float leaves[8];
  for (int i = 0; i < 8; ++i) {
    keys[i] = Key::make(draws[i].slot, draws[i].generation);
    leaves[i] = 0.5f + static_cast<float>(i);
  }
  std::uint64_t num_stale = 0;
  CHECK(table.update_priorities(keys.data(), leaves, leaves, 8, table.alpha(), &num_stale) == Status::kOk);
  for (int i = 0; i < 8; ++i) keys[i] = Key::make(i, 2);
  CHECK(retag(table, keys.data(), 8, 1500) == 0);
  CHECK(insert_tagged(table, 30, 2000));
  update_all(table);
  for (int i = 0; i < 8; ++i) leaves[i] = 1e15f;  // outgrows the unit
  CHECK(sample_tagged(table, 8, true, draws.data(), tags.data()) == Status::kOk);
  for (int i = 0; i < 8; ++i) keys[i] = Key::make(draws[i].slot, draws[i].generation);
  if (table.config().prioritized)
    CHECK(table.update_priorities(keys.data(), leaves, leaves, 2, table.alpha(), &num_stale) == Status::kOk);
}

void uniform_scenario(ReplayTable& table) {
  CHECK(insert_tagged(table, 17, 1000));
  std::uint64_t keys[2] = {Key::make(16, 2), Key::make(3, 2)};
  CHECK(retag(table, keys, 2, 1500) == 0);
  CHECK(insert_tagged(table, 30, 2000));
}

// All rows end, one is in flight meanwhile, and others begin anew.
void clearing_scenario(ReplayTable& table) {
  CHECK(insert_tagged(table, 30, 1000));
  Claim claim[1];
  std::size_t num = 0;
  CHECK(table.reserve(1, claim, &num) == Status::kOk);
  CHECK(insert_tagged(table, 5, 2000));
  CHECK(table.clear() == Status::kOk);
  CHECK(table.num_committed() == 0 && table.num_used() == 31 && table.header().next_slot == 31);
  CHECK(table.commit(claim, 1) == Status::kOk);
  CHECK(insert_tagged(table, 20, 3000));
  CHECK(table.num_committed() == 21 && table.num_used() == kCapacity && table.header().next_slot == 11);
  CHECK(table.clear() == Status::kOk);
  CHECK(table.num_committed() == 0 && table.num_used() == 0 && table.header().next_slot == 0);
  CHECK(insert_tagged(table, 7, 4000));
  CHECK(table.num_committed() == 7 && table.num_used() == 7);
  CHECK(locked_and_consistent(table));
}

// The field of their own of all whole rows, as it is: newest rows of a list and others.
void rewrite_stacks(ReplayTable& table) {
  for (std::uint32_t slot = 0; slot < kStackedRows; ++slot) {
    const std::uint32_t generation = table.row(slot).generation.load();
    if (!is_committed(generation)) continue;
    Tag tag;
    copy_from_shared(&tag, table.fields(slot) + kLinks, sizeof tag);
    std::uint64_t key = Key::make(slot, generation), num_stale = 0;
    const NewField field{kLinks, sizeof tag, reinterpret_cast<const unsigned char*>(&tag)};
    CHECK(table.rewrite(&key, 0, 1, &field, 1, &num_stale) == Status::kOk);
    CHECK(num_stale == 0 && key == Key::make(slot, generation + 2));
  }
  CHECK(locked_and_consistent(table));
}

// Rows that are overwritten, that end with their frames, and that are dropped; a batch given back.
void stacked_scenario(ReplayTable& table) {
  StackedWriter steady(table, 2, 2, 1, 9), resetting(table, 1, 1, 100, 1);
  for (int t = 0; t < 6; ++t) CHECK(steady.step() == Status::kOk);
  rewrite_stacks(table);
  for (int t = 0; t < 6; ++t) CHECK(resetting.step() == Status::kOk);
  for (int t = 0; t < 4; ++t) CHECK(steady.step() == Status::kOk);
  CHECK(table.clear() == Status::kOk);
  CHECK(table.num_committed() == 0);
  for (int t = 0; t < 4; ++t) CHECK(steady.step() == Status::kOk);
  Claim claims[kStackedFrames], more[kStackedFrames], row[1], other[1];
  std::size_t num = 0;
  const FrameBatch two{claims, 2, nullptr, 0}, all{more, kStackedFrames, nullptr, 0};
  CHECK(table.reserve(1, row, &num, &two) == Status::kOk);
  CHECK(table.reserve(1, other, &num, &all) == Status::kBusy);  // two are in flight
  const std::uint64_t gone[6] = {Key::make(0, 2), Key::make(0, 2), Key::make(0, 2),
                                 Key::make(0, 2), Key::make(0, 2), Key::make(0, 2)};
  CHECK(table.commit_framed(row, 1, nullptr, nullptr, gone, &two) == Status::kOk);
  CHECK(table.header().num_dropped > 0);
}

bool killed_at(ReplayTable& table, long point, void (*run)(ReplayTable&)) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    points_left = point;
    run(table);
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
    if (point >= 0) ++deaths[last_point];
    return true;
  }
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return false;
}

void only_lock(ReplayTable& table) { CHECK(locked_and_consistent(table)); }

// Extremes that are right once they are asked for, and not only where nothing is dirty.
void expect_right_extremes(ReplayTable& table) {
  if (!table.config().keeps_extremes()) return;
  ReplayTable::Lock lock(table);
  CHECK(extremes_are_right(table.tree(), kCapacity));
}

void expect_sound(ReplayTable& table) {
  CHECK(locked_and_consistent(table));
  expect_right_extremes(table);
  std::uint64_t in_flight = 0;
  for (std::uint64_t slot = 0; slot < kCapacity; ++slot)
    in_flight += (table.row(slot).generation.load() & 1) && table.row(slot).owner.load() != 0;
  CHECK(in_flight <= 30);  // at most what the dead process was writing
  // Everything is used again: after one round of the ring no slot is orphaned, all rows are new.
  for (int i = 0; i < 4; ++i) CHECK(insert_tagged(table, 10, 9000 + 10u * i));
  CHECK(table.header().num_committed == kCapacity);
  std::vector<Draw> draws(400);
  std::vector<std::uint64_t> tags(400);
  CHECK(sample_tagged(table, 400, true, draws.data(), tags.data()) == Status::kOk);
  for (std::uint64_t tag : tags) CHECK(tag >= 9000);
  CHECK(locked_and_consistent(table));
}

// The same for a framed table, whose rows the checker of stacks knows.
void expect_sound_stacks(ReplayTable& table) {
  CHECK(locked_and_consistent(table));
  std::vector<Draw> draws(100);
  std::vector<Tag> tags(100);
  if (table.header().num_committed > 0)
    CHECK(sample_stacked(table, 100, true, draws.data(), tags.data(), 2) == Status::kOk);
  StackedWriter writer(table, 1, 1, 1000, 100);
  for (std::uint64_t t = 0; t < kStackedFrames; ++t) {
    CHECK(writer.step() == Status::kOk);
    CHECK(locked_and_consistent(table));
  }
  // All rows are whole again, and all frames: nothing stays behind with the dead.
  CHECK(table.header().num_committed == kStackedRows);
  for (std::uint64_t slot = 0; slot < kStackedFrames; ++slot)
    CHECK(is_committed(table.frames().frame(slot).generation.load()));
  CHECK(sample_stacked(table, 100, true, draws.data(), tags.data()) == Status::kOk);
  for (const Tag& tag : tags) CHECK(tag.stream == 1000);
}

void sequence_scenario(ReplayTable& table) {
  SequenceStackedWriter long_ones(table, 2, 1, 11), short_ones(table, 1, 100, 3);
  for (int t = 0; t < 13; ++t) CHECK(long_ones.step() == Status::kOk);
  CHECK(table.clear() == Status::kOk);
  for (int t = 0; t < 13; ++t) CHECK(long_ones.step() == Status::kOk);
  for (int t = 0; t < 7; ++t) CHECK(short_ones.step() == Status::kOk);
}

void expect_sound_sequences(ReplayTable& table) {
  CHECK(locked_and_consistent(table));
  std::vector<Draw> draws(50);
  std::vector<Tag> tags(50);
  if (table.header().num_committed > 0)
    CHECK(sample_sequences(table, 50, draws.data(), tags.data()) == Status::kOk);
  SequenceStackedWriter writer(table, 1, 1000, 1000);
  for (std::uint64_t t = 0; t < 40; ++t) CHECK(writer.step() == Status::kOk);
  CHECK(locked_and_consistent(table));
  CHECK(table.header().num_committed == kSequenceRows);
  CHECK(sample_sequences(table, 50, draws.data(), tags.data()) == Status::kOk);
  for (const Tag& tag : tags) CHECK(tag.stream == 1000);
}

void death_between_any_two_writes_to_frames_is_healed(const char* what, const TableConfig& config,
                                                      void (*scenario)(ReplayTable&),
                                                      void (*expect)(ReplayTable&)) {
  SharedTable counted(config);
  points_passed = 0;
  scenario(*counted);
  const long num_points = points_passed;
  long repairs_killed = 0;
  for (long point = 0; point < num_points; ++point) {
    SharedTable table(config);
    CHECK(killed_at(*table, point, scenario));
    if (point % 23 == 0)
      for (long at = 0; killed_at(*table, at, only_lock); ++at) ++repairs_killed;
    expect(*table);
  }
  CHECK(num_points > 300 && repairs_killed > 0);
  std::printf("%s, %s: killed at each of %ld points, and at %ld points of repairs\n", what,
              config.prioritized ? "prioritized" : "uniform", num_points, repairs_killed);
}

long count_points(const TableConfig& config, void (*run)(ReplayTable&)) {
  SharedTable table(config);
  points_passed = 0;
  run(*table);
  return points_passed;
}

void death_between_any_two_writes_is_healed(const char* what, const TableConfig& config,
                                            void (*run)(ReplayTable&)) {
  const long num_points = count_points(config, run);
  CHECK(num_points > (config.prioritized ? 300 : 100));
  long repairs_killed = 0;
  for (long point = 0; point < num_points; ++point) {
    SharedTable table(config);
    CHECK(killed_at(*table, point, run));
    if (point % 37 == 0)  // whoever inherits the lock dies as well, at each point of the repair
      for (long at = 0; killed_at(*table, at, only_lock); ++at) ++repairs_killed;
    expect_sound(*table);
  }
  CHECK(repairs_killed > 0);
  std::printf("%s: killed at each of %ld points, and at %ld points of repairs\n",
              what, num_points, repairs_killed);
}

// By the last alpha, and by it alone, one leaf outgrows the unit; the largest so far that others are one unit each then.
struct Change {
  float largest;
  double first, before, last;
};
Change change_of_alpha;
constexpr Change kLarge{1.5e5f, 0.6, 0.75, 0.9}, kLargest{1e30f, 0.1, 0.08, 0.9};

float priority_of_slot(std::uint64_t slot) {
  return slot == 11 ? change_of_alpha.largest : 0.25f * static_cast<float>(1 + slot * slot);
}

// A full table whose rows have known priorities, and whose alpha has changed before: its log is used.
void give_known_priorities(ReplayTable& table) {
  const std::uint64_t capacity = table.config().capacity;
  CHECK(table.set_alpha(change_of_alpha.first, false) == Status::kOk);
  CHECK(insert_tagged(table, capacity, 1));
  std::uint64_t keys[kCapacity], num_stale = 0;
  float priorities[kCapacity], leaves[kCapacity];
  for (std::uint32_t slot = 0; slot < capacity; ++slot) {
    keys[slot] = Key::make(slot, 2);
    priorities[slot] = priority_of_slot(slot);
    leaves[slot] = leaf_of(priorities[slot], table.alpha());
  }
  CHECK(table.update_priorities(keys, leaves, priorities, capacity, table.alpha(), &num_stale) == Status::kOk);
  CHECK(table.set_alpha(change_of_alpha.before, true) == Status::kOk);
}

void raise_alpha(ReplayTable& table) { CHECK(table.set_alpha(change_of_alpha.last, true) == Status::kOk); }

// Whoever inserts and updates afterwards completes a change that its process did not live to end.
void expect_priorities_kept(ReplayTable& table) {
  const std::uint64_t capacity = table.config().capacity;
  CHECK(locked_and_consistent(table));
  for (int i = 0; i < 4; ++i) {
    const std::uint64_t key = Key::make(7, 2);
    const float priority = priority_of_slot(7), leaf = leaf_of(priority, table.alpha());
    std::uint64_t num_stale = 0;
    CHECK(table.update_priorities(&key, &leaf, &priority, 1, table.alpha(), &num_stale) == Status::kOk);
  }
  ReplayTable::Lock lock(table);
  CHECK(table.is_settled());
  CHECK(table.alpha() == change_of_alpha.last || table.alpha() == change_of_alpha.before);
  for (std::uint64_t slot = 0; slot < capacity; ++slot) {
    const double leaf = leaf_of(priority_of_slot(slot), table.alpha());
    CHECK(std::abs(table.tree().leaf(slot) - leaf) < std::max(1e-4 * leaf, table.tree().unit()));
    CHECK(table.tree().leaf(slot) * table.tree().units_per_one() <= 0x1p48);
  }
  CHECK(table.is_consistent());
}

void death_while_alpha_changes_turns_no_leaf_twice(std::uint64_t capacity, const Change& change) {
  change_of_alpha = change;
  SharedTable dry(extremes_config(capacity));
  give_known_priorities(*dry);
  points_passed = 0;
  raise_alpha(*dry);
  const long num_points = points_passed;
  CHECK(num_points > 2 * static_cast<long>(capacity));
  long repairs_killed = 0;
  for (long point = 0; point < num_points; ++point) {
    SharedTable table(extremes_config(capacity));
    give_known_priorities(*table);
    CHECK(killed_at(*table, point, raise_alpha));
    if (point % 11 == 0)
      for (long at = 0; killed_at(*table, at, only_lock); ++at) ++repairs_killed;
    expect_priorities_kept(*table);
  }
  CHECK(repairs_killed > 0);
  std::printf("change of alpha: killed at each of %ld points, and at %ld points of repairs\n",
              num_points, repairs_killed);
}

// Uniform draws look for rows among the slots in use, and would find few of many.
void a_repair_takes_no_slots_into_use_that_clearing_has_given_back() {
  SharedTable table(tagged_config(kCapacity, false));
  CHECK(insert_tagged(*table, 30, 1));
  CHECK(table->clear() == Status::kOk);
  CHECK(insert_tagged(*table, 3, 100));
  CHECK(killed_at(*table, 0, [](ReplayTable& shared) { insert_tagged(shared, 1, 200); }));
  CHECK(locked_and_consistent(*table));
  CHECK(table->header().num_repairs == 1 && table->num_used() == 3 && table->header().next_slot == 3);
}

// Three rows of an episode's start hang under one frame, in slots 2, 3 and 0.
void a_repair_hangs_rows_in_the_order_of_the_ring() {
  SharedTable table(stacked_config(4, 30));
  StackedWriter before(*table, 1, 1, 1, 1000), start(*table, 1, 1, 2, 1000), after(*table, 1, 1, 3, 1000);
  for (int t = 0; t < 2; ++t) CHECK(before.step() == Status::kOk);  // frames 0 .. 2
  for (int t = 0; t < 3; ++t) CHECK(start.step() == Status::kOk);   // frames 3 .. 6
  const bool killed = killed_at(*table, 0, [](ReplayTable& shared) {
    Claim claim[1];
    std::size_t num = 0;
    (void)shared.reserve(1, claim, &num);
  });
  CHECK(killed);
  for (int t = 0; t < 3; ++t) {  // slots 1, 2, 3: the third row of the start is left
    CHECK(after.step() == Status::kOk);
    CHECK(locked_and_consistent(*table));
  }
  Claim claims[23];  // frames 11 .. 29, 0 .. 3: its oldest
  const FrameBatch batch{claims, 23, nullptr, 0};
  std::size_t no_rows = 0;
  CHECK(table->reserve(0, nullptr, &no_rows, &batch) == Status::kOk && claims[22].slot == 3);
  CHECK(table->header().num_committed == 3);
}

// Draws need no lock, so it is not a locker that finds out.
void a_sampler_repairs_what_a_dead_process_left_half_done() {
#if defined(__GLIBC__)
  const long num_points = count_points(tagged_config(kCapacity), scenario);
  for (long point = 0; point < num_points; point += 7) {
    SharedTable table(tagged_config(kCapacity));
    CHECK(killed_at(*table, point, scenario));
    Draw draws[4];
    std::uint64_t tags[4];
    (void)sample_tagged(*table, 4, true, draws, tags);  // there may be no rows yet
    CHECK(table->header().num_repairs == 1 && table->is_consistent());
  }
#endif
}

void a_process_killed_while_it_copies_leaves_its_rows_for_others() {
  SharedTable table(tagged_config(kCapacity));
  CHECK(insert_tagged(*table, 5, 1));
  const bool killed = killed_at(*table, -1, [](ReplayTable& shared) {
    Claim claims[20];
    std::size_t num = 0;
    CHECK(shared.reserve(20, claims, &num) == Status::kOk);
    write_tag(shared, claims[0], 77);
    kill(getpid(), SIGKILL);
  });
  CHECK(killed);
  CHECK(table->header().num_committed == 5);
  expect_sound(*table);
}

}  // namespace

int main() {
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  crash_point_hook = at_crash_point;
  death_between_any_two_writes_is_healed("prioritized", tagged_config(kCapacity), scenario);
  death_between_any_two_writes_is_healed("with extremes", extremes_config(kCapacity), scenario);
  death_between_any_two_writes_is_healed("uniform", tagged_config(kCapacity, false),
                                         uniform_scenario);
  for (bool prioritized : {true, false})
    death_between_any_two_writes_is_healed("cleared", tagged_config(kCapacity, prioritized), clearing_scenario);
  for (const Change& change : {kLarge, kLargest}) {
    death_while_alpha_changes_turns_no_leaf_twice(kCapacity, change);
    death_while_alpha_changes_turns_no_leaf_twice(kRescaledPerHold - 1, change);  // all in one hold of the lock
  }
  for (bool prioritized : {true, false})
    death_between_any_two_writes_to_frames_is_healed(
        "stacks", stacked_config(kStackedRows, kStackedFrames, prioritized), stacked_scenario,
        expect_sound_stacks);
  death_between_any_two_writes_to_frames_is_healed(
      "sequences", sequence_config(kSequenceRows, 40), sequence_scenario, expect_sound_sequences);
  a_repair_takes_no_slots_into_use_that_clearing_has_given_back();
  a_repair_hangs_rows_in_the_order_of_the_ring();
  a_sampler_repairs_what_a_dead_process_left_half_done();
  a_process_killed_while_it_copies_leaves_its_rows_for_others();
  for (const auto& [name, count] : deaths) std::printf("  %-24s %ld\n", name.c_str(), count);
  for (const char* name : {"reserve/owner", "reserve/generation", "reserve/num_committed", "reserve/num_used",
                           "reserve/next_slot", "commit/generation", "commit/num_committed", "commit/num_inserted",
                           "update/max_priority", "tree/leaf", "tree/inner", "tree/root", "tree/unit",
                           "rebuild/begin", "rebuild/leaf", "rebuild/inner", "rebuild/root", "rebuild/end", "extremes/dirty",
                           "extremes/least", "extremes/largest", "extremes/scanned",
                           "extremes/forget", "alpha/before", "alpha/alpha", "alpha/log",
                           "alpha/log_first", "alpha/rescaled", "frames/owner", "frames/generation",
                           "frames/next_frame", "frames/publish", "frames/next_dependent", "frames/dependents",
                           "frames/end_dependents", "frames/disown", "kill/owner", "kill/generation",
                           "kill/num_committed", "commit/drop", "commit/num_dropped", "clear/max_priority",
                           "clear/num_used", "clear/next_slot", "rewrite/owner", "rewrite/generation",
                           "rewrite/publish", "frames/rehang_first", "frames/rehang", "frames/clear_dependents",
                           "rebuild/put", "repair/num_committed", "repair/num_repairs", "repair/num_used"})
    CHECK(deaths.count(name) == 1);
  std::puts("ok");
}
