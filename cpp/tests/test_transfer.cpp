// What leaves a table for a file, and comes back: leaves without rows, and leaves in their own unit.
#include <vector>

#include "check.hpp"
#include "drivetrain/transfer.hpp"

using namespace drivetrain;
using namespace drivetrain::test;

namespace {

void leaves_and_generations_are_told_without_the_rows() {
  for (const bool prioritized : {true, false}) {
    SharedTable table(tagged_config(3000, prioritized));
    for (int i = 0; i < 5; ++i) CHECK(insert_tagged(*table, 500, 1));
    Claim claims[10];
    std::size_t num = 0;
    CHECK(table->reserve(10, claims, &num) == Status::kOk && num == 10);  // stays in flight
    std::vector<float> leaves(2990);
    std::vector<std::uint32_t> generations(2990);
    CHECK(export_leaves(*table, 10, 2990, table->alpha(), leaves.data(), generations.data()) == Status::kOk);
    for (std::size_t i = 0; i < 2990; ++i) {
      CHECK(generations[i] == (i < 2490 ? 2u : 0u));
      CHECK(leaves[i] == (prioritized ? table->tree().leaf(10 + i) : 1.0f));
    }
  }
}

void a_tree_with_the_unit_of_another_keeps_its_leaves() {
  SharedTable from(tagged_config(16)), to(tagged_config(16));
  const std::uint32_t slots[] = {0, 1, 2, 3};
  const float large[] = {3e12f, 0.3f, 7e4f, 1e-3f}, moderate[] = {8e3f, 0.3f, 77.7f, 1e-3f};
  for (const float* leaves : {large, moderate}) {
    ReplayTable::Lock first(*from), second(*to);
    from->tree().update(slots, leaves, 4);
    to->tree().start_with_unit(from->header().tree.unit_exponent);
    float kept[4];
    for (std::uint32_t slot : slots) kept[slot] = from->tree().leaf(slot);
    to->tree().update(slots, kept, 4);
    for (std::uint32_t slot : slots) CHECK(to->tree().leaf(slot) == kept[slot]);
    CHECK(to->header().tree.unit_exponent == from->header().tree.unit_exponent);
    CHECK(to->tree().total() == from->tree().total() && to->tree().sums_are_exact());
  }
}

void leaves_that_a_unit_has_no_room_for_make_room() {
  SharedTable table(tagged_config(16));
  const std::uint32_t slots[] = {5};
  const float leaves[] = {1e20f};
  ReplayTable::Lock lock(*table);
  table->tree().start_with_unit(-35);
  table->tree().update(slots, leaves, 1);
  CHECK(table->tree().leaf(5) == 1e20f && table->header().tree.unit_exponent > -35);
  CHECK(table->tree().sums_are_exact());
}

}  // namespace

int main() {
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  leaves_and_generations_are_told_without_the_rows();
  a_tree_with_the_unit_of_another_keeps_its_leaves();
  leaves_that_a_unit_has_no_room_for_make_room();
  std::puts("ok");
}
