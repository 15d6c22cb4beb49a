// Threads insert, sample and update one small table as fast as they can; rows are tagged. Run under
// ThreadSanitizer: no race, no torn or unwritten row, exact sums at rest. Also the broadcast.
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "drivetrain/seqlock.hpp"
#include "stacked.hpp"

using namespace drivetrain;
using namespace drivetrain::test;

namespace {

constexpr std::uint64_t kFourLevels = 1030;  // 65 leaf nodes, the last of six rows; 9 nodes above, 2 and 1

// At least so often, and until nobody learns any more: however late they come to it, there are rows for them.
void inserting(ReplayTable& table, std::uint64_t stream, int rounds, const std::atomic<int>& num_learning) {
  Random random(stream);
  for (int i = 0; i < rounds || num_learning.load() > 0; ++i)
    while (!insert_tagged(table, 1 + random.below(24), (stream << 40) + 1 + 24u * i)) std::this_thread::yield();
}

void learning(ReplayTable& table, std::uint64_t stream, int rounds, std::atomic<std::uint64_t>& stale,
              std::atomic<std::uint64_t>& reread) {
  Random random(stream);
  std::vector<Draw> draws(64);
  std::vector<std::uint64_t> tags(64), keys(64);
  float leaves[64];
  for (int i = 0; i < rounds;) {
    if (sample_tagged(table, 64, i % 2, draws.data(), tags.data()) != Status::kOk) continue;  // cleared just now
    ++i;
    for (int k = 0; k < 64; ++k) {
      keys[k] = Key::make(draws[k].slot, draws[k].generation);
      leaves[k] = static_cast<float>(random.uniform() * (random.below(50) == 0 ? 1e5 : 1.0)) + 1e-3f;
    }
    reread.fetch_add(reread_tagged(table, draws.data(), tags.data(), 64), std::memory_order_relaxed);
    std::uint64_t num_stale = 0;
    if (table.config().prioritized)
      CHECK(table.update_priorities(keys.data(), leaves, leaves, 64, table.alpha(), &num_stale) == Status::kOk);
    stale.fetch_add(num_stale, std::memory_order_relaxed);
  }
}

void rewriting(ReplayTable& table, std::uint64_t stream, int rounds, std::atomic<std::uint64_t>& renewed) {
  std::vector<Draw> draws(16);
  std::vector<std::uint64_t> tags(16);
  std::uint64_t keys[16];
  for (int i = 0; i < rounds;) {
    if (sample_tagged(table, 16, true, draws.data(), tags.data()) != Status::kOk) continue;  // cleared just now
    for (int k = 0; k < 16; ++k) keys[k] = Key::make(draws[k].slot, draws[k].generation);
    renewed.fetch_add(16 - retag(table, keys, 16, (stream << 40) + 1 + 16u * ++i), std::memory_order_relaxed);
  }
}

void clearing(ReplayTable& table, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    CHECK(table.clear() == Status::kOk);
    ::usleep(2000);
  }
}

void threads_never_see_a_torn_row_and_leave_exact_sums(const char* what, const TableConfig& config) {
  SharedTable table(config);
  std::atomic<std::uint64_t> stale{0}, reread{0}, renewed{0};
  std::atomic<int> num_learning{3};
  // Each thread views the table for itself, as each process does.
  std::vector<std::thread> threads;
  for (std::uint64_t t = 1; t <= 3; ++t)
    threads.emplace_back([&, t, view = *table]() mutable { inserting(view, t, 1500, num_learning); });
  for (std::uint64_t t = 4; t <= 5; ++t)
    threads.emplace_back([&, t, view = *table]() mutable {
      learning(view, t, 800, stale, reread);
      --num_learning;
    });
  if (config.prioritized)
    threads.emplace_back([view = *table]() mutable {
      for (int i = 0; i < 300; ++i) CHECK(view.set_alpha(i % 2 ? 0.4 : 0.9, i % 3 != 0) == Status::kOk);
    });
  threads.emplace_back([view = *table]() mutable { clearing(view, 20); });
  threads.emplace_back([&, view = *table]() mutable {
    rewriting(view, 6, 800, renewed);
    --num_learning;
  });
  for (auto& thread : threads) thread.join();
  CHECK(locked_and_consistent(*table));
  CHECK(reread.load() > 0 && renewed.load() > 0);
  std::printf("%s: %llu stale updates skipped, %llu rows read again, %llu written anew\n", what,
              static_cast<unsigned long long>(stale.load()), static_cast<unsigned long long>(reread.load()),
              static_cast<unsigned long long>(renewed.load()));
}

