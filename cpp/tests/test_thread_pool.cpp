// The thread pool alone: who does what, once, and who is gone afterwards.
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "check.hpp"
#include "drivetrain/process.hpp"
#include "drivetrain/shared_copy.hpp"
#include "drivetrain/thread_pool.hpp"

using namespace drivetrain;
using namespace drivetrain::test;

namespace {

// Runs `num_parts` parts and checks that each was done once, over when run() returns, and not by more
// threads than allowed; returns by how many.
std::size_t run_counted(ThreadPool& pool, unsigned num_threads, std::size_t num_parts) {
  std::vector<unsigned> done(num_parts);  // not atomic: a part is one thread's
  std::vector<std::thread::id> by(num_parts);
  pool.run(num_threads, num_parts, [&](std::size_t part) {
    ++done[part];
    by[part] = std::this_thread::get_id();
  });
  for (unsigned times : done) CHECK(times == 1);
  const std::set<std::thread::id> who(by.begin(), by.end());
  CHECK(who.size() <= std::max(1u, num_threads));
  return who.size();
}

void every_part_is_done_once_and_is_over_when_run_returns() {
  ThreadPool pool;
  Random random(1);
  for (int round = 0; round < 3000; ++round)
    run_counted(pool, static_cast<unsigned>(random.below(6)), random.below(40));
}

void helpers_take_their_share() {
  ThreadPool pool;
  // Each of three threads waits in its first part until all three have one.
  std::atomic<int> waiting{0};
  pool.run(3, 3, [&](std::size_t) {
    waiting.fetch_add(1);
    while (waiting.load() < 3) std::this_thread::yield();
  });
  CHECK(waiting.load() == 3);
}

void callers_in_several_threads_do_not_disturb_each_other() {
  ThreadPool pool;
  std::vector<std::thread> callers;
  for (std::uint64_t t = 0; t < 4; ++t)
    callers.emplace_back([&pool, t] {
      Random random(10 + t);
      for (int round = 0; round < 1000; ++round) run_counted(pool, 3, random.below(20));
    });
  for (std::thread& caller : callers) caller.join();
}

void the_work_sees_what_was_written_before_it() {
  ThreadPool pool;
  std::uint64_t input = 0;
  std::uint64_t seen[8] = {};
  for (std::uint64_t round = 1; round <= 2000; ++round) {
    input = round;
    pool.run(3, 8, [&](std::size_t part) { seen[part] = input; });
    for (std::uint64_t value : seen) CHECK(value == round);
  }
}

#ifndef DRIVETRAIN_TSAN  // it has threads of its own, and starts none after a fork
void pools_join_their_threads() {
  const long before = read_process_stat(getpid()).num_threads;
  for (int round = 0; round < 50; ++round) {
    ThreadPool pool;
    run_counted(pool, 4, 16);
    run_counted(pool, 5, 16);
    CHECK(read_process_stat(getpid()).num_threads >= before + 4);
  }
  // A joined thread may be in the kernel's list for another moment.
  while (read_process_stat(getpid()).num_threads > before) std::this_thread::yield();
}

bool others_sleep() {
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(thread.path() / "stat");
    std::string line;
    std::getline(file, line);
    const bool is_this = std::stol(thread.path().filename()) == ::gettid();
    if (!is_this && line.find(") S ") == std::string::npos) return false;
  }
  return true;
}

void a_forked_child_works_alone_and_ends() {
  ThreadPool pool;
  run_counted(pool, 3, 12);
  for (int round = 0; round < 5; ++round) {
    // A thread that allocates as this one forks leaves a lock behind that is taken for good in the child; the C
    // library's allocator sees to that, the address sanitizer's does not.
    while (!others_sleep()) std::this_thread::yield();
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      {
        ThreadPool& inherited = pool;
        if (run_counted(inherited, 3, 12) != 1) _exit(1);
        ThreadPool own;  // its own helpers, and their end
        run_counted(own, 3, 12);
      }
      pool.~ThreadPool();  // does not wait for threads that are the parent's
      _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    run_counted(pool, 3, 12);
  }
}
#endif

}  // namespace

int main() {
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  every_part_is_done_once_and_is_over_when_run_returns();
  helpers_take_their_share();
  callers_in_several_threads_do_not_disturb_each_other();
  the_work_sees_what_was_written_before_it();
#ifndef DRIVETRAIN_TSAN
  pools_join_their_threads();
  a_forked_child_works_alone_and_ends();
#endif
  std::puts("ok");
}
