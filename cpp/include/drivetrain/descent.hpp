// Many descents of the sum tree at once: SumTree::find for each instruction set.
//
// One descent is a chain of dependent cache misses. Sixteen are interleaved, level by level, and
// the node each will look at next is prefetched while the other fifteen search theirs.
#pragma once

#include "drivetrain/sum_tree.hpp"

namespace drivetrain {

inline constexpr std::size_t kInterleave = 16;

// The loop is written once; each variant needs its own target attribute for the searches to be
// inlined, which is why this is a macro and not a template.
#define DRIVETRAIN_DEFINE_DESCENT(isa, attribute)                                               \
  template <>                                                                                   \
  struct Descent<isa::Tag> {                                                                    \
    attribute static void run(const SumTree& tree, const std::uint64_t* targets,                \
                              std::size_t count, std::uint32_t* indices) noexcept {             \
      for (std::size_t start = 0; start < count; start += kInterleave) {                        \
        const std::size_t lanes = std::min(kInterleave, count - start);                         \
        std::uint64_t target[kInterleave];                                                      \
        std::uint64_t node[kInterleave];                                                        \
        for (std::size_t j = 0; j < lanes; ++j) {                                               \
          target[j] = targets[start + j];                                                       \
          node[j] = 0;                                                                          \
        }                                                                                       \
        for (unsigned level = tree.num_levels_; level-- > 0;) {                                 \
          const std::uint64_t* sums = tree.levels_[level];                                      \
          for (std::size_t j = 0; j < lanes; ++j) {                                             \
            const std::uint64_t first = node[j] * kInnerFanout;                                 \
            node[j] = first + isa::find_inner(sums + first, target[j]);                         \
            if (level > 0) {                                                                    \
              __builtin_prefetch(tree.levels_[level - 1] + node[j] * kInnerFanout);             \
            } else {                                                                            \
              __builtin_prefetch(tree.leaves_ + node[j] * kLeafFanout);                         \
            }                                                                                   \
          }                                                                                     \
        }                                                                                       \
        for (std::size_t j = 0; j < lanes; ++j) {                                               \
          auto rest = static_cast<double>(target[j]);                                           \
          const std::uint64_t first = node[j] * kLeafFanout;                                    \
          indices[start + j] = static_cast<std::uint32_t>(                                      \
              first + isa::find_leaf(tree.leaves_ + first, tree.units_per_one_, rest));         \
        }                                                                                       \
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
                          SimdLevel simd) const noexcept {
#if defined(DRIVETRAIN_TARGET)
  if (simd == SimdLevel::kAvx512) return Descent<avx512::Tag>::run(*this, targets, count, indices);
  if (simd == SimdLevel::kAvx2) return Descent<avx2::Tag>::run(*this, targets, count, indices);
#endif
  (void)simd;
  Descent<portable::Tag>::run(*this, targets, count, indices);
}

}  // namespace drivetrain