void stacks(ReplayTable& table, std::uint64_t stream, int rounds) {
  Random random(stream);
  for (int i = 0; i < 10; ++i) {  // a new writer begins without chains
    StackedWriter writer(table, 1 + random.below(6), 1 + stream % 2, (stream << 16) + 100u * i,
                         1 + random.below(40));
    for (int t = 0; t < rounds / 10; ++t) CHECK(writer.step() == Status::kOk);
  }
}

// With the help of a pool's threads, whose copies are as many and as short as they can be.
void draw_stacks(ReplayTable& table, std::uint64_t stream, int rounds, ThreadPool& pool) {
  Random random(stream);
  std::vector<Draw> draws(16);
  std::vector<Tag> tags(16);
  std::uint64_t keys[16], num_stale = 0;
  float leaves[16];
  for (int i = 0; i < rounds; ++i) {
    if (sample_stacked(table, 16, i % 2, draws.data(), tags.data(), 2, {pool, 3, 1}) != Status::kOk) continue;
    for (int k = 0; k < 16; ++k) {
      keys[k] = Key::make(draws[k].slot, draws[k].generation);
      leaves[k] = static_cast<float>(random.uniform()) + 1e-3f;
    }
    if (table.config().prioritized)
      CHECK(table.update_priorities(keys, leaves, leaves, 16, table.alpha(), &num_stale) == Status::kOk);
  }
}

// Each row's own field written anew, as it is: the lists of frames have to know the row by its new generation.
void rewrite_stacks(ReplayTable& table, int rounds) {
  std::vector<Draw> draws(16);
  std::vector<Tag> tags(16);
  std::uint64_t keys[16], num_stale = 0;
  for (int i = 0; i < rounds; ++i) {
    if (sample_stacked(table, 16, true, draws.data(), tags.data(), 2) != Status::kOk) continue;
    for (int k = 0; k < 16; ++k) keys[k] = Key::make(draws[k].slot, draws[k].generation);
    const NewField field{kLinks, sizeof(Tag), reinterpret_cast<const unsigned char*>(tags.data())};
    CHECK(table.rewrite(keys, 0, 16, &field, 1, &num_stale) == Status::kOk);
  }
}

// Few frames: most rows end with their frames. Few rows: most are overwritten.
void threads_never_see_a_torn_stack(bool prioritized, std::uint64_t capacity, std::uint64_t num_frames) {
  SharedTable table(stacked_config(capacity, num_frames, prioritized));
  std::vector<std::thread> threads;
  for (std::uint64_t t = 1; t <= 3; ++t)
    threads.emplace_back([&, t, view = *table]() mutable { stacks(view, t, 3000); });
  ThreadPool pools[2];
  for (std::uint64_t t = 4; t <= 5; ++t)
    threads.emplace_back([&, t, view = *table]() mutable { draw_stacks(view, t, 3000, pools[t - 4]); });
  threads.emplace_back([view = *table]() mutable { clearing(view, 20); });
  threads.emplace_back([view = *table]() mutable { rewrite_stacks(view, 1500); });
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
  threads.emplace_back([view = *table]() mutable { clearing(view, 20); });
  for (auto& thread : threads) thread.join();
  CHECK(locked_and_consistent(*table));
}

