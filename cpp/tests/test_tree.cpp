// The sum tree against a plain array, for every instruction set this CPU has.
#include "check.hpp"

using namespace drivetrain;
using namespace drivetrain::test;

namespace {

constexpr SimdLevel kSimdLevels[] = {SimdLevel::kPortable, SimdLevel::kAvx2, SimdLevel::kAvx512};

struct alignas(64) Line {
  unsigned char bytes[64] = {};
};

// The oracle: walk the leaves one by one, in the order in which a leaf node is added up.
std::uint32_t find_slowly(const SumTree& tree, std::uint64_t capacity, std::uint64_t target) {
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < (capacity + kLeafFanout - 1) / kLeafFanout * kLeafFanout; ++i) {
    const auto leaf = i / kLeafFanout * kLeafFanout + leaf_at(static_cast<unsigned>(i % kLeafFanout));
    sum += tree.leaf_units(leaf);
    if (target < sum) return static_cast<std::uint32_t>(leaf);
  }
  CHECK(!"target beyond the last leaf");
  return 0;
}

void every_simd_level_finds_the_leaf_that_a_walk_finds() {
  const std::uint64_t capacities[] = {1, 2, 15, 16, 17, 128, 129, 1000, 1025, 8200, 140000};
  for (const std::uint64_t capacity : capacities) {
    OwnedTree owned(capacity);
    Random random(capacity);
    for (std::uint32_t i = 0; i < capacity; ++i)
      if (capacity == 1 || random.below(4) != 0) owned.set(i, heavy_tailed(random));
    if (owned.tree.total() == 0) owned.set(0, 1.0f);
    CHECK(owned.tree.sums_are_exact());
    std::uint64_t targets[200];
    for (auto& target : targets) target = random.below(owned.tree.total());
    targets[0] = 0;
    targets[1] = owned.tree.total() - 1;  // the very last unit: no draw off the end
    std::uint32_t expected[200];
    for (int i = 0; i < 200; ++i) expected[i] = find_slowly(owned.tree, capacity, targets[i]);
    for (const SimdLevel level : kSimdLevels) {
      if (!cpu_supports(level)) {
        std::printf("skipped: %s (not on this CPU)\n", simd_name(level));
        continue;
      }
      std::uint32_t found[200];
      for (const std::size_t count : {1, 2, 18, 31, 200}) {  // the more targets, the larger the crown
        owned.tree.find(targets, count, found, level);
        for (std::size_t i = 0; i < count; ++i) {
          CHECK(found[i] == expected[i]);
          CHECK(owned.tree.leaf(found[i]) > 0);
        }
      }
    }
  }
}

void sums_stay_exact_over_many_batches_with_repeats() {
  OwnedTree owned(5000);
  Random random(5);
  for (int round = 0; round < 300; ++round) {
    std::uint32_t indices[kMaxTreeBatch];
    float priorities[kMaxTreeBatch];
    const std::size_t count = 1 + random.below(kMaxTreeBatch);
    const std::uint64_t range = round % 3 == 0 ? 20 : 5000;  // often the same leaf repeatedly
    for (std::size_t i = 0; i < count; ++i) {
      indices[i] = static_cast<std::uint32_t>(random.below(range));
      priorities[i] = random.below(8) == 0 ? 0.0f : heavy_tailed(random);
    }
    owned.tree.update(indices, priorities, count);
    CHECK(owned.tree.sums_are_exact());
    // In order: the last value for an index is the one that stays, to within half a unit.
    const float last = priorities[count - 1], kept = owned.tree.leaf(indices[count - 1]);
    CHECK(std::abs(kept - last) <= std::ldexp(1.0, owned.state.unit_exponent));
    CHECK((kept > 0) == (last > 0));
  }
}

void filling_is_updating_with_one_priority() {
  Random random(13);
  OwnedTree filled(3000), updated(3000);
  for (int round = 0; round < 400; ++round) {
    std::uint32_t indices[200];
    float priorities[200];
    const float priority = round % 5 == 0 ? 0.0f : heavy_tailed(random) * (round % 50 == 0 ? 1e8f : 1.0f);
    const std::size_t count = 1 + random.below(200);
    const std::uint64_t first = random.below(2800), gap = random.below(3);  // runs, with gaps or repeats
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t offset = gap == 0 ? i : gap == 1 ? i + i / 7 : i - i / 5;
      indices[i] = static_cast<std::uint32_t>((first + offset) % 3000);
      priorities[i] = priority;
    }
    filled.tree.fill(indices, count, priority);
    updated.tree.update(indices, priorities, count);
    CHECK(filled.tree.sums_are_exact());
    CHECK(filled.state.root == updated.state.root);
    CHECK(filled.state.unit_exponent == updated.state.unit_exponent);
    CHECK(std::memcmp(filled.memory, updated.memory, SumTree::nbytes_for(3000)) == 0);
  }
}

