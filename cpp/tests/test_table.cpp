// The replay table, one thread: reserve, commit, sample, update, and what they promise.
#include <set>

#include "check.hpp"

using namespace drivetrain;
using namespace drivetrain::test;

namespace {

void a_reserved_row_is_never_drawn_until_it_is_committed() {
  SharedTable table(tagged_config(100));
  CHECK(insert_tagged(*table, 10, 1));
  Claim claims[20];
  std::size_t num = 0;
  CHECK(table->reserve(20, claims, &num) == Status::kOk && num == 20);
  Draw draws[256];
  std::uint64_t tags[256];
  for (int round = 0; round < 20; ++round) {
    CHECK(sample_tagged(*table, 256, round % 2, draws, tags) == Status::kOk);
    for (std::uint64_t tag : tags) CHECK(tag >= 1 && tag <= 10);
  }
  CHECK(locked_and_consistent(*table));
  for (std::size_t i = 0; i < num; ++i) write_tag(*table, claims[i], 100 + i);
  CHECK(table->commit(claims, num) == Status::kOk);
  std::set<std::uint64_t> seen;
  for (int round = 0; round < 20; ++round) {
    CHECK(sample_tagged(*table, 256, true, draws, tags) == Status::kOk);
    seen.insert(tags, tags + 256);
  }
  CHECK(seen.size() == 30);
  CHECK(locked_and_consistent(*table));
}

void a_row_being_overwritten_is_taken_out_and_its_keys_go_stale() {
  SharedTable table(tagged_config(16));
  CHECK(insert_tagged(*table, 16, 1));
  Draw draws[16];
  std::uint64_t tags[16], keys[16];
  float leaves[16];
  CHECK(sample_tagged(*table, 16, true, draws, tags) == Status::kOk);
  for (int i = 0; i < 16; ++i) {
    keys[i] = Key::make(draws[i].slot, draws[i].generation);
    leaves[i] = 5.0f;
  }
  CHECK(insert_tagged(*table, 8, 100));  // overwrites slots 0 .. 7
  std::uint64_t num_stale = 0;
  CHECK(table->update_priorities(keys, leaves, leaves, 16, table->alpha(), &num_stale) == Status::kOk);
  std::uint64_t overwritten = 0;
  for (const Draw& draw : draws) overwritten += draw.slot < 8;
  CHECK(num_stale == overwritten && overwritten > 0);
  for (std::uint32_t slot = 0; slot < 8; ++slot)
    CHECK(table->tree().leaf(slot) == table->tree().rounded(leaf_of(1.0f, table->alpha())));
  CHECK(locked_and_consistent(*table));
}

void a_row_written_anew_keeps_its_place_and_its_leaf_under_a_new_key() {
  SharedTable table(tagged_config(16));
  CHECK(insert_tagged(*table, 16, 1));
  const float leaf = 5.0f;
  std::uint64_t old[3] = {Key::make(3, 2), Key::make(0, 2), Key::make(9, 2)}, keys[3], num_stale = 0;
  CHECK(table->update_priorities(old, &leaf, &leaf, 1, table->alpha(), &num_stale) == Status::kOk);
  CHECK(insert_tagged(*table, 2, 50));  // overwrites slots 0 and 1
  std::copy_n(old, 3, keys);
  const float before = table->tree().leaf(3);
  CHECK(retag(*table, keys, 3, 100) == 1);
  CHECK(keys[0] == Key::make(3, 4) && keys[1] == old[1] && keys[2] == Key::make(9, 4));
  CHECK(table->tree().leaf(3) == before && table->header().num_inserted == 18);
  std::uint64_t words[kTagWords];
  copy_from_shared(words, table->fields(9), sizeof words);
  for (std::uint64_t word : words) CHECK(word == 102);
  copy_from_shared(words, table->fields(0), sizeof words);
  for (std::uint64_t word : words) CHECK(word == 50);
  CHECK(table->update_priorities(old, &leaf, &leaf, 1, table->alpha(), &num_stale) == Status::kOk && num_stale == 1);
  CHECK(table->update_priorities(keys, &leaf, &leaf, 1, table->alpha(), &num_stale) == Status::kOk && num_stale == 1);
  CHECK(locked_and_consistent(*table));
}

void new_rows_get_the_leaf_of_the_largest_priority_so_far() {
  SharedTable table(tagged_config(64));
  CHECK(insert_tagged(*table, 1, 1));
  for (const float priority : {0.5f, 3.0f, 2.0f, 70.0f}) {
    const std::uint64_t key = Key::make(0, 2);
    const double alpha = table->alpha();
    const float leaf = leaf_of(priority, alpha), largest = std::max(table->header().max_priority, priority);
    std::uint64_t num_stale = 0;
    CHECK(table->update_priorities(&key, &leaf, &priority, 1, alpha, &num_stale) == Status::kOk);
    const std::uint64_t slot = table->header().next_slot;
    CHECK(insert_tagged(*table, 3, 10));
    CHECK(table->tree().leaf(slot + 2) == table->tree().rounded(leaf_of(largest, alpha)));
  }
}

// Some leaves are by one alpha then, and some by the other: the largest of all may be of a small priority.
void new_rows_get_the_largest_priority_of_the_buffer_while_alpha_changes() {
  constexpr std::uint64_t kRows = 3000;
  for (const auto& [before, alpha] : {std::pair{0.9, 0.1}, std::pair{0.1, 0.9}, std::pair{0.5, 0.0}})
    for (const bool is_first : {true, false})  // of those that are turned first
      for (const float largest : {1e-3f, 500.0f})
        for (int num_holds = 0; num_holds <= 6; ++num_holds) {
          SharedTable table(extremes_config(kRows));
          CHECK(table->set_alpha(before, false) == Status::kOk);
          for (int i = 0; i < 3; ++i) CHECK(insert_tagged(*table, kRows / 3, 1));
          std::uint64_t num_stale = 0;
          for (std::uint32_t slot = 0; slot < kRows; ++slot) {
            const std::uint64_t key = Key::make(slot, 2);
            const float priority = slot == (is_first ? 100 : 2900) ? largest : largest / 2;
            const float leaf = leaf_of(priority, before);
            CHECK(table->update_priorities(&key, &leaf, &priority, 1, before, &num_stale) == Status::kOk);
          }
          {
            ReplayTable::Lock lock(*table);
            table->header().exponent.change(alpha, true);
            for (int i = 0; i < num_holds; ++i) table->header().exponent.advance(table->tree(), kRows);
            table->header().next_slot = 300;
          }
          CHECK(insert_tagged(*table, 900, 1));
          CHECK(table->set_alpha(alpha, false) == Status::kOk);  // completes the change
          for (std::uint64_t slot = 300; slot < 1200; ++slot)
            CHECK(std::abs(table->tree().leaf(slot) / leaf_of(largest, alpha) - 1) < 1e-3);
          CHECK(locked_and_consistent(*table) && extremes_are_right(table->tree(), kRows));
        }
}

// A priority that needs a coarser unit makes every smaller leaf one unit; of those that are not turned yet the power of
// it would be another priority's.
void no_leaf_is_turned_after_a_unit_that_became_coarser_meanwhile() {
  constexpr std::uint64_t kRows = 3000;
  for (const auto& [before, alpha] : {std::pair{0.2, 0.9}, std::pair{0.9, 0.2}, std::pair{0.5, 0.0}})
    for (const bool is_new : {true, false})
      for (int num_holds = 0; num_holds <= 6; ++num_holds) {
        SharedTable table(extremes_config(kRows));
        CHECK(table->set_alpha(before, false) == Status::kOk);
        for (int i = 0; i < 3; ++i) CHECK(insert_tagged(*table, kRows / 3, 1));
        {
          ReplayTable::Lock lock(*table);
          table->header().exponent.change(alpha, true);
          for (int i = 0; i < num_holds; ++i) table->header().exponent.advance(table->tree(), kRows);
        }
        const float priority = 1e30f, leaf = leaf_of(priority, alpha);
        const std::uint64_t key = Key::make(0, 2);
        std::uint64_t num_stale = 0;
        Claim claim;
        std::size_t num = 0;
        if (is_new) {
          CHECK(table->reserve(1, &claim, &num) == Status::kOk && claim.slot == 0);
          CHECK(table->commit(&claim, 1, nullptr, &priority) == Status::kOk);
        } else {
          CHECK(table->update_priorities(&key, &leaf, &priority, 1, alpha, &num_stale) == Status::kOk);
        }
        CHECK(table->set_alpha(alpha, false) == Status::kOk);  // completes the change
        CHECK(std::abs(table->tree().leaf(0) / leaf - 1) < 1e-3);
        for (std::uint64_t slot = 1; slot < kRows; ++slot)
          CHECK(std::abs(table->tree().leaf(slot) - 1.0) < std::max(1e-3, table->tree().unit()));
        CHECK(locked_and_consistent(*table) && extremes_are_right(table->tree(), kRows));
      }
}

void rows_in_flight_by_a_live_process_are_passed_over() {
  SharedTable table(tagged_config(8));
  Claim first[3], second[8];
  std::size_t num = 0;
  CHECK(table->reserve(3, first, &num) == Status::kOk && num == 3);
  CHECK(insert_tagged(*table, 5, 1));
  CHECK(table->reserve(8, second, &num) == Status::kOk && num == 5);  // the ring came round
  for (std::size_t i = 0; i < num; ++i) CHECK(second[i].slot >= 3);
  Claim third[1];
  std::size_t none = 0;
  CHECK(table->reserve(1, third, &none) == Status::kBusy && none == 0);
  CHECK(table->commit(second, num) == Status::kOk);
  CHECK(table->commit(first, 3) == Status::kOk);
  CHECK(table->header().num_committed == 8);
  CHECK(locked_and_consistent(*table));
}

void rows_are_whole_where_generations_begin_again() {
  SharedTable table(tagged_config(4));
  CHECK(insert_tagged(*table, 4, 1));
  for (std::uint64_t slot = 0; slot < 4; ++slot) table->row(slot).generation.store(0xFFFFFFF8);
  std::set<std::uint64_t> keys;
  Draw draws[64];
  std::uint64_t tags[64];
  for (std::uint64_t round = 1; round <= 10; ++round) {
    CHECK(insert_tagged(*table, 4, 100 * round));
    CHECK(table->header().num_committed == 4 && locked_and_consistent(*table));
    CHECK(sample_tagged(*table, 64, true, draws, tags) == Status::kOk);
    for (int i = 0; i < 64; ++i) {
      CHECK(tags[i] / 100 == round && is_committed(draws[i].generation));
      if (draws[i].slot == 0) keys.insert(Key::make(0, draws[i].generation));
    }
  }
  CHECK(keys.size() == 10 && keys.count(Key::make(0, 0xFFFFFFFE)) && keys.count(Key::make(0, 2)));
  for (const std::uint32_t orphaned : {0xFFFFFFFDu, 0xFFFFFFFFu}) CHECK(taken_after(orphaned) == 1);
}

void too_few_rows_is_said_and_nothing_is_drawn() {
  for (bool prioritized : {true, false}) {
    SharedTable table(tagged_config(8, prioritized));
    Draw draws[4];
    std::uint64_t tags[4];
    CHECK(sample_tagged(*table, 4, false, draws, tags) == Status::kNotEnoughData);
    CHECK(insert_tagged(*table, 1, 1));
    CHECK(sample_tagged(*table, 4, false, draws, tags) == Status::kOk);
  }
}

void a_uniform_table_draws_every_whole_row_alike_around_orphans() {
  SharedTable table(tagged_config(64, false));
  CHECK(insert_tagged(*table, 64, 1));
  Claim claims[32];
  std::size_t num = 0;
  CHECK(table->reserve(32, claims, &num) == Status::kOk);  // stays in flight
  std::vector<int> counts(65);
  Draw draws[1000];
  std::uint64_t tags[1000];
  for (int round = 0; round < 64; ++round) {
    CHECK(sample_tagged(*table, 1000, round % 2, draws, tags) == Status::kOk);
    for (std::uint64_t tag : tags) ++counts[tag];
  }
  double chi_square = 0;
  for (int tag = 1; tag <= 64; ++tag) {
    if (tag <= 32) CHECK(counts[tag] == 0);
    if (tag > 32) chi_square += (counts[tag] - 2000.0) * (counts[tag] - 2000.0) / 2000.0;
  }
  CHECK(chi_square < 70);  // 31 degrees of freedom: p < 1e-4 beyond
}

}  // namespace

int main() {
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  a_reserved_row_is_never_drawn_until_it_is_committed();
  a_row_being_overwritten_is_taken_out_and_its_keys_go_stale();
  a_row_written_anew_keeps_its_place_and_its_leaf_under_a_new_key();
  new_rows_get_the_leaf_of_the_largest_priority_so_far();
  new_rows_get_the_largest_priority_of_the_buffer_while_alpha_changes();
  no_leaf_is_turned_after_a_unit_that_became_coarser_meanwhile();
  rows_in_flight_by_a_live_process_are_passed_over();
  rows_are_whole_where_generations_begin_again();
  too_few_rows_is_said_and_nothing_is_drawn();
  a_uniform_table_draws_every_whole_row_alike_around_orphans();
  std::puts("ok");
}
