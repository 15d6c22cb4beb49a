// Many descents of the sum tree at once, for each instruction set, while others may be changing it.
//
//   crown         the upper levels: running sums of one level, read once for a whole batch
//   inner nodes   the levels below: running sums within the node, for each target
//   leaf node     likewise
//
// One descent is a chain of dependent cache misses. Some are interleaved, level by level, and the
// node each will look at next is prefetched while the others search theirs; so is what the caller
// is going to read of the leaf's row.
//
// No lock is needed. At each node the child is chosen in proportion to the words of the node as they
// were read, so the probability with which a leaf was found is known exactly, whatever others write
// meanwhile: it is the product of those choices (leaf / total, if nothing changed). Claims: the draws of
// a tree at rest are those of a walk (test_tree); of a changing one, a leaf is found as often as its
// probability says (test_draws).
#pragma once

#include "drivetrain/fetch_line.hpp"
#include "drivetrain/leaf_search_avx512.hpp"
#include "drivetrain/philox.hpp"
#include "drivetrain/sum_tree.hpp"

namespace drivetrain {

inline constexpr std::size_t kInterleave = 128;  // descents: what is asked for comes from the last cache meanwhile
inline constexpr std::size_t kBehind = 32;  // draws whose first line has been asked for before the others of their rows

/// Running sums of an upper level, and of those above it: a search in them compares, and adds nothing up.
class Crown {
 public:
  /// Covers levels of at most one sum per target: a search four at a time costs as much as adding up three or four.
  Crown(const SumTree& tree, std::size_t num_targets) noexcept {
    const std::size_t most = std::max<std::size_t>(kInnerFanout, std::min(kMostSums, num_targets));
    unsigned lowest = tree.num_levels_ - 1;  // one node
    while (lowest > 0 && tree.num_nodes_[lowest - 1] * kInnerFanout <= most) --lowest;
    num_levels_ = tree.num_levels_ - lowest;
    std::uint64_t* next = below_;
    total_ = add_up(tree.levels_[lowest], tree.num_nodes_[lowest], next);
    for (unsigned level = lowest, row = num_levels_; level < tree.num_levels_; ++level) {
      levels_[--row] = next;
      const std::uint64_t num = tree.num_nodes_[level];
      std::uint64_t* above = next + num * kInnerFanout;
      if (level == lowest) {  // whoever looks behind the last entry finds the total
        *above = total_;
        above += kInnerFanout;
      }
      const std::uint64_t padded = (num + kInnerFanout - 1) / kInnerFanout * kInnerFanout;
      for (std::uint64_t i = 0; i < padded; ++i) above[i] = i < num ? next[i * kInnerFanout] : total_;
      next = above;
    }
    const bool second = num_levels_ > 1 && tree.num_nodes_[tree.num_levels_ - 2] * kInnerFanout <= kMostStart;
    start_ = second ? 1 : 0;
    num_start_ = static_cast<unsigned>(tree.num_nodes_[tree.num_levels_ - 1 - start_] * kInnerFanout);
  }

  /// The sum of all leaves, as they were read.
  std::uint64_t total() const noexcept { return total_; }
  unsigned num_levels() const noexcept { return num_levels_; }
  /// Of each sum of a level, 0 the uppermost, what is before it.
  const std::uint64_t* level(unsigned index) const noexcept { return levels_[index]; }
  /// The level in which searches start, and its sums: few enough to be compared with all of them.
  unsigned start() const noexcept { return start_; }
  unsigned num_start() const noexcept { return num_start_; }

 private:
  static constexpr std::size_t kMostStart = 16;
  static constexpr std::size_t kMostSums = 1024;  // of its lowest level; of the tree's arity, 8

  static std::uint64_t add_up(const std::uint64_t* sums, std::uint64_t num_nodes,
                              std::uint64_t* running) noexcept {
    std::uint64_t before = 0;
    for (std::uint64_t node = 0; node < num_nodes; ++node) {
      std::uint64_t within = 0;  // apart from `before`, so that nodes do not wait for each other
      for (unsigned child = 0; child < kInnerFanout; ++child) {
        const std::uint64_t sum = load_shared(sums[child]);
        running[child] = before + within;
        within += sum;
      }
      before += within;
      running += kInnerFanout;
      sums += kInnerFanout;
    }
    once_read();
    return before;
  }