void a_priority_beyond_the_unit_makes_room_and_keeps_all_leaves_drawable() {
  OwnedTree owned(1000);
  for (std::uint32_t i = 0; i < 1000; ++i) owned.set(i, 1.0f);
  const std::int32_t before = owned.state.unit_exponent;
  for (float huge : {1e6f, 1e20f, 3e38f}) {
    owned.set(7, huge);
    CHECK(owned.tree.sums_are_exact());
    CHECK(owned.tree.leaf(7) == huge);
    for (std::uint32_t i = 0; i < 1000; ++i) CHECK(owned.tree.leaf_units(i) > 0);
  }
  CHECK(owned.state.unit_exponent > before);
  CHECK(owned.tree.total() < (1ull << 62));
}

void a_tree_that_begins_anew_is_changed_to_those_who_draw_from_it() {
  OwnedTree owned(100);
  const double finest = owned.tree.unit();
  const std::uint32_t slot = 3;
  for (const float leaf : {1e15f, 0.0f}) owned.tree.update(&slot, &leaf, 1);
  CHECK(owned.tree.unit() > finest && owned.tree.total() == 0);
  const std::uint32_t rebuilds = owned.tree.rebuilds();
  owned.tree.initialize(4096.0);
  CHECK(owned.tree.unit() == finest && owned.tree.rebuilds() == rebuilds + 2);
}

void a_full_tree_of_the_largest_leaves_does_not_overflow() {
  for (const std::uint64_t capacity : {16ull, 4096ull, 1ull << 20}) {
    OwnedTree owned(capacity);
    for (std::uint32_t i = 0; i < capacity; ++i) owned.set(i, 4095.0f);
    CHECK(owned.tree.total() < (1ull << 62));
    if (capacity <= 4096) CHECK(owned.tree.sums_are_exact());
  }
}

void equal_parts_are_those_of_a_division() {
  Random random(11);
  for (int round = 0; round < 400; ++round) {
    const std::uint64_t parts = 1 + random.below(round % 2 ? 20 : 3000), total = random.below(1ull << (1 + round % 61));
    const std::uint64_t begin = random.below(parts);
    for (const bool up : {true, false}) {
      const std::uint64_t num = up ? parts - begin : begin + 1;
      std::uint64_t num_seen = 0;
      EqualParts(total, parts).each(begin, num, up, [&](std::size_t i, std::uint64_t low, std::uint64_t size) {
        const auto k = static_cast<unsigned __int128>(up ? begin + i : begin - i);
        CHECK(i == num_seen++);
        CHECK(low == static_cast<std::uint64_t>(total * k / parts));
        CHECK(low + size == static_cast<std::uint64_t>(total * (k + 1) / parts));
      });
      CHECK(num_seen == num);
    }
  }
}

void strata_begin_anywhere_go_up_or_down_and_come_once_each() {
  Random random(12);
  for (int round = 0; round < 300; ++round) {
    const std::uint64_t num = round < 20 ? 1 + round : 1 + random.below(3000), first = random.below(1000);
    const Strata strata(num, random.word());
    std::vector<int> taken(num);
    for (std::uint64_t draw = first; draw < first + num; ++draw) ++taken[strata.part(draw)];
    for (int times : taken) CHECK(times == 1);
    const std::uint64_t part = strata.part(first), run = strata.num_before_seam(part);
    for (std::uint64_t i = 0; i < run; ++i)
      CHECK(strata.part(first + i) == (strata.goes_up() ? part + i : part - i));
    CHECK(strata.part(first + run) == (strata.goes_up() ? 0 : num - 1));
  }
  // Of ten parts in a row, each is as often the first of a batch, and as often before its neighbour.
  constexpr int kRounds = 100'000, kParts = 10;
  int first[kParts] = {}, before[kParts] = {};
  for (int round = 0; round < kRounds; ++round) {
    const Strata strata(kParts, random.word());
    std::uint64_t place[kParts];
    for (std::uint64_t draw = 0; draw < kParts; ++draw) place[strata.part(draw)] = draw;
    ++first[strata.part(0)];
    for (int i = 0; i + 1 < kParts; ++i) before[i] += place[i] < place[i + 1];
  }
  for (int i = 0; i < kParts; ++i) CHECK(std::abs(first[i] - kRounds / kParts) < 5 * std::sqrt(kRounds * 0.09));
  for (int i = 0; i + 1 < kParts; ++i) CHECK(std::abs(before[i] - kRounds / 2) < 5 * std::sqrt(kRounds * 0.25));
}