// Rows that are copied by pieces of kilobytes, streamed on both sides: every word of obs is one number, and
// every word of next_obs the next.
constexpr std::size_t kLargeWords = 300, kLargeBytes = kLargeWords * 8;
static_assert(2 * kLargeBytes >= kLargeRow && kLargeBytes >= kLargePiece);
constexpr Field kLargeFields[] = {
    {FieldKind::kFirst, 0, kLargeBytes},         {FieldKind::kNext, kLargeBytes, kLargeBytes},
    {FieldKind::kReward, 2 * kLargeBytes, 4},    {FieldKind::kDiscount, 2 * kLargeBytes + 4, 4},
    {FieldKind::kTerminated, 2 * kLargeBytes + 8, 1}, {FieldKind::kTruncated, 2 * kLargeBytes + 9, 1},
};
constexpr RowSchema kLargeSchema{kLargeFields, 6};

void insert_large_rows(ReplayTable& table, std::uint64_t stream, int rounds) {
  constexpr std::size_t kEnvs = 3;
  bind::Transitions writer(table, kLargeSchema, kEnvs, 1, 0.99);
  std::vector<std::uint64_t> obs(kEnvs * kLargeWords), next(obs);
  const unsigned char* arrays[6] = {reinterpret_cast<unsigned char*>(obs.data()),
                                    reinterpret_cast<unsigned char*>(next.data())};
  const float reward[kEnvs] = {};
  const std::uint8_t no[kEnvs] = {};
  for (int i = 0; i < rounds; ++i) {
    for (std::size_t w = 0; w < obs.size(); ++w) {
      obs[w] = (stream << 40) + static_cast<std::uint64_t>(i) * kEnvs + w / kLargeWords;
      next[w] = obs[w] + 1;
    }
    CHECK(writer.add({arrays, reward, nullptr, no, no}) == Status::kOk);
  }
}

void draw_large_rows(ReplayTable& table, int rounds) {
  constexpr std::size_t kRows = 12;
  ThreadPool pool;
  std::vector<std::uint64_t> obs(kRows * kLargeWords), next(obs);
  float reward[kRows], discount[kRows];
  std::uint8_t terminated[kRows], truncated[kRows];
  const auto bytes = [](auto* data) { return reinterpret_cast<unsigned char*>(data); };
  unsigned char* outputs[6] = {bytes(obs.data()), bytes(next.data()), bytes(reward),
                               bytes(discount),   terminated,         truncated};
  Draw draws[kRows];
  for (int i = 0; i < rounds; ++i) {
    Sampler sampler(table, best_simd_level());
    const Status status = sampler.sample(
        kRows, 1, 0, draws, [&](std::size_t first, std::size_t num, const Draw* drawn) {
          gather_rows(kLargeSchema, table, outputs, first, num, drawn, {pool, 3, kLargeBytes});
        });
    if (status != Status::kOk) continue;
    for (std::size_t w = 0; w < obs.size(); ++w) {
      CHECK(obs[w] == obs[w / kLargeWords * kLargeWords]);
      CHECK(next[w] == obs[w] + 1);
    }
  }
}

void threads_never_see_a_torn_large_row() {
  SharedTable table({12, sizeof(RowHeader) + 2 * kLargeBytes + 16, 1, 0.6, 7});
  std::vector<std::thread> threads;
  for (std::uint64_t t = 1; t <= 2; ++t)
    threads.emplace_back([t, view = *table]() mutable { insert_large_rows(view, t, 300); });
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([view = *table]() mutable { draw_large_rows(view, 150); });
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
  // And a tree of levels that end within a node.
  threads_never_see_a_torn_row_and_leave_exact_sums("of four levels", tagged_config(kFourLevels));
  for (bool prioritized : {true, false}) {
    threads_never_see_a_torn_stack(prioritized, 200, 60);
    threads_never_see_a_torn_stack(prioritized, 40, 120);
  }
  threads_never_see_a_torn_stack(true, kFourLevels, 400);
  threads_never_see_a_torn_sequence();
  threads_never_see_a_torn_large_row();
  readers_of_a_broadcast_get_whole_payloads_in_order();
  std::puts("ok");
}
