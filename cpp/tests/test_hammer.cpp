// Threads insert, sample and update one small table as fast as they can; rows are tagged. Run under
// ThreadSanitizer: no race, no torn or unwritten row, exact sums at rest. Also the broadcast.
#include <atomic>
#include <cstring>
#include <thread>

#include "drivetrain/seqlock.hpp"
#include "stacked.hpp"

using namespace drivetrain;
using namespace drivetrain::test;

namespace {

void inserting(ReplayTable& table, std::uint64_t stream, int rounds) {
  Random random(stream);
  for (int i = 0; i < rounds; ++i)
    while (!insert_tagged(table, 1 + random.below(24), (stream << 40) + 1 + 24u * i)) std::this_thread::yield();
}

void learning(ReplayTable& table, std::uint64_t stream, int rounds, std::atomic<std::uint64_t>& stale) {
  Random random(stream);
  std::vector<Draw> draws(64);
  std::vector<std::uint64_t> tags(64), keys(64);
  float leaves[64];
  for (int i = 0; i < rounds; ++i) {
    if (sample_tagged(table, 64, i % 2, draws.data(), tags.data()) != Status::kOk) continue;
    for (int k = 0; k < 64; ++k) {
      keys[k] = Key::make(draws[k].slot, draws[k].generation);
      leaves[k] = static_cast<float>(random.uniform() * (random.below(50) == 0 ? 1e5 : 1.0)) + 1e-3f;
    }
    std::uint64_t num_stale = 0;
    if (table.config().prioritized)
      CHECK(table.update_priorities(keys.data(), leaves, leaves, 64, table.alpha(), &num_stale) == Status::kOk);
    stale.fetch_add(num_stale, std::memory_order_relaxed);
  }
}

void threads_never_see_a_torn_row_and_leave_exact_sums(const char* what, const TableConfig& config) {
  SharedTable table(config);
  std::atomic<std::uint64_t> stale{0};
  // Each thread views the table for itself, as each process does.
  std::vector<std::thread> threads;
  for (std::uint64_t t = 1; t <= 3; ++t)
    threads.emplace_back([&, t, view = *table]() mutable { inserting(view, t, 1500); });
  for (std::uint64_t t = 4; t <= 5; ++t)
    threads.emplace_back([&, t, view = *table]() mutable { learning(view, t, 800, stale); });
  if (config.prioritized)
    threads.emplace_back([view = *table]() mutable {
      for (int i = 0; i < 300; ++i) CHECK(view.set_alpha(i % 2 ? 0.4 : 0.9, i % 3 != 0) == Status::kOk);
    });
  for (auto& thread : threads) thread.join();
  CHECK(locked_and_consistent(*table));
  std::printf("%s: %llu stale updates skipped\n", what,
              static_cast<unsigned long long>(stale.load()));
}

void stacks(ReplayTable& table, std::uint64_t stream, int rounds) {
  Random random(stream);
  for (int i = 0; i < 10; ++i) {  // a new writer begins without chains
    StackedWriter writer(table, 1 + random.below(6), 1 + stream % 2, (stream << 16) + 100u * i,
                         1 + random.below(40));
    for (int t = 0; t < rounds / 10; ++t) CHECK(writer.step() == Status::kOk);
  }
}

void draw_stacks(ReplayTable& table, std::uint64_t stream, int rounds) {
  Random random(stream);
  std::vector<Draw> draws(16);
  std::vector<Tag> tags(16);
  std::uint64_t keys[16], num_stale = 0;
  float leaves[16];
  for (int i = 0; i < rounds; ++i) {
    if (sample_stacked(table, 16, i % 2, draws.data(), tags.data(), 2) != Status::kOk) continue;
    for (int k = 0; k < 16; ++k) {
      keys[k] = Key::make(draws[k].slot, draws[k].generation);
      leaves[k] = static_cast<float>(random.uniform()) + 1e-3f;
    }
    if (table.config().prioritized)
      CHECK(table.update_priorities(keys, leaves, leaves, 16, table.alpha(), &num_stale) == Status::kOk);
  }
}

// Few frames: most rows end with their frames. Few rows: most are overwritten.
void threads_never_see_a_torn_stack(bool prioritized, std::uint64_t capacity, std::uint64_t num_frames) {
  SharedTable table(stacked_config(capacity, num_frames, prioritized));
  std::vector<std::thread> threads;
  for (std::uint64_t t = 1; t <= 3; ++t)
    threads.emplace_back([&, t, view = *table]() mutable { stacks(view, t, 3000); });
  for (std::uint64_t t = 4; t <= 5; ++t)
    threads.emplace_back([&, t, view = *table]() mutable { draw_stacks(view, t, 3000); });
  for (auto& thread : threads) thread.join();
  CHECK(locked_and_consistent(*table));
  std::printf("%llu rows, %llu frames: %llu dropped\n", static_cast<unsigned long long>(capacity),
              static_cast<unsigned long long>(num_frames),
              static_cast<unsigned long long>(table->header().num_dropped));
}

void threads_never_see_a_torn_sequence() {
  SharedTable table(sequence_config(50, 150));
  std::vector<std::thread> threads;
  for (std::uint64_t t = 1; t <= 3; ++t)
    threads.emplace_back([&, t, view = *table]() mutable {
      Random random(t);
      for (int i = 0; i < 10; ++i) {
        SequenceStackedWriter writer(view, 1 + random.below(6), (t << 16) + 100u * i,
                                     1 + random.below(30));
        for (int step = 0; step < 200; ++step) CHECK(writer.step() == Status::kOk);
      }
    });
  for (std::uint64_t t = 4; t <= 5; ++t)
    threads.emplace_back([&, view = *table]() mutable {
      std::vector<Draw> draws(8);
      std::vector<Tag> tags(8);
      for (int i = 0; i < 2000; ++i) (void)sample_sequences(view, 8, draws.data(), tags.data());
    });
  for (auto& thread : threads) thread.join();
  CHECK(locked_and_consistent(*table));
}

void readers_of_a_broadcast_get_whole_payloads_in_order() {
  constexpr std::size_t kWords = 200;
  std::vector<unsigned char> memory(Broadcast::nbytes_for(kWords * 8) + 64);
  void* aligned = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(memory.data()) + 63) / 64 * 64);
  std::atomic<bool> done{false};
  std::vector<std::thread> readers;
  for (int r = 0; r < 2; ++r)
    readers.emplace_back([&] {
      Broadcast channel(aligned, kWords * 8);
      std::uint64_t payload[kWords], last = 0;
      while (!done.load(std::memory_order_relaxed)) {
        const std::uint64_t version = channel.read(payload);
        CHECK(version >= last);
        if (version > 0)
          for (std::uint64_t word : payload) CHECK(word == version);
        last = version;
      }
    });
  Broadcast channel(aligned, kWords * 8);
  std::uint64_t payload[kWords];
  for (std::uint64_t version = 1; version <= 20000; ++version) {
    for (auto& word : payload) word = version;
    CHECK(channel.publish(payload) == version);
  }
  done.store(true, std::memory_order_relaxed);
  for (auto& reader : readers) reader.join();
}

}  // namespace

int main() {
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  // Small tables, so that they are overwritten all the time.
  threads_never_see_a_torn_row_and_leave_exact_sums("prioritized", tagged_config(120));
  threads_never_see_a_torn_row_and_leave_exact_sums("with extremes", extremes_config(120));
  threads_never_see_a_torn_row_and_leave_exact_sums("uniform", tagged_config(120, false));
  for (bool prioritized : {true, false}) {
    threads_never_see_a_torn_stack(prioritized, 200, 60);
    threads_never_see_a_torn_stack(prioritized, 40, 120);
  }
  threads_never_see_a_torn_sequence();
  readers_of_a_broadcast_get_whole_payloads_in_order();
  std::puts("ok");
}