void every_simd_level_has_the_same_targets_in_parts() {
  Random random(14);
  for (int round = 0; round < 3000; ++round) {
    const std::uint64_t num_parts = 1 + random.below(round % 2 ? 40 : 3000), total = random.below(1ull << (1 + round % 61));
    const std::uint64_t begin = random.below(num_parts);
    const bool up = random.below(2) == 0;
    const std::size_t num = 1 + random.below(std::min<std::uint64_t>(up ? num_parts - begin : begin + 1, kMaxBatch));
    const EqualParts parts(total, num_parts);
    std::vector<std::uint64_t> words(num);
    for (auto& word : words) word = random.word();
    std::vector<std::uint64_t> expected(num);
    parts.each(begin, num, up, [&](std::size_t i, std::uint64_t low, std::uint64_t size) {
      expected[i] = low + static_cast<std::uint64_t>(static_cast<unsigned __int128>(words[i]) * size >> 64);
    });
    for (const SimdLevel level : kSimdLevels) {
      if (!cpu_supports(level)) continue;
      std::vector<std::uint64_t> targets(num + 1, 7);
      targets_in_parts(parts, begin, num, up, words.data(), targets.data(), level);
      CHECK(targets[num] == 7);  // nothing is written behind them
      targets.pop_back();
      CHECK(targets == expected);
    }
  }
}

void every_simd_level_has_the_words_of_one_block_after_the_other() {
  Random random(15);
  for (int round = 0; round < 200; ++round) {
    const std::uint64_t first = random.word(), key = random.word();
    const std::size_t num_blocks = 1 + random.below(90);
    std::vector<std::uint64_t> expected;
    for (std::size_t i = 0; i < num_blocks; ++i)
      for (const std::uint64_t word : philox_block(first + i, key)) expected.push_back(word);
    for (const SimdLevel level : kSimdLevels) {
      if (!cpu_supports(level)) continue;
      std::vector<std::uint64_t> words(num_blocks * kDrawsPerBlock);
      philox_words(first, num_blocks, key, words.data(), level);
      CHECK(words == expected);
    }
  }
}

void philox_gives_the_published_words() {
  // numpy.random.Philox(key=0, counter=0).random_raw(4), which is block 1
  const auto words = philox_block(1, 0);
  CHECK(words[0] == 0x02f4ba6408e4d89bull);
}

void extremes_are_those_of_a_scan_after_any_batches() {
  for (const std::uint64_t capacity : {1ull, 40ull, 1024ull, 1025ull, 5000ull}) {
    OwnedTree owned(capacity);
    std::vector<Line> memory(SumTree::extremes_nbytes_for(capacity) / sizeof(Line) + 1);
    owned.tree.keep_extremes(memory.data());
    Random random(capacity);
    std::vector<std::uint32_t> indices(200);
    std::vector<float> values(200);
    for (int round = 0; round < 400; ++round) {
      const bool few = round % 3 == 0;  // equal leaves, and rows that are taken out and come back
      for (int i = 0; i < 200; ++i) {
        indices[i] = static_cast<std::uint32_t>(random.below(capacity));
        values[i] = few ? static_cast<float>(random.below(3)) : heavy_tailed(random);
      }
      if (round == 250) values[0] = 1e30f;  // the unit grows
      owned.tree.update(indices.data(), values.data(), 200);
      CHECK(owned.tree.sums_are_exact());  // and all extremes that are not dirty
      if (round % 7 == 0) CHECK(extremes_are_right(owned.tree, capacity));
    }
  }
}

void rebuild_heals_any_damage_to_the_sums() {
  OwnedTree owned(3000);
  Random random(9);
  for (std::uint32_t i = 0; i < 3000; ++i) owned.set(i, heavy_tailed(random));
  owned.state.root += 12345;
  CHECK(!owned.tree.sums_are_exact());
  owned.tree.rebuild();
  CHECK(owned.tree.sums_are_exact());
}

}  // namespace

int main() {
  std::printf("seed %llu, simd %s\n", static_cast<unsigned long long>(kSeed),
              simd_name(best_simd_level()));
  philox_gives_the_published_words();
  equal_parts_are_those_of_a_division();
  strata_begin_anywhere_go_up_or_down_and_come_once_each();
  every_simd_level_has_the_same_targets_in_parts();
  every_simd_level_has_the_words_of_one_block_after_the_other();
  every_simd_level_finds_the_leaf_that_a_walk_finds();
  sums_stay_exact_over_many_batches_with_repeats();
  filling_is_updating_with_one_priority();
  a_priority_beyond_the_unit_makes_room_and_keeps_all_leaves_drawable();
  a_tree_that_begins_anew_is_changed_to_those_who_draw_from_it();
  a_full_tree_of_the_largest_leaves_does_not_overflow();
  extremes_are_those_of_a_scan_after_any_batches();
  rebuild_heals_any_damage_to_the_sums();
  std::puts("ok");
}
