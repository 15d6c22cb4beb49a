// Many descents of the sum tree at once: SumTree::find for each instruction set.
//
//   crown         the upper levels, as running sums made anew for each batch
//   inner nodes   the levels below: running sums within the node, for each target
//   leaf node     likewise
//
// One descent is a chain of dependent cache misses. Some are interleaved, level by level, and the
// node each will look at next is prefetched while the others search theirs; so is what the caller
// is going to read of the leaf's row.
#pragma once

#include "drivetrain/sum_tree.hpp"

namespace drivetrain {

inline constexpr std::size_t kInterleave = 32;

/// Running sums of the upper levels: a search in it compares, and adds nothing up.
struct Crown {
  static constexpr std::size_t kMostSums = 1024;  // of its lowest level; of the tree's arity, 8
  alignas(64) std::uint64_t below[kMostSums + kMostSums / 4];  // sums of all that is before an entry
  const std::uint64_t* levels[kMaxTreeLevels];                 // from the root down
  unsigned num_levels;

  /// Covers levels of at most four sums per target (a level pays if it spares that many searches).
  Crown(const SumTree& tree, std::size_t num_targets) noexcept : num_levels(0) {
    const std::size_t most = std::max<std::size_t>(kInnerFanout, std::min(kMostSums, 4 * num_targets));
    const std::uint64_t root[] = {0};
    const std::uint64_t* above = root;
    std::uint64_t* next = below;
    for (unsigned level = tree.num_levels_; level-- > 0 && tree.num_nodes_[level] * kInnerFanout <= most;) {
      const std::uint64_t* sums = tree.levels_[level];
      levels[num_levels++] = next;
      for (std::uint64_t node = 0; node < tree.num_nodes_[level]; ++node) {
        std::uint64_t sum = above[node];
        for (unsigned child = 0; child < kInnerFanout; ++child) {
          next[child] = sum;
          sum += sums[child];
        }
        next += kInnerFanout;
        sums += kInnerFanout;
      }
      above = levels[num_levels - 1];
    }
  }
};

// The loop is written once; each variant needs its own target attribute for the searches to be
// inlined, which is why this is a macro and not a template. A group of fewer than a
// multiple of four repeats its first target.
#define DRIVETRAIN_DEFINE_DESCENT(isa, attribute)                                               \
  template <>                                                                                   \
  struct Descent<isa::Tag> {                                                                    \
    attribute static void run(const SumTree& tree, const std::uint64_t* targets,                \
                              std::size_t count, std::uint32_t* indices,                        \
                              const RowsAhead& rows) noexcept {                                 \
      const Crown crown(tree, count);                                                           \
      const unsigned below_crown = tree.num_levels_ - crown.num_levels;                         \
      for (std::size_t start = 0; start < count; start += kInterleave) {                        \
        const std::size_t num = std::min(kInterleave, count - start);                           \
        const std::size_t lanes = (num + 3) / 4 * 4;                                            \
        std::uint64_t target[kInterleave];                                                      \
        std::uint64_t node[kInterleave] = {};                                                   \
        for (std::size_t j = 0; j < lanes; ++j)                                                 \
          target[j] = targets[j < num ? start + j : start];                                     \
        for (unsigned level = 0; level < crown.num_levels; ++level) {                           \
          const std::uint64_t* sums = crown.levels[level];                                      \
          for (std::size_t j = 0; j < lanes; ++j) {                                             \
            const std::uint64_t first = node[j] * kInnerFanout;                                 \
            node[j] = first - 1 + isa::count_up_to(sums + first, target[j]);                    \
          }                                                                                     \
        }                                                                                       \
        const std::uint64_t* sums_before = crown.levels[crown.num_levels - 1];                  \
        const unsigned char* next = tree.nodes_below(below_crown);                              \
        for (std::size_t j = 0; j < lanes; ++j) {                                               \
          target[j] -= sums_before[node[j]];                                                    \
          __builtin_prefetch(next + node[j] * kNodeBytes);                                      \
        }                                                                                       \
        for (unsigned level = below_crown; level-- > 0;) {                                      \
          const std::uint64_t* sums = tree.levels_[level];                                      \
          next = tree.nodes_below(level);                                                       \
          for (std::size_t j = 0; j < lanes; ++j) {                                             \
            const std::uint64_t first = node[j] * kInnerFanout;                                 \
            node[j] = first + isa::find_inner(sums + first, target[j]);                         \
            __builtin_prefetch(next + node[j] * kNodeBytes);                                    \
          }                                                                                     \
        }                                                                                       \
        const float* leaves = tree.leaves_;                                                     \
        for (std::size_t j = 0; j < lanes; ++j) {                                               \
          const double rest = static_cast<double>(static_cast<std::int64_t>(target[j]));        \
          const std::uint64_t first = node[j] * kLeafFanout;                                    \
          node[j] = first + isa::find_leaf(leaves + first, rest * tree.unit_);                  \
          rows.prefetch(node[j]);                                                               \
        }                                                                                       \
        for (std::size_t j = 0; j < num; ++j)                                                   \
          indices[start + j] = static_cast<std::uint32_t>(node[j]);                             \
      }                                                                                         \
    }                                                                                           \
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

inline void SumTree::find(const std::uint64_t* targets, std::size_t count, std::uint32_t* indices,
                          SimdLevel simd, const RowsAhead& rows) const noexcept {
#if defined(DRIVETRAIN_TARGET)
  if (simd == SimdLevel::kAvx512)
    return Descent<avx512::Tag>::run(*this, targets, count, indices, rows);
  if (simd == SimdLevel::kAvx2)
    return Descent<avx2::Tag>::run(*this, targets, count, indices, rows);
#endif
  (void)simd;
  Descent<portable::Tag>::run(*this, targets, count, indices, rows);
}

}  // namespace drivetrain
