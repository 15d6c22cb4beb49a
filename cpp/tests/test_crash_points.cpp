// A process is killed between every two writes it makes under the lock, each once. After each
// death: the lock is free, sums and counts are exact, no row is torn, and the slots the dead
// process held are used again.
//
// A dry run of the scenario counts the crash points it passes; then for k = 0, 1, ... a child runs
// the same scenario on a fresh table and kills itself at the k-th. Repairs are killed as well: a
// second child inherits the lock of the first and dies at every point of the repair.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <string>

#include "check.hpp"

using namespace drivetrain;
using namespace drivetrain::test;

namespace {

long points_left = -1;  // kill at zero; negative: only count
long points_passed = 0;
std::map<std::string, long>* names = nullptr;

void at_crash_point(const char* name) {
  ++points_passed;
  if (names) ++(*names)[name];
  if (points_left == 0) kill(getpid(), SIGKILL);
  if (points_left > 0) --points_left;
}

constexpr std::uint64_t kCapacity = 40;

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
  CHECK(table.update_priorities(keys, leaves, leaves, num_keys, &num_stale) == Status::kOk);
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
  CHECK(table.update_priorities(keys.data(), leaves, leaves, 8, &num_stale) == Status::kOk);
  CHECK(insert_tagged(table, 30, 2000));
  update_all(table);
  for (int i = 0; i < 8; ++i) leaves[i] = 1e15f;  // outgrows the unit
  CHECK(sample_tagged(table, 8, true, draws.data(), tags.data()) == Status::kOk);
  for (int i = 0; i < 8; ++i) keys[i] = Key::make(draws[i].slot, draws[i].generation);
  if (table.config().prioritized)
    CHECK(table.update_priorities(keys.data(), leaves, leaves, 2, &num_stale) == Status::kOk);
}

void uniform_scenario(ReplayTable& table) {
  CHECK(insert_tagged(table, 17, 1000));
  CHECK(insert_tagged(table, 30, 2000));
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
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return true;
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return false;
}

void only_lock(ReplayTable& table) { CHECK(locked_and_consistent(table)); }

void expect_sound(ReplayTable& table) {
  CHECK(locked_and_consistent(table));
  std::uint64_t in_flight = 0;
  for (std::uint64_t slot = 0; slot < kCapacity; ++slot)
    in_flight += table.row(slot).generation.load() & 1;
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

long count_points(bool prioritized, void (*run)(ReplayTable&)) {
  SharedTable table(tagged_config(kCapacity, prioritized));
  points_passed = 0;
  run(*table);
  return points_passed;
}

void death_between_any_two_writes_is_healed(bool prioritized, void (*run)(ReplayTable&)) {
  const long num_points = count_points(prioritized, run);
  CHECK(num_points > (prioritized ? 300 : 100));
  long repairs_killed = 0;
  for (long point = 0; point < num_points; ++point) {
    SharedTable table(tagged_config(kCapacity, prioritized));
    CHECK(killed_at(*table, point, run));
    if (point % 37 == 0)  // whoever inherits the lock dies as well, at each point of the repair
      for (long at = 0; killed_at(*table, at, only_lock); ++at) ++repairs_killed;
    expect_sound(*table);
  }
  CHECK(repairs_killed > 0);
  std::printf("%s: killed at each of %ld points, and at %ld points of repairs\n",
              prioritized ? "prioritized" : "uniform", num_points, repairs_killed);
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
  std::map<std::string, long> seen;
  names = &seen;
  count_points(true, scenario);
  names = nullptr;
  for (const auto& [name, count] : seen) std::printf("  %-24s %ld\n", name.c_str(), count);
  // A point that no test passes is a point nobody has died at.
  for (const char* name : {"reserve/owner", "reserve/generation", "reserve/num_committed", "reserve/num_used",
                           "reserve/next_slot", "commit/generation", "commit/num_committed", "commit/num_inserted",
                           "update/max_priority", "tree/leaf", "tree/inner", "tree/root", "tree/unit",
                           "rebuild/leaf", "rebuild/inner", "rebuild/root"})
    CHECK(seen.count(name) == 1);
  death_between_any_two_writes_is_healed(true, scenario);
  death_between_any_two_writes_is_healed(false, uniform_scenario);
  a_process_killed_while_it_copies_leaves_its_rows_for_others();
  std::puts("ok");
}
