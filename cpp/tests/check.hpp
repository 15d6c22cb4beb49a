// CHECK for native tests, a table in memory of its own, and a small deterministic random source.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "drivetrain/philox.hpp"
#include "drivetrain/replay_table.hpp"
#include "drivetrain/sampler.hpp"

#define CHECK(condition)                                                                  \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);        \
      std::abort();                                                                       \
    }                                                                                     \
  } while (false)

namespace drivetrain::test {

inline constexpr std::uint64_t kSeed = 20211101;  // printed by each test's main

class Random {
 public:
  explicit Random(std::uint64_t stream) : stream_(stream) {}
  std::uint64_t word() { return philox_block(++block_, stream_ ^ kSeed)[0]; }
  std::uint64_t below(std::uint64_t range) { return scale_to(word(), range); }
  double uniform() { return static_cast<double>(word() >> 11) * 0x1p-53; }

 private:
  std::uint64_t stream_, block_ = 0;
};

/// A sum tree in memory of its own.
struct OwnedTree {
  explicit OwnedTree(std::uint64_t n)
      : memory(static_cast<unsigned char*>(std::aligned_alloc(64, (SumTree::nbytes_for(n) + 63) / 64 * 64))),
        capacity(n) {
    std::memset(memory, 0, SumTree::nbytes_for(n));
    tree = SumTree(memory, &state, n);
    tree.initialize(4096.0);
  }
  ~OwnedTree() { std::free(memory); }
  void set(std::uint32_t index, float priority) { tree.update(&index, &priority, 1); }
  unsigned char* memory;
  std::uint64_t capacity;
  TreeState state{};
  SumTree tree;
};

/// A priority between e^-9 and e^3.
inline float heavy_tailed(Random& random) { return static_cast<float>(std::exp(12 * random.uniform() - 9)); }

/// The nearest bfloat16, of eight bits, ties to even.
inline double rounded_to_half(float x) {
  int exponent = 0;
  const double fraction = std::frexp(static_cast<double>(x), &exponent);
  return std::ldexp(std::nearbyint(fraction * 256), exponent - 8);
}

/// Shared, anonymous memory: a forked child sees the same table.
class SharedTable {
 public:
  explicit SharedTable(const TableConfig& config)
      : nbytes_(table_nbytes(config)), memory_(map(nbytes_)), table_(initialized(memory_, config)) {}
  ~SharedTable() { munmap(memory_, nbytes_); }
  SharedTable(const SharedTable&) = delete;
  SharedTable& operator=(const SharedTable&) = delete;
  ReplayTable& operator*() { return table_; }
  ReplayTable* operator->() { return &table_; }

 private:
  static void* map(std::size_t nbytes) {
    void* memory =
        mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
  }
  static ReplayTable initialized(void* memory, const TableConfig& config) {
    CHECK(ReplayTable::initialize(memory, config));
    return ReplayTable(memory, config);
  }

