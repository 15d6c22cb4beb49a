// Blocks: stretches of a thread's steps, in some of which, chosen at random, some instruments do not record.
//
//   round │ 0 0 A 0 0 0 0 0 0 0 │ 0 0 0 0 ...      a block is `length` step boundaries; its mask says what is muted
//
// Their durations and counts tell afterwards what recording costs in this very program. A block is a number of steps
// and not a time: of blocks of equal time the slower ones would hold less work. The number is fixed for a round, from
// how long the blocks of the round before were. Plain data of one thread, without any I/O.
#pragma once

#include <cstdint>

namespace drivetrain {

inline constexpr std::uint32_t kNumInstruments = 2;
inline constexpr std::uint32_t kMuteAll = (1u << kNumInstruments) - 1;
// Beside the bits of instruments: what GPUs do is not recorded either, for no thread of the process.
inline constexpr std::uint32_t kMuteGpu = 1u << 15;
// How long a block should be: long against a change of blocks, short against a drift; and longer in long runs, whose
// cost is known by then and whose trace need not grow by it.
inline constexpr std::uint64_t kBlockNs = 20'000'000;
inline constexpr std::uint64_t kBlocksOfElapsed = 1000;

/// Of a block, or before the first one of a thread.
struct BlockCounts {
  std::uint64_t cpu_ns = 0;  // when it began
  std::uint32_t spans[kNumInstruments] = {};
  std::uint32_t steps[3] = {};

  /// Instruments, by bit, that are entered in every fourth step, or more often.
  std::uint32_t frequent() const noexcept {
    std::uint64_t num_steps = 0;
    for (const std::uint32_t number : steps) num_steps += number;
    std::uint32_t found = 0;
    for (std::uint32_t i = 0; i < kNumInstruments; ++i) found |= (4ull * spans[i] >= num_steps) << i;
    return found;
  }
};

class BlockPlan {
 public:
  struct Block {
    std::uint32_t mask = 0;
    bool begins_round = false;
  };

  /// `every` blocks hold one that is muted, for each way of muting; 0: no blocks at all.
  void start(std::uint64_t seed, std::uint32_t every) noexcept {
    *this = BlockPlan{};
    random_ = seed;
    every_ = every;
    left_ = every != 0 ? 1 : 0;
  }
  void stop() noexcept { *this = BlockPlan{}; }

  /// A step is over; true where the block is too, and next() has to be asked.
  bool boundary() noexcept { return left_ != 0 && --left_ == 0; }

  /// Whether the block that is over belonged to a round; before the first, steps are only timed.
  bool in_round() const noexcept { return in_round_; }

  /// The next block, until which next() returns; `active` are the instruments that record enough to be told apart, and
  /// kMuteGpu where this thread may switch that.
  /// False while there is no block yet: the length of the first is still being found.
  bool next(std::uint64_t now, std::uint32_t active, Block& block) noexcept {
    block = Block{};
    if (!in_round_ && !timed(now)) return false;
    block.begins_round = num_left_ == 0;
    if (block.begins_round) begin_round(now, active);
    in_round_ = true;
    block.mask = draw();
    left_ = length_;
    return true;
  }

 private:
  /// Before the first round: counts steps until they took as long as a block should.
  bool timed(std::uint64_t now) noexcept {
    if (round_from_ns_ == 0) round_from_ns_ = first_ns_ = now;
    left_ = 1;
    if (now - round_from_ns_ < kBlockNs) {
      ++length_;
      return false;
    }
    length_ += length_ == 0;
    return true;
  }

  void begin_round(std::uint64_t now, std::uint32_t active) noexcept {
    if (num_blocks_ != 0) {
      const std::uint64_t mean_ns = (now - round_from_ns_) / num_blocks_ + 1;
      const std::uint64_t wanted = length_ * (kBlockNs + (now - first_ns_) / kBlocksOfElapsed) / mean_ns;
      length_ = wanted < 1 ? 1 : wanted > 4 * length_ ? 4 * length_ : wanted;
    }
    round_from_ns_ = now;
    num_ways_ = 1;
    ways_[0] = kMuteAll | (active & kMuteGpu);
    const bool several = (active & (active - 1)) != 0;
    for (std::uint32_t bit = 1; several && bit <= kMuteGpu; bit <<= 1)
      if (active & bit) ways_[num_ways_++] = bit;
    muted_left_ = num_ways_;
    num_blocks_ = num_left_ = num_ways_ * every_;
  }

  /// Each of what is left of the round is as likely as any other: all orders of a round are equally likely.
  std::uint32_t draw() noexcept {
    const std::uint64_t place = random() % num_left_--;
    if (place >= muted_left_) return 0;
    const std::uint32_t mask = ways_[place];
    ways_[place] = ways_[--muted_left_];
    return mask;
  }

  /// splitmix64 (Steele, Lea, Flood 2014): all that shuffling a few blocks needs.
  std::uint64_t random() noexcept {
    std::uint64_t z = random_ += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }

  std::uint64_t random_ = 0;
  std::uint64_t left_ = 0;    // boundaries until the block is over; 0: no blocks
  std::uint64_t length_ = 0;  // boundaries of a block
  std::uint64_t round_from_ns_ = 0, first_ns_ = 0;
  std::uint32_t every_ = 0;
  std::uint32_t num_blocks_ = 0, num_left_ = 0;  // of this round
  std::uint32_t num_ways_ = 0, muted_left_ = 0;
  std::uint32_t ways_[kNumInstruments + 2] = {};
  bool in_round_ = false;
};

}  // namespace drivetrain
