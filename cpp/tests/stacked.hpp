// Rows of stacked observations in which every byte follows from a number, through the real writer.
//
// Of environment `stream`, step t of an episode that began at step `from` shows frames t - k + 1 .. t,
// none before `from` (a reset fills the stack), and next_obs shows t - k + 2 .. t + 1. Each frame is
// its own number kFrameWords times. The row's own field says stream, t and from.
#pragma once

#include <algorithm>
#include <memory>

#include "bind/writers.hpp"
#include "check.hpp"
#include "drivetrain/joined_stacks.hpp"

namespace drivetrain::test {

inline constexpr std::size_t kStack = 3, kFrameWords = 5;

struct Tag {
  std::uint64_t stream, from, at;
};

inline std::uint64_t frame_word(const Tag& tag, std::uint64_t t) {
  return 1 + (tag.stream << 40) + std::max(t, tag.from);
}

inline constexpr std::size_t kStackBytes = kStack * kFrameWords * 8;
inline constexpr std::size_t kLinks = 32;  // links_nbytes(2 * kStack)
inline constexpr Field kStackedFields[] = {
    {FieldKind::kFrames, 0, kStackBytes},
    {FieldKind::kFirst, kLinks, sizeof(Tag)},
    {FieldKind::kNextFrames, 0, kStackBytes},
    {FieldKind::kReward, kLinks + 24, 4},
    {FieldKind::kDiscount, kLinks + 28, 4},
    {FieldKind::kTerminated, kLinks + 32, 1},
    {FieldKind::kTruncated, kLinks + 33, 1},
};
inline constexpr RowSchema kStackedSchema{kStackedFields, 7, kStack};

inline TableConfig stacked_config(std::uint64_t capacity, std::uint64_t num_frames,
                                  bool prioritized = true) {
  CHECK(links_nbytes(2 * kStack) == kLinks);
  TableConfig config{capacity, 80, prioritized, 0.6, 7};
  config.num_frames = num_frames;
  config.frame_stride = kFrameWords * 8;
  config.num_refs = 2 * kStack;
  return config;
}

inline constexpr std::size_t kSteps = 5, kSequenceLinks = 8 + 2 * kStack * kSteps * 4;
inline constexpr Field kSequenceFields[] = {
    {FieldKind::kFrames, 0, kSteps * kStackBytes},
    {FieldKind::kFirst, kSequenceLinks, kSteps * sizeof(Tag)},
    {FieldKind::kNextFrames, 0, kSteps * kStackBytes},
    {FieldKind::kReward, kSequenceLinks + kSteps * 24, kSteps * 4},
    {FieldKind::kDiscount, kSequenceLinks + kSteps * 28, kSteps * 4},
    {FieldKind::kTerminated, kSequenceLinks + kSteps * 32, kSteps},
    {FieldKind::kTruncated, kSequenceLinks + kSteps * 33, kSteps},
    {FieldKind::kMask, kSequenceLinks + kSteps * 34, kSteps},
};
inline constexpr RowSchema kSequenceSchema{kSequenceFields, 8, kStack, kSteps};

inline TableConfig sequence_config(std::uint64_t capacity, std::uint64_t num_frames,
                                   bool prioritized = true) {
  CHECK(links_nbytes(2 * kStack * kSteps) == kSequenceLinks);
  TableConfig config{capacity, (8 + kSequenceLinks + kSteps * 35 + 7) / 8 * 8, prioritized, 0.6, 7};
  config.num_frames = num_frames;
  config.frame_stride = kFrameWords * 8;
  config.num_refs = 2 * kStack * kSteps;
  return config;
}

inline void fill_stack(const Tag& tag, std::uint64_t newest, std::uint64_t* words) {
  for (std::size_t j = 0; j < kStack; ++j)
    for (std::size_t w = 0; w < kFrameWords; ++w)
      *words++ = frame_word(tag, newest + j < kStack - 1 ? 0 : newest + j + 1 - kStack);
}

/// One writer and its environments; every episode_length steps they begin anew.
template <class Writer>
class Stacked {
 public:
  template <class... Settings>
  Stacked(const RowSchema& schema, ReplayTable& table, std::size_t num_envs, std::uint64_t stream,
          std::uint64_t episode_length, Settings... settings)
      : num_envs_(num_envs), episode_length_(episode_length), stream_(stream),
        writer_(table, schema, num_envs, settings...) {}

