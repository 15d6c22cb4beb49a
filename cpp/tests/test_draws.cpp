// Draws from a tree that changes while leaves are looked for: the probability that comes with a leaf is
// exactly that with which it is found. First with changes at a known moment, then with threads.
#include <atomic>
#include <thread>

#include "check.hpp"

using namespace drivetrain;
using namespace drivetrain::test;

namespace {

constexpr std::uint64_t kLeaves = 600;        // 38 nodes, under 5 nodes of 8 sums, under one of 5
constexpr std::uint64_t kBlock = 8 * kLeafFanout;  // leaves under one sum of the crown
constexpr std::size_t kFew = 2;               // targets whose crown is one node

double sum_of(const std::vector<double>& leaves, std::uint64_t first, std::uint64_t count) {
  double sum = 0;
  for (std::uint64_t i = first; i < std::min(first + count, kLeaves); ++i) sum += leaves[i];
  return sum;
}

std::vector<double> leaves_of_tree(const SumTree& tree) {
  std::vector<double> leaves(kLeaves);
  for (std::uint64_t i = 0; i < kLeaves; ++i) leaves[i] = tree.leaf(i);
  return leaves;
}

// The oracle. The crown chooses among blocks by the leaves `before`, the nodes below among leaf nodes by
// the leaves that sums are of, `summed`, and leaf nodes among leaves by what these are `now`.
std::vector<double> probabilities(const std::vector<double>& before, const std::vector<double>& summed,
                                  const std::vector<double>& now) {
  const double total = sum_of(before, 0, kLeaves);
  std::vector<double> result(kLeaves);
  for (std::uint64_t i = 0; i < kLeaves; ++i) {
    const std::uint64_t block = i / kBlock * kBlock, node = i / kLeafFanout * kLeafFanout;
    const double of_block = sum_of(summed, block, kBlock), of_node = sum_of(now, node, kLeafFanout);
    if (of_block == 0 || of_node == 0) continue;
    result[i] = sum_of(before, block, kBlock) / total * sum_of(summed, node, kLeafFanout) / of_block *
                now[i] / of_node;
  }
  return result;
}

// Draws by crowns read before a change from the tree after it; every instruction set finds the same.
void expect_draws(OwnedTree& owned, const Crown& crown, const std::vector<double>& expected) {
  constexpr int kDraws = 300'000;
  const double total = static_cast<double>(crown.total()) * owned.tree.unit();
  Random random(29);
  std::vector<int> counts(kLeaves);
  int num_lost = 0;
  for (int draw = 0; draw < kDraws; draw += kFew) {
    std::uint64_t words[kFew], targets[kFew];
    for (std::size_t i = 0; i < kFew; ++i) {
      words[i] = random.word();
      targets[i] = scale_to(words[i], crown.total());
    }
    std::uint32_t found[kFew], again[kFew];
    double leaves[kFew], leaves_again[kFew];
    owned.tree.find(crown, {targets, words, 3, found, leaves}, kFew, SimdLevel::kPortable);
    for (SimdLevel level : {SimdLevel::kAvx2, SimdLevel::kAvx512}) {
      if (!cpu_supports(level)) continue;
      owned.tree.find(crown, {targets, words, 3, again, leaves_again}, kFew, level);
      for (std::size_t i = 0; i < kFew; ++i) CHECK(again[i] == found[i] && leaves_again[i] == leaves[i]);
    }
    for (std::size_t i = 0; i < kFew; ++i) {
      CHECK(found[i] < kLeaves);
      num_lost += leaves[i] == 0;
      if (leaves[i] == 0) continue;
      CHECK(std::abs(leaves[i] / total / expected[found[i]] - 1) < 1e-9);
      ++counts[found[i]];
    }
  }
  double chi_square = 0, lost = 1;
  int num_cells = 0;
  for (std::uint64_t i = 0; i < kLeaves; ++i) {
    lost -= expected[i];
    const double mean = expected[i] * kDraws;
    CHECK(expected[i] > 0 || counts[i] == 0);
    if (mean < 5) continue;
    chi_square += (counts[i] - mean) * (counts[i] - mean) / mean;
    ++num_cells;
  }
  CHECK(std::abs(num_lost - lost * kDraws) <= 5 * std::sqrt(lost * kDraws + 1));
  CHECK(num_cells > 100 && chi_square < num_cells + 4 * std::sqrt(2.0 * num_cells));
}

void fill(OwnedTree& owned, std::uint64_t stream) {
  Random random(stream);
  for (std::uint32_t i = 0; i < kLeaves; ++i) owned.set(i, 0.1f + static_cast<float>(random.uniform()));
}

void leaves_updated_after_the_crown_was_read_are_found_as_often_as_is_said() {
  OwnedTree owned(kLeaves);
  fill(owned, 1);
  const std::vector<double> before = leaves_of_tree(owned.tree);
  const Crown crown(owned.tree, kFew);
  fill(owned, 2);
  const std::vector<double> now = leaves_of_tree(owned.tree);
  expect_draws(owned, crown, probabilities(before, now, now));
}

void leaves_written_before_their_sums_are_found_as_often_as_is_said() {
  OwnedTree owned(kLeaves);
  fill(owned, 3);
  const std::vector<double> before = leaves_of_tree(owned.tree);
  const Crown crown(owned.tree, kFew);
  Random random(4);
  for (std::uint64_t i = 0; i < kLeaves; i += 3)
    owned.tree.put_leaf(i, owned.tree.rounded(0.1f + static_cast<float>(random.uniform())));
  expect_draws(owned, crown, probabilities(before, before, leaves_of_tree(owned.tree)));
}

void descents_into_what_was_emptied_find_nothing_and_the_others_are_as_before() {
  OwnedTree owned(kLeaves);
  fill(owned, 5);
  const std::vector<double> before = leaves_of_tree(owned.tree);
  const Crown crown(owned.tree, kFew);
  for (std::uint32_t i = kBlock; i < 2 * kBlock; ++i) owned.set(i, 0.0f);          // a block, its sums too
  const std::vector<double> summed = leaves_of_tree(owned.tree);
  for (std::uint64_t i = 0; i < kLeafFanout; ++i) owned.tree.put_leaf(i, 0.0f);    // a node, not its sum
  for (std::uint64_t i = 592; i < kLeaves; ++i) owned.tree.put_leaf(i, 0.0f);      // the last one
  expect_draws(owned, crown, probabilities(before, summed, leaves_of_tree(owned.tree)));
}

// The last nodes of a tree are partly nobody's, on every level; a descent that comes to nothing stays out of there.
void descents_into_the_emptied_end_of_a_tree_find_a_leaf_of_the_tree() {
  for (const std::uint32_t capacity : {1u, 17u, 130u, 600u, 5000u, 9001u, 70001u}) {
    OwnedTree owned(capacity);
    for (std::uint32_t i = 0; i < capacity; ++i) owned.set(i, 1.0f);
    for (const std::size_t count : {std::size_t{2}, std::size_t{64}}) {  // crowns of one level and of more
      for (std::uint32_t kept = 0; kept < capacity; kept = kept * 3 + 1) {  // leaves in front that stay
        const Crown crown(owned.tree, count);
        for (std::uint32_t i = kept; i < capacity; ++i) owned.set(i, 0.0f);
        std::uint64_t words[64], targets[64];
        for (std::size_t i = 0; i < count; ++i) words[i] = i, targets[i] = crown.total() * (i + 1) / count - 1;
        for (const SimdLevel level : {SimdLevel::kPortable, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
          if (!cpu_supports(level)) continue;
          std::uint32_t found[64];
          double leaves[64];
          owned.tree.find(crown, {targets, words, 3, found, leaves}, count, level);
          for (std::size_t i = 0; i < count; ++i) CHECK(found[i] < (leaves[i] == 0 ? capacity : kept));
          CHECK(leaves[count - 1] == 0);  // the very end of the tree
        }
        for (std::uint32_t i = kept; i < capacity; ++i) owned.set(i, 1.0f);
      }
    }
  }
}

// Whatever is drawn with probability p counts 1 / p: every row then counts the same, on average 1 a draw.
void draws_beside_updates_are_as_likely_as_they_say(SimdLevel simd, bool stratified) {
  constexpr std::uint32_t kRows = 40;
  constexpr std::size_t kBatch = 64;
  constexpr int kBatches = 4000;
  SharedTable table(tagged_config(kRows));
  CHECK(insert_tagged(*table, kRows, 1));
  std::atomic<bool> done{false};
  std::thread updater([&, view = *table]() mutable {
    Random random(17);
    while (!done.load(std::memory_order_relaxed)) {
      std::uint64_t keys[16], num_stale = 0;
      float leaves[16];
      for (int i = 0; i < 16; ++i) {
        keys[i] = Key::make(static_cast<std::uint32_t>(random.below(kRows)), 2);
        leaves[i] = 0.5f + 2 * static_cast<float>(random.uniform());
      }
      CHECK(view.update_priorities(keys, leaves, leaves, 16, view.alpha(), &num_stale) == Status::kOk);
      CHECK(num_stale == 0);
    }
  });
  std::vector<double> counted(kRows), squares(kRows);
  Sampler sampler(*table, simd);
  for (int batch = 0; batch < kBatches; ++batch) {
    Draw draws[kBatch];
    CHECK(sampler.sample(kBatch, 1, stratified ? kBatch : 0, draws,
                         [](std::size_t, std::size_t, const Draw*) {}) == Status::kOk);
    for (const Draw& draw : draws) {
      counted[draw.slot] += 1 / draw.probability;
      squares[draw.slot] += 1 / (draw.probability * draw.probability);
    }
  }
  done.store(true, std::memory_order_relaxed);
  updater.join();
  const double num = double{kBatch} * kBatches;
  for (std::uint32_t row = 0; row < kRows; ++row)  // strata only make the deviation smaller
    CHECK(std::abs(counted[row] - num) < 5 * std::sqrt(squares[row]));
  CHECK(locked_and_consistent(*table));
}

}  // namespace

int main() {
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  leaves_updated_after_the_crown_was_read_are_found_as_often_as_is_said();
  leaves_written_before_their_sums_are_found_as_often_as_is_said();
  descents_into_what_was_emptied_find_nothing_and_the_others_are_as_before();
  descents_into_the_emptied_end_of_a_tree_find_a_leaf_of_the_tree();
  for (SimdLevel level : {SimdLevel::kPortable, SimdLevel::kAvx2, SimdLevel::kAvx512})
    for (bool stratified : {false, true})
      if (cpu_supports(level)) draws_beside_updates_are_as_likely_as_they_say(level, stratified);
  std::puts("ok");
}
