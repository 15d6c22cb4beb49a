// Frames, one thread: each stored once, rows end with their frames, dead writers' frames come back.
#include <set>

#define DRIVETRAIN_PATIENCE_S (-1)  // a producer that finds no room gives up at once
#include "drivetrain/queries.hpp"
#include "stacked.hpp"

using namespace drivetrain;
using namespace drivetrain::test;

namespace {

void an_episode_stores_each_frame_once() {
  SharedTable table(stacked_config(1000, 1100));
  StackedWriter writer(*table, 4, 1, 1, 1000);
  for (int t = 0; t < 200; ++t) CHECK(writer.step() == Status::kOk);
  CHECK(table->header().num_committed == 800);
  CHECK(table->header().next_frame == 4 * 201);  // the first obs, and a new one per step
  std::vector<Draw> draws(500);
  std::vector<Tag> tags(500);
  CHECK(sample_stacked(*table, 500, true, draws.data(), tags.data()) == Status::kOk);
  CHECK(locked_and_consistent(*table));
}

void rows_end_with_their_frames_and_never_show_newer_ones(bool prioritized) {
  SharedTable table(stacked_config(500, 100, prioritized));
  StackedWriter writer(*table, 3, 2, 1, 7);
  std::vector<Draw> draws(200);
  std::vector<Tag> tags(200);
  for (int t = 0; t < 300; ++t) {
    CHECK(writer.step() == Status::kOk);
    if (t < 20) continue;
    CHECK(sample_stacked(*table, 200, t % 2, draws.data(), tags.data(), 2) == Status::kOk);
    CHECK(locked_and_consistent(*table));
  }
  const std::uint64_t left = table->header().num_committed;
  CHECK(left > 50 && left < 100);  // 8 frames per 7 rows, some rows still open
  CHECK(table->header().num_dropped == 0);
}

void frames_that_no_row_refers_to_are_counted_from_the_next_one_on() {
  SharedTable table(stacked_config(8, 64));
  IdleFrames idle{};
  CHECK(idle_frames(*table, &idle) == Status::kOk);
  CHECK(idle.first == 0 && idle.count == 64);
  StackedWriter writer(*table, 1, 1, 1, 1000);
  for (int t = 0; t < 20; ++t) CHECK(writer.step() == Status::kOk);
  CHECK(idle_frames(*table, &idle) == Status::kOk);
  const std::uint64_t oldest = 21 - 8 - kStack;  // the last 8 of 21 observations are next ones, of stacks that begin here
  CHECK(idle.first == 21 && idle.count == 64 - 21 + oldest);
  CHECK(table->clear() == Status::kOk);
  CHECK(idle_frames(*table, &idle) == Status::kOk);
  CHECK(idle.first == 21 && idle.count == 64);
}

void keys_of_ended_rows_are_stale() {
  SharedTable table(stacked_config(40, 64));
  StackedWriter writer(*table, 1, 1, 1, 1000);
  for (int t = 0; t < 30; ++t) CHECK(writer.step() == Status::kOk);
  std::vector<Draw> draws(30);
  std::vector<Tag> tags(30);
  CHECK(sample_stacked(*table, 30, true, draws.data(), tags.data()) == Status::kOk);
  StackedWriter resetting(*table, 1, 1, 1 << 20, 1);  // two frames per row
  for (int t = 0; t < 25; ++t) CHECK(resetting.step() == Status::kOk);
  std::uint64_t keys[30], num_stale = 0, ended = 0;
  float leaves[30];
  for (int i = 0; i < 30; ++i) {
    keys[i] = Key::make(draws[i].slot, draws[i].generation);
    leaves[i] = 3.0f;
    ended += tags[i].at < 31 + 50 - 64 + kStack - 1;  // its oldest frame is among the 17 taken again
  }
  CHECK(table->update_priorities(keys, leaves, leaves, 30, table->alpha(), &num_stale) == Status::kOk);
  CHECK(num_stale == ended && ended > 0);
  CHECK(locked_and_consistent(*table));
}

void a_table_filled_slot_by_slot_ends_rows_wherever_its_ring_goes_on() {
  constexpr std::uint64_t kRows = 40;
  for (std::uint64_t next_slot = 0; next_slot < kRows; ++next_slot) {
    SharedTable table(stacked_config(kRows, 110));
    StackedWriter writer(*table, 1, 1, 1, 6);  // the first rows of an episode end with one frame
    for (std::uint64_t t = 0; t < kRows; ++t) CHECK(writer.step() == Status::kOk);
    {
      ReplayTable::Lock lock(*table);
      table->set_next_slot(next_slot);
    }
    CHECK(table->header().next_slot == next_slot && table->header().num_committed == kRows);
    for (std::uint64_t t = 0; t < kRows; ++t) {
      CHECK(writer.step() == Status::kOk);
      CHECK(locked_and_consistent(*table));
    }
  }
}

void frames_are_whole_where_generations_begin_again() {
  SharedTable table(stacked_config(20, 30));
  for (std::uint64_t slot = 0; slot < 30; ++slot) table->frames().frame(slot).generation.store(0xFFFFFFF8);
  StackedWriter writer(*table, 1, 1, 1, 12);
  std::vector<Draw> draws(50);
  std::vector<Tag> tags(50);
  for (int t = 0; t < 300; ++t) {
    CHECK(writer.step() == Status::kOk);
    CHECK(locked_and_consistent(*table));
    if (t >= 20) CHECK(sample_stacked(*table, 50, t % 2, draws.data(), tags.data()) == Status::kOk);
  }
  CHECK(table->header().num_committed == 20 && table->header().num_dropped == 0);
  for (std::uint64_t slot = 0; slot < 30; ++slot) CHECK(table->frames().frame(slot).generation.load() < 100);
}

std::vector<Claim> take(ReplayTable& table, std::size_t count) {
  std::vector<Claim> claims(count);
  const FrameBatch batch{claims.data(), count, nullptr, 0};
  std::size_t no_rows = 0;
  CHECK(table.reserve(0, nullptr, &no_rows, &batch) == Status::kOk);
  return claims;
}

void publish(ReplayTable& table, std::vector<Claim> claims) {
  const FrameBatch batch{claims.data(), claims.size(), nullptr, 0};
  CHECK(table.commit_framed(nullptr, 0, nullptr, nullptr, nullptr, &batch) == Status::kOk);
}

void frames_in_flight_are_passed_over() {
  SharedTable table(stacked_config(30, 20));
  StackedWriter writer(*table, 1, 1, 1, 1000);
  for (int t = 0; t < 10; ++t) CHECK(writer.step() == Status::kOk);  // frames 0 .. 10
  const std::vector<Claim> claims = take(*table, 8);                  // 11 .. 18
  std::vector<Draw> draws(100);
  std::vector<Tag> tags(100);
  for (int t = 0; t < 60; ++t) {
    if (t == 30) publish(*table, claims);
    CHECK(writer.step() == Status::kOk);
    CHECK(sample_stacked(*table, 100, true, draws.data(), tags.data()) == Status::kOk);
    for (const Claim& claim : claims)
      CHECK(t >= 30 || table->frames().frame(claim.slot).generation.load() == claim.generation);
    CHECK(locked_and_consistent(*table));
  }
}

// Of the episode over the end of the ring of rows, the first three show one frame: the newest of them have the lowest
// slots.
void between_the_holds_of_clearing_every_row_hangs_in_its_list() {
  constexpr std::uint64_t kLength = 5, kRows = 800 * kLength + 1, kFrames = 5000;
  SharedTable table(stacked_config(kRows, kFrames));
  StackedWriter writer(*table, 1, 1, 1, kLength);
  for (std::uint64_t t = 0; t < kRows + 100; ++t) CHECK(writer.step() == Status::kOk);
  CHECK(table->num_committed() == kRows);
  StackedWriter other(*table, 1, 1, 2, 5);
  std::vector<Draw> draws(200);
  std::vector<Tag> tags(200);
  std::uint64_t next = 0;
  for (int hold = 0; hold < 4; ++hold) {
    CHECK(table->end_some(&next) == Status::kOk);
    CHECK(locked_and_consistent(*table));
    for (int t = 0; t < 200; ++t) CHECK(other.step() == Status::kOk);
    CHECK(sample_stacked(*table, 200, true, draws.data(), tags.data()) == Status::kOk);
  }
  CHECK(next < kFrames && table->clear() == Status::kOk);
  CHECK(table->header().num_committed == 0 && locked_and_consistent(*table));
}

void a_row_ends_with_the_frame_that_is_reached_first_not_with_its_oldest() {
  SharedTable table(stacked_config(30, 20));
  publish(*table, take(*table, 2));                       // 0, 1
  const std::vector<Claim> others = take(*table, 2);      // 2, 3 stay in flight
  publish(*table, take(*table, 14));                      // 4 .. 17
  std::vector<Claim> sleeping = take(*table, 6);          // 18, 19, 0, 1, and past the two: 4, 5
  CHECK(sleeping[0].slot == 18 && sleeping[3].slot == 1 && sleeping[4].slot == 4);
  publish(*table, others);
  publish(*table, take(*table, 12));                      // 6 .. 17
  publish(*table, take(*table, 2));                       // past four of the sleeper's: 2, 3
  Claim row[1];
  std::size_t num = 0;
  CHECK(table->reserve(1, row, &num) == Status::kOk);
  std::uint64_t keys[6];
  for (int r = 0; r < 6; ++r) {
    keys[r] = Key::make(sleeping[r].slot, sleeping[r].generation + 1);
    table->frames().refs(row[0].slot)[r].store(sleeping[r].slot);
  }
  const FrameBatch batch{sleeping.data(), 6, nullptr, 0};
  CHECK(table->commit_framed(row, 1, nullptr, nullptr, keys, &batch) == Status::kOk);
  CHECK(table->header().num_committed == 1 && locked_and_consistent(*table));
  CHECK(take(*table, 1)[0].slot == 4);
  CHECK(table->header().num_committed == 0);
}

void too_few_free_frames_is_busy_and_takes_nothing() {
  SharedTable table(stacked_config(30, 20));
  Claim claims[20], none[1];
  std::size_t num = 0;
  const FrameBatch most{claims, 15, nullptr, 0}, more{claims + 15, 5, nullptr, 0};
  CHECK(table->reserve(0, none, &num, &most) == Status::kOk);
  const FrameBatch six{claims + 14, 6, nullptr, 0};
  CHECK(table->reserve(1, none, &num, &six) == Status::kBusy && num == 0);
  CHECK(table->header().next_frame == 15);
  CHECK(table->reserve(0, none, &num, &more) == Status::kOk);  // the five that are left
  CHECK(locked_and_consistent(*table));
}

void a_row_whose_writer_slept_for_a_round_is_dropped() {
  SharedTable table(stacked_config(30, 40));
  Claim claims[6], row[1];
  std::size_t num = 0;
  const FrameBatch batch{claims, 6, nullptr, 0};
  CHECK(table->reserve(1, row, &num, &batch) == Status::kOk && num == 1);
  CHECK(table->commit_framed(nullptr, 0, nullptr, nullptr, nullptr, &batch) == Status::kOk);
  std::uint64_t keys[6];
  for (int r = 0; r < 6; ++r) keys[r] = Key::make(claims[r].slot, claims[r].generation + 1);
  StackedWriter writer(*table, 2, 1, 1, 100);
  for (int t = 0; t < 30; ++t) CHECK(writer.step() == Status::kOk);  // takes those frames again
  CHECK(table->commit_framed(row, 1, nullptr, nullptr, keys, nullptr) == Status::kOk);
  CHECK(table->header().num_dropped == 1);
  CHECK(locked_and_consistent(*table));
  std::set<std::uint32_t> slots;
  for (int t = 0; t < 30; ++t) CHECK(writer.step() == Status::kOk);
  CHECK(table->row(row[0].slot).generation.load() % 2 == 0);  // its slot is used again
}

void a_step_for_which_there_was_no_room_leaves_no_row_with_the_frames_of_another() {
  SharedTable table(stacked_config(30, 60));
  StackedWriter writer(*table, 1, 3, 1, 1000);
  for (int t = 0; t < 8; ++t) CHECK(writer.step() == Status::kOk);
  Claim rows[30];
  std::size_t num = 0;
  CHECK(table->reserve(30, rows, &num) == Status::kOk && num == 30);
  CHECK(writer.step() == Status::kBusy);
  const std::vector<std::uint64_t> gone(30 * table->config().num_refs, Key::make(0, 98));
  CHECK(table->commit_framed(rows, 30, nullptr, nullptr, gone.data(), nullptr) == Status::kOk);
  CHECK(table->header().num_committed == 0);
  for (int t = 0; t < 10; ++t) CHECK(writer.step() == Status::kOk);
  CHECK(table->header().num_committed == 8 && locked_and_consistent(*table));
  std::vector<Draw> draws(100);
  std::vector<Tag> tags(100);
  CHECK(sample_stacked(*table, 100, true, draws.data(), tags.data(), 3) == Status::kOk);
  for (const Tag& tag : tags) CHECK(tag.at > 8);
}

void with_hardly_any_frames_calls_go_in_parts_and_lose_nothing() {
  std::vector<Draw> draws(4);
  std::vector<Tag> tags(4);
  for (std::size_t num_envs = 1; num_envs <= 50; num_envs += num_envs < 12 ? 1 : 19)
    for (std::uint64_t num_frames = 12; num_frames <= 60; num_frames += 5) {
      SharedTable table(stacked_config(1, num_frames));
      StackedWriter writer(*table, num_envs, 1, 1, 5);
      for (int t = 0; t < 20; ++t) {
        CHECK(writer.step() == Status::kOk);
        CHECK(table->header().num_committed == 1 && table->header().num_dropped == 0);
        CHECK(sample_stacked(*table, 4, true, draws.data(), tags.data()) == Status::kOk);
        CHECK(tags[0].stream == num_envs);
      }
      CHECK(locked_and_consistent(*table));
    }
}

void windows_of_an_episode_share_their_frames_and_the_last_is_padded() {
  SharedTable table(sequence_config(100, 200));
  SequenceStackedWriter writer(*table, 1, 1, 12);
  for (int t = 0; t < 12; ++t) {
    CHECK(writer.step() == Status::kOk);
    CHECK(table->header().num_committed == (t < 4 ? 0u : t < 11 ? (t - 2u) / 2 : 5u));
  }
  CHECK(table->header().next_frame == 13);  // one per step and the first, for 22 steps in five rows
  std::vector<Draw> draws(200);
  std::vector<Tag> tags(200);
  CHECK(sample_sequences(*table, 200, draws.data(), tags.data()) == Status::kOk);
  std::set<std::uint64_t> begins;
  for (const Tag& tag : tags) begins.insert(tag.at);
  CHECK((begins == std::set<std::uint64_t>{0, 2, 4, 6, 8}));  // the last has four of five steps
  CHECK(locked_and_consistent(*table));
}

void sequences_end_with_their_frames() {
  SharedTable table(sequence_config(60, 80));
  SequenceStackedWriter writer(*table, 3, 1, 9);
  std::vector<Draw> draws(60);
  std::vector<Tag> tags(60);
  for (int t = 0; t < 200; ++t) {
    CHECK(writer.step() == Status::kOk);
    if (t >= 5) CHECK(sample_sequences(*table, 60, draws.data(), tags.data()) == Status::kOk);
    CHECK(locked_and_consistent(*table));
  }
  CHECK(table->header().num_dropped == 0 && table->header().num_committed < 40);
}

}  // namespace

int main() {
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  an_episode_stores_each_frame_once();
  rows_end_with_their_frames_and_never_show_newer_ones(true);
  rows_end_with_their_frames_and_never_show_newer_ones(false);
  frames_that_no_row_refers_to_are_counted_from_the_next_one_on();
  keys_of_ended_rows_are_stale();
  a_table_filled_slot_by_slot_ends_rows_wherever_its_ring_goes_on();
  frames_are_whole_where_generations_begin_again();
  frames_in_flight_are_passed_over();
  between_the_holds_of_clearing_every_row_hangs_in_its_list();
  a_row_ends_with_the_frame_that_is_reached_first_not_with_its_oldest();
  too_few_free_frames_is_busy_and_takes_nothing();
  a_row_whose_writer_slept_for_a_round_is_dropped();
  a_step_for_which_there_was_no_room_leaves_no_row_with_the_frames_of_another();
  with_hardly_any_frames_calls_go_in_parts_and_lose_nothing();
  windows_of_an_episode_share_their_frames_and_the_last_is_padded();
  sequences_end_with_their_frames();
  std::puts("ok");
}