  Status step() {
    std::vector<std::uint64_t> obs(num_envs_ * kStack * kFrameWords), next(obs);
    std::vector<Tag> tags;
    const std::uint64_t from = time_ / episode_length_ * episode_length_;
    for (std::size_t env = 0; env < num_envs_; ++env) {
      tags.push_back({stream_ + env, from, time_});
      fill_stack(tags[env], time_, &obs[env * kStack * kFrameWords]);
      fill_stack(tags[env], time_ + 1, &next[env * kStack * kFrameWords]);
    }
    const std::vector<float> reward(num_envs_);
    const std::vector<std::uint8_t> no(num_envs_);
    const std::vector<std::uint8_t> ended(num_envs_, (time_ + 1) % episode_length_ == 0);
    const auto bytes = [](const auto& values) {
      return reinterpret_cast<const unsigned char*>(values.data());
    };
    const unsigned char* arrays[8] = {bytes(obs), bytes(tags), bytes(next)};
    ++time_;
    return writer_.add({arrays, reward.data(), nullptr, ended.data(), no.data()});
  }

 private:
  std::size_t num_envs_;
  std::uint64_t episode_length_, stream_, time_ = 0;
  Writer writer_;
};

/// Of transitions.
class StackedWriter : public Stacked<bind::Transitions> {
 public:
  StackedWriter(ReplayTable& table, std::size_t num_envs, std::size_t num_step,
                std::uint64_t stream, std::uint64_t episode_length)
      : Stacked(kStackedSchema, table, num_envs, stream, episode_length, num_step, 0.9) {}
};

/// Of sequences of kSteps that begin every two steps.
class SequenceStackedWriter : public Stacked<bind::Windows> {
 public:
  SequenceStackedWriter(ReplayTable& table, std::size_t num_envs, std::uint64_t stream,
                        std::uint64_t episode_length)
      : Stacked(kSequenceSchema, table, num_envs, stream, episode_length, std::size_t{2}, 0.9) {}
};

/// Samples `count` rows and checks every word of their stacks; num_step as the writer's. Every second time
/// obs and next_obs are joined, if all rows say so.
inline Status sample_stacked(ReplayTable& table, std::size_t count, bool stratified, Draw* draws,
                             Tag* tags, std::uint64_t num_step, const Gatherers& gatherers) {
  std::vector<std::uint64_t> obs(count * kStack * kFrameWords), next(obs);
  std::vector<float> reward(count), discount(count);
  std::vector<std::uint8_t> terminated(count), truncated(count);
  const auto bytes = [](auto* data) { return reinterpret_cast<unsigned char*>(data); };
  unsigned char* outputs[7] = {bytes(obs.data()),    bytes(tags),       bytes(next.data()),
                               bytes(reward.data()), bytes(discount.data()),
                               terminated.data(),    truncated.data()};
  RowSchema schema = kStackedSchema;
  thread_local unsigned turn = 0;
  schema.shift = ++turn % 2 && num_step < kStack ? num_step : 0;
  const std::size_t run_words = (kStack + schema.shift) * kFrameWords;
  std::vector<std::uint64_t> runs(count * run_words, 77);
  unsigned char* joined[7];
  std::copy_n(outputs, 7, joined);
  joined[0] = bytes(runs.data());
  joined[2] = bytes(runs.data() + schema.shift * kFrameWords);
  JoinedStacks stacks(schema, joined, outputs);
  Sampler sampler(table, best_simd_level());
  const Status status = sampler.sample(
      count, 1, stratified ? count : 0, draws,
      [&](std::size_t first, std::size_t num, const Draw* drawn) {
        stacks.gather(table, first, num, drawn, gatherers);
      });
  if (status != Status::kOk) return status;
  for (std::size_t i = 0; stacks.are_joined() && i < count; ++i) {
    const std::uint64_t* run = &runs[i * run_words];
    std::copy_n(run, kStack * kFrameWords, &obs[i * kStack * kFrameWords]);
    std::copy_n(run + schema.shift * kFrameWords, kStack * kFrameWords, &next[i * kStack * kFrameWords]);
  }
  std::uint64_t expected[kStack * kFrameWords];
  for (std::size_t i = 0; i < count; ++i) {
    fill_stack(tags[i], tags[i].at, expected);
    CHECK(std::equal(expected, std::end(expected), &obs[i * kStack * kFrameWords]));
    const std::uint64_t* after = &next[i * kStack * kFrameWords];
    // An episode's end may have cut the window: its last step tells by its newest frame.
    const std::uint64_t last = after[kStack * kFrameWords - 1] - 1 - (tags[i].stream << 40);
    CHECK(last > tags[i].at && last <= tags[i].at + num_step);
    fill_stack(tags[i], last, expected);
    CHECK(std::equal(expected, std::end(expected), after));
  }
  return Status::kOk;
}

inline Status sample_stacked(ReplayTable& table, std::size_t count, bool stratified, Draw* draws,
                             Tag* tags, std::uint64_t num_step = 1) {
  ThreadPool nobody;
  return sample_stacked(table, count, stratified, draws, tags, num_step, {nobody, 1});
}

/// Samples `count` sequences and checks every step of them, and the zeros behind their ends.
inline Status sample_sequences(ReplayTable& table, std::size_t count, Draw* draws, Tag* first_tags) {
  constexpr std::size_t kWords = kStack * kFrameWords;
  std::vector<std::uint64_t> obs(count * kSteps * kWords, 77), next(obs);  // nothing may be left of it
  std::vector<Tag> tags(count * kSteps);
  std::vector<float> reward(count * kSteps), discount(reward);
  std::vector<std::uint8_t> terminated(count * kSteps), truncated(terminated), mask(terminated);
  const auto bytes = [](auto& data) { return reinterpret_cast<unsigned char*>(data.data()); };
  unsigned char* outputs[8] = {bytes(obs),        bytes(tags),     bytes(next), bytes(reward),
                               bytes(discount),   bytes(terminated), bytes(truncated), bytes(mask)};
  Sampler sampler(table, best_simd_level());
  const Status status = sampler.sample(
      count, 1, 0, draws, [&](std::size_t first, std::size_t num, const Draw* drawn) {
        gather_rows(kSequenceSchema, table, outputs, first, num, drawn);
      });
  if (status != Status::kOk) return status;
  for (std::size_t i = 0; i < count; ++i) {
    const Tag begin = first_tags[i] = tags[i * kSteps];
    CHECK((begin.at - begin.from) % 2 == 0);
    for (std::size_t j = 0; j < kSteps; ++j) {
      const std::size_t at = i * kSteps + j;
      std::uint64_t shown[kWords] = {}, after[kWords] = {};
      CHECK(mask[at] == (j == 0 || (mask[at - 1] && !terminated[at - 1])));
      if (mask[at]) {
        CHECK(tags[at].stream == begin.stream && tags[at].at == begin.at + j);
        fill_stack(tags[at], tags[at].at, shown);
        fill_stack(tags[at], tags[at].at + 1, after);
      } else {
        CHECK(tags[at].stream == 0 && tags[at].at == 0 && discount[at] == 0);
      }
      CHECK(std::equal(shown, shown + kWords, &obs[at * kWords]));
      CHECK(std::equal(after, after + kWords, &next[at * kWords]));
    }
  }
  return Status::kOk;
}

}  // namespace drivetrain::test