  std::size_t nbytes_;
  void* memory_;
  ReplayTable table_;
};

inline constexpr std::size_t kTagWords = 6;  // a row's fields: the same tag six times

inline TableConfig tagged_config(std::uint64_t capacity, bool prioritized = true) {
  return {capacity, sizeof(RowHeader) + kTagWords * 8, prioritized, 0.6f, 7};
}

/// A prioritized table that keeps the extremes of its leaves, and asks for them at every insert and draw.
inline TableConfig extremes_config(std::uint64_t capacity) {
  TableConfig config = tagged_config(capacity);
  config.initial = InitialPriority::kBufferMax;
  config.weights_by_buffer = 1;
  return config;
}

inline void write_tag(ReplayTable& table, const Claim& claim, std::uint64_t tag) {
  std::uint64_t words[kTagWords];
  for (auto& word : words) word = tag;
  copy_to_shared(table.fields(claim.slot), words, sizeof words);
}

/// Reserves, writes and commits `count` rows tagged tag, tag + 1, ...; false when all were busy.
inline bool insert_tagged(ReplayTable& table, std::size_t count, std::uint64_t tag) {
  Claim claims[kMaxBatch];
  std::size_t num = 0;
  const Status status = table.reserve(count, claims, &num);
  if (status == Status::kBusy) return false;
  CHECK(status == Status::kOk);
  for (std::size_t i = 0; i < num; ++i) write_tag(table, claims[i], tag + i);
  CHECK(table.commit(claims, num) == Status::kOk);
  return true;
}

inline bool locked_and_consistent(ReplayTable& table) {
  ReplayTable::Lock lock(table);
  return lock && table.is_consistent();
}

/// The smallest leaf above 0 and the largest, by looking at all of them.
inline Extremes::Range scanned_extremes(const SumTree& tree, std::uint64_t capacity) {
  Extremes::Range range{0, 0};
  for (std::uint64_t i = 0; i < capacity; ++i) {
    const float leaf = tree.leaf(i);
    if (leaf > 0 && (range.least == 0 || leaf < range.least)) range.least = leaf;
    range.largest = std::max(range.largest, leaf);
  }
  return range;
}
inline bool extremes_are_right(SumTree& tree, std::uint64_t capacity) {
  const Extremes::Range scanned = scanned_extremes(tree, capacity), kept = tree.extremes();
  return kept.least == scanned.least && kept.largest == scanned.largest;
}

/// Writes the rows of keys anew, tagged tag, tag + 1, ...; the keys become their new ones. How many were stale.
inline std::uint64_t retag(ReplayTable& table, std::uint64_t* keys, std::size_t count, std::uint64_t tag) {
  std::vector<std::uint64_t> first(count), others(count * (kTagWords - 1));
  for (std::size_t i = 0; i < count; ++i) {
    first[i] = tag + i;
    std::fill_n(&others[i * (kTagWords - 1)], kTagWords - 1, tag + i);
  }
  const NewField fields[] = {{0, 8, reinterpret_cast<const unsigned char*>(first.data())},
                             {8, 8 * (kTagWords - 1), reinterpret_cast<const unsigned char*>(others.data())}};
  std::uint64_t num_stale = 0;
  CHECK(table.rewrite(keys, 0, count, fields, 2, &num_stale) == Status::kOk);
  return num_stale;
}

/// Samples `count` rows and checks that each is whole (all words equal) and was ever written.
inline Status sample_tagged(ReplayTable& table, std::size_t count, bool stratified, Draw* draws,
                            std::uint64_t* tags) {
  std::vector<std::uint64_t> rows(count * kTagWords);
  Sampler sampler(table, best_simd_level());
  const Status status = sampler.sample(
      count, 1, stratified ? count : 0, draws,
      [&](std::size_t first, std::size_t num, const Draw* drawn) {
        for (std::size_t i = 0; i < num; ++i)
          copy_from_shared(&rows[(first + i) * kTagWords], table.fields(drawn[i].slot),
                           kTagWords * 8);
      });
  if (status != Status::kOk) return status;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t* row = &rows[i * kTagWords];
    for (std::size_t w = 1; w < kTagWords; ++w) CHECK(row[w] == row[0]);
    CHECK(row[0] != 0);
    tags[i] = row[0];
  }
  return Status::kOk;
}

/// Reads rows back by the keys of draws and checks that those which are still there are whole and hold these tags;
/// how many are.
inline std::size_t reread_tagged(ReplayTable& table, const Draw* draws, const std::uint64_t* tags, std::size_t count) {
  std::vector<std::uint64_t> rows(count * kTagWords), keys(count);
  std::vector<Draw> found(count);
  for (std::size_t i = 0; i < count; ++i) keys[i] = Key::make(draws[i].slot, draws[i].generation);
  Sampler(table, best_simd_level())
      .read(keys.data(), count, found.data(), [&](std::size_t first, std::size_t num, const Draw* drawn) {
        for (std::size_t i = 0; i < num; ++i)
          copy_from_shared(&rows[(first + i) * kTagWords], table.fields(drawn[i].slot), kTagWords * 8);
      });
  std::size_t num_there = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_committed(found[i].generation)) continue;
    for (std::size_t w = 0; w < kTagWords; ++w) CHECK(rows[i * kTagWords + w] == tags[i]);
    ++num_there;
  }
  return num_there;
}

}  // namespace drivetrain::test