  alignas(64) std::uint64_t below_[kMostSums + kMostSums / 4];
  const std::uint64_t* levels_[kMaxTreeLevels];
  std::uint64_t total_;
  unsigned num_levels_, start_, num_start_;
};

/// Targets of descents, and what they find.
struct Finds {
  const std::uint64_t* targets;  // below the total of the crown
  const std::uint64_t* words;    // random: for a target in a node that has changed since its parent was read
  std::uint64_t key;             // of the random stream that the words are of
  std::uint32_t* indices;        // of the leaves
  // The leaves; where nodes changed meanwhile, times what their changes did to the probability. 0: the
  // descent came to a node of nothing. Divided by total: the probability with which it was found.
  double* leaves;
};

/// Gives descents that come to a node of another sum than expected a new target, and keeps account.
struct Redraws {
  const Finds& finds;
  double* share;  // of each lane: by how much another probability than leaf / total

  std::uint64_t word(std::size_t i, unsigned level) const noexcept {
    return philox_block(finds.words[i], ~finds.key + level)[0];
  }
  [[gnu::noinline, gnu::cold]] std::uint64_t inner(std::size_t lane, std::size_t i, unsigned level,
                                                   std::uint64_t total,
                                                   std::uint64_t expected) const noexcept {
    share[lane] *= total == 0 ? 0.0 : static_cast<double>(expected) / static_cast<double>(total);
    return total == 0 ? kNowhere : scale_to(word(i, level + 2), total);
  }
  [[gnu::noinline, gnu::cold]] double leaf(std::size_t lane, std::size_t i, double total,
                                           double expected) const noexcept {
    share[lane] *= total == 0 ? 0.0 : expected / total;
    return total == 0 ? -1.0 : static_cast<double>(word(i, 1) >> 11) * 0x1p-53 * total;
  }
};

// The loop is written once; each variant needs its own target attribute for the searches to be
// inlined, which is why this is a macro and not a template. A group that is no multiple of kTogether
// repeats its first target.
#define DRIVETRAIN_DEFINE_DESCENT(isa, attribute)                                                          \
  template <>                                                                                              \
  struct Descent<isa::Tag> {                                                                               \
    attribute static void run(const SumTree& tree, const Crown& crown, const Finds& finds,                 \
                              std::size_t count, const RowsAhead& rows) noexcept {                         \
      const unsigned below_crown = tree.num_levels_ - crown.num_levels();                                  \
      const double unit = tree.unit();                                                                     \
      for (std::size_t start = 0; start < count; start += kInterleave) {                                   \
        const std::size_t num = std::min(kInterleave, count - start);                                      \
        const std::size_t lanes = (num + isa::kTogether - 1) / isa::kTogether * isa::kTogether;            \
        alignas(64) std::uint64_t target[kInterleave], sum[kInterleave], node[kInterleave];                \
        alignas(64) double rest[kInterleave], expected[kInterleave], leaf[kInterleave];                    \
        double share[kInterleave];                                                                         \
        const Redraws redraws{finds, share};                                                               \
        const auto draw = [&](std::size_t j) { return j < num ? start + j : start; };                      \
        for (std::size_t j = 0; j < lanes; ++j) {                                                          \
          target[j] = finds.targets[draw(j)];                                                              \
          share[j] = 1.0;                                                                                  \
        }                                                                                                  \
        const std::uint64_t* upper = crown.level(crown.start());                                           \
        for (std::size_t j = 0; j < lanes; j += isa::kTogether)                                            \
          isa::start_together(upper, crown.num_start(), target + j, node + j);                             \
        for (unsigned level = crown.start() + 1; level < crown.num_levels(); ++level) {                    \
          const std::uint64_t* sums = crown.level(level);                                                  \
          for (std::size_t j = 0; j < lanes; ++j) {                                                        \
            const std::uint64_t first = node[j] * kInnerFanout;                                            \
            node[j] = first - 1 + isa::count_up_to(sums + first, target[j]);                               \
          }                                                                                                \
        }                                                                                                  \
        const std::uint64_t* before = crown.level(crown.num_levels() - 1);                                 \
        const unsigned char* next = tree.nodes_below(below_crown);                                         \
        for (std::size_t j = 0; j < lanes; ++j) {                                                          \
          fetch_line(next + node[j] * kNodeBytes);                                                         \
          target[j] -= before[node[j]];                                                                    \
          sum[j] = before[node[j] + 1] - before[node[j]];                                                  \
        }                                                                                                  \
        for (unsigned level = below_crown; level-- > 0;) {                                                 \
          const std::uint64_t* sums = tree.levels_[level];                                                 \
          next = tree.nodes_below(level);                                                                  \
          for (std::size_t j = 0; j < lanes; ++j) within(node[j], tree.num_nodes_[level]);                 \
          for (std::size_t j = 0; j < lanes; j += isa::kTogether) {                                        \
            const auto redraw = [&](unsigned k, std::uint64_t total, std::uint64_t expect) {               \
              return redraws.inner(j + k, draw(j + k), level, total, expect);                              \
            };                                                                                             \
            isa::find_inner_together(sums, target + j, sum + j, node + j, redraw);                         \
            for (unsigned k = 0; k < isa::kTogether; ++k)                                                  \
              fetch_line(next + node[j + k] * kNodeBytes);                                                 \
          }                                                                                                \
        }                                                                                                  \
        for (std::size_t j = 0; j < lanes; ++j) {                                                          \
          within(node[j], tree.leaf_nodes_);                                                               \
          rest[j] = SumTree::as_double(target[j]) * unit;                                                  \
          expected[j] = SumTree::as_double(sum[j]) * unit;                                                 \
        }                                                                                                  \
        const float* leaves = tree.leaves_;                                                                \
        for (std::size_t j = 0; j < lanes; j += kLeavesTogether) {                                         \
          const auto redraw = [&](std::size_t k, double total, double expect) {                            \
            return redraws.leaf(j + k, draw(j + k), total, expect);                                        \
          };                                                                                               \
          const auto found = [&](std::size_t begin, std::size_t end) {                                     \
            rows.begin(node + j + begin, end - begin);                                                     \
            if (j + begin >= kBehind) rows.finish(node + j + begin - kBehind, end - begin);                \
          };                                                                                               \
          isa::find_leaves(leaves, std::min(kLeavesTogether, lanes - j), rest + j, expected + j,           \
                           node + j, leaf + j, redraw, found);                                             \
        }                                                                                                  \
        for (std::size_t j = 0; j < num; ++j) {                                                            \
          finds.indices[start + j] = static_cast<std::uint32_t>(node[j]);                                  \
          finds.leaves[start + j] = leaf[j] * share[j];                                                    \
        }                                                                                                  \
        const std::size_t last = std::min(kBehind, num);                                                   \
        rows.finish(node + num - last, last);                                                              \
      }                                                                                                    \
    }                                                                                                      \
  }

template <class Isa>
struct Descent;

namespace portable {
struct Tag;
}
DRIVETRAIN_DEFINE_DESCENT(portable, );
#if defined(DRIVETRAIN_TARGET)
namespace avx2 {
struct Tag;
}
DRIVETRAIN_DEFINE_DESCENT(avx2, DRIVETRAIN_AVX2);
namespace avx512 {
struct Tag;
}
DRIVETRAIN_DEFINE_DESCENT(avx512, DRIVETRAIN_AVX512);
#endif
#undef DRIVETRAIN_DEFINE_DESCENT

inline void SumTree::find(const Crown& crown, const Finds& finds, std::size_t count, SimdLevel simd,
                          const RowsAhead& rows) const noexcept {
#if defined(DRIVETRAIN_TARGET)
  if (simd == SimdLevel::kAvx512) return Descent<avx512::Tag>::run(*this, crown, finds, count, rows);
  if (simd == SimdLevel::kAvx2) return Descent<avx2::Tag>::run(*this, crown, finds, count, rows);
#endif
  (void)simd;
  Descent<portable::Tag>::run(*this, crown, finds, count, rows);
}

inline void SumTree::find(const std::uint64_t* targets, std::size_t count, std::uint32_t* indices,
                          SimdLevel simd) const noexcept {
  double leaves[kMaxTreeBatch];
  find(Crown(*this, count), {targets, targets, 0, indices, leaves}, count, simd);
}

}  // namespace drivetrain
