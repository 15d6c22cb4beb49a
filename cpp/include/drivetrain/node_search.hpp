// Finding the child of an inner node that a target falls into: the inner loop of sampling. Leaf nodes, where a
// descent ends, have a search of their own (leaf_search.hpp).
//
// An inner node is one cache line: 8 uint64 sums of its children. Given a target below the sum of the node,
// find_inner() returns the first child whose inclusive prefix sum exceeds the target, and leaves in `target` what
// remains inside that child, in `sum` the sum of that child. Sums are integers, so the child always exists, never has
// zero priority, and every instruction set gives the same answer.
//
// Others may be changing the tree meanwhile. Each word of a node is read once, and where they do not
// add up to the `sum` that was read above, redraw(their sum, sum) gives another target below theirs. Whatever
// is read, the child is chosen in proportion to it. Of a node of nothing redraw gives kNowhere, which as a signed
// number, and so all comparisons are (sums stay below 2^62), lies before everything: it finds child 0 of this node and
// of all below, until there is something again. Another one might lie behind the last node of its level.
//
// Descents go kTogether at a time: find_inner_together() searches the node of each, `node`, and leaves there the
// number of the child; start_together() finds the first nodes among running sums that all have in common. One vector
// then holds a word of each of the nodes, four in AVX2 and eight in AVX-512 (node_search_avx512.hpp), which needs
// half the instructions of searches on their own and less (design/replay-speed.md).
//
// The variant is chosen at run time (simd.hpp), so one build serves every CPU. `portable` is
// written for the compiler to vectorise (SSE2 on x86-64, NEON on aarch64).
#pragma once

#include <cstdint>

#include "drivetrain/shared_copy.hpp"
#include "drivetrain/simd.hpp"

namespace drivetrain {

inline constexpr unsigned kInnerFanout = 8;
inline constexpr unsigned kNodeBytes = 64;
inline constexpr std::uint64_t kNowhere = ~std::uint64_t{0};  // -1: the target in a node of nothing

// find_inner_together() by find_inner(), for each variant under its own target attribute.
#define DRIVETRAIN_DEFINE_ONE_BY_ONE(name, ...)                                                    \
  template <class Redraw>                                                                          \
  __VA_ARGS__ inline void name(const std::uint64_t* sums, std::uint64_t* target,                   \
                               std::uint64_t* sum, std::uint64_t* node,                            \
                               Redraw&& redraw) noexcept {                                         \
    for (unsigned k = 0; k < kTogether; ++k) {                                                     \
      const std::uint64_t first = node[k] * kInnerFanout;                                          \
      node[k] = first + find_inner(sums + first, target[k], sum[k],                                \
                                   [&](std::uint64_t total, std::uint64_t expected) {              \
                                     return redraw(k, total, expected);                            \
                                   });                                                             \
    }                                                                                              \
  }

namespace portable {

inline constexpr unsigned kTogether = 4;

/// node[k] = how many of `num` running sums, those of one or of two nodes, in ascending order, of which the first
/// is 0, come before the one behind which target[k] lies.
inline void start_together(const std::uint64_t* sums, unsigned num, const std::uint64_t* target,
                       std::uint64_t* node) noexcept {
  for (unsigned k = 0; k < kTogether; ++k) {
    node[k] = 0;
    for (unsigned i = 1; i < num; ++i) node[k] += sums[i] <= target[k];
  }
}

template <class Redraw>
inline unsigned find_inner(const std::uint64_t* node, std::uint64_t& target, std::uint64_t& sum,
                           Redraw&& redraw) noexcept {
  std::uint64_t own[kInnerFanout], prefix[kInnerFanout + 1];
  const std::uint64_t* line = shared_line(node, own);
  prefix[0] = 0;
  for (unsigned i = 0; i < kInnerFanout; ++i) prefix[i + 1] = prefix[i] + line[i];
  once_read();
  const std::uint64_t total = prefix[kInnerFanout];
  if (total != sum) [[unlikely]] target = redraw(total, sum);
  unsigned child = 0;
  for (unsigned i = 1; i < kInnerFanout; ++i)
    child += static_cast<std::int64_t>(prefix[i]) <= static_cast<std::int64_t>(target);
  target -= prefix[child];
  sum = prefix[child + 1] - prefix[child];
  return child;
}

DRIVETRAIN_DEFINE_ONE_BY_ONE(find_inner_together, )

/// How many of 8 running sums, in ascending order, are not above the target.
inline unsigned count_up_to(const std::uint64_t* sums, std::uint64_t target) noexcept {
  unsigned count = 0;
  for (unsigned i = 0; i < kInnerFanout; ++i) count += sums[i] <= target;
  return count;
}

}  // namespace portable

#if defined(DRIVETRAIN_TARGET)

namespace avx2 {
inline constexpr unsigned kTogether = 4;

// Inclusive prefix sums of four lanes: shift by one lane and add, then by two.
DRIVETRAIN_AVX2 inline __m256i prefix_sums(__m256i x) noexcept {
  const __m256i zero = _mm256_setzero_si256();
  x = _mm256_add_epi64(
      x, _mm256_blend_epi32(_mm256_permute4x64_epi64(x, _MM_SHUFFLE(2, 1, 0, 0)), zero, 0x03));
  return _mm256_add_epi64(x, _mm256_permute2x128_si256(x, x, 0x08));
}

template <class Redraw>
DRIVETRAIN_AVX2 inline unsigned find_inner(const std::uint64_t* node, std::uint64_t& target,
                                           std::uint64_t& sum, Redraw&& redraw) noexcept {
  alignas(32) std::uint64_t own[kInnerFanout], prefix[kInnerFanout + 4];
  const auto* line = reinterpret_cast<const __m256i*>(shared_line(node, own));
  const __m256i first = _mm256_load_si256(line), last = _mm256_load_si256(line + 1);
  once_read();
  const __m256i low = prefix_sums(first);
  const __m256i high = _mm256_add_epi64(prefix_sums(last), _mm256_permute4x64_epi64(low, 0xFF));
  prefix[3] = 0;
  _mm256_store_si256(reinterpret_cast<__m256i*>(prefix + 4), low);
  _mm256_store_si256(reinterpret_cast<__m256i*>(prefix + 8), high);
  const std::uint64_t total = prefix[11];
  if (total != sum) [[unlikely]] target = redraw(total, sum);
  const __m256i wanted = _mm256_set1_epi64x(static_cast<long long>(target));
  const int beyond =
      _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(low, wanted))) |
      _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(high, wanted))) << 4;
  const auto child = static_cast<unsigned>(__builtin_ctz(static_cast<unsigned>(beyond)));
  target -= prefix[3 + child];
  sum = prefix[4 + child] - prefix[3 + child];
  return child;
}

DRIVETRAIN_DEFINE_ONE_BY_ONE(find_inner_one_by_one, __attribute__((noinline, cold)) DRIVETRAIN_AVX2)

/// Two words of one node in the lower half, and of another in the upper.
DRIVETRAIN_AVX2 inline __m256i words_of_two(const std::uint64_t* low,
                                            const std::uint64_t* high) noexcept {
  return _mm256_inserti128_si256(
      _mm256_castsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(low))),
      _mm_load_si128(reinterpret_cast<const __m128i*>(high)), 1);
}

template <class Redraw>
DRIVETRAIN_AVX2 inline void find_inner_together(const std::uint64_t* sums, std::uint64_t* target,
                                            std::uint64_t* sum, std::uint64_t* node,
                                            Redraw&& redraw) noexcept {
  alignas(64) std::uint64_t own[kTogether][kInnerFanout];
  const std::uint64_t* lines[kTogether];
  for (unsigned k = 0; k < kTogether; ++k)
    lines[k] = shared_line(sums + node[k] * kInnerFanout, own[k]);
  __m256i words[kInnerFanout];  // words[i]: word i of each node
  for (unsigned i = 0; i < kInnerFanout; i += 2) {
    const __m256i even = words_of_two(lines[0] + i, lines[2] + i);
    const __m256i odd = words_of_two(lines[1] + i, lines[3] + i);
    words[i] = _mm256_unpacklo_epi64(even, odd);
    words[i + 1] = _mm256_unpackhi_epi64(even, odd);
  }
  once_read();
  auto* const targets = reinterpret_cast<__m256i*>(target);
  auto* const expected = reinterpret_cast<__m256i*>(sum);
  auto* const nodes = reinterpret_cast<__m256i*>(node);
  const __m256i wanted = _mm256_load_si256(targets);
  __m256i total = words[0], found = words[0], rest = wanted;
  __m256i child = _mm256_set1_epi64x(kInnerFanout - 1);
  for (unsigned i = 1; i < kInnerFanout; ++i) {
    const __m256i beyond = _mm256_cmpgt_epi64(total, wanted);  // the child is before word i
    rest = _mm256_sub_epi64(rest, _mm256_andnot_si256(beyond, words[i - 1]));
    found = _mm256_blendv_epi8(words[i], found, beyond);
    child = _mm256_add_epi64(child, beyond);
    total = _mm256_add_epi64(total, words[i]);
  }
  const __m256i same = _mm256_cmpeq_epi64(total, _mm256_load_si256(expected));
  if (_mm256_movemask_epi8(same) != -1) [[unlikely]]  // what was read is not used: once more, each by itself
    return find_inner_one_by_one(sums, target, sum, node, redraw);
  _mm256_store_si256(targets, rest);
  _mm256_store_si256(expected, found);
  const __m256i first = _mm256_slli_epi64(_mm256_load_si256(nodes), 3);
  _mm256_store_si256(nodes, _mm256_add_epi64(first, child));
}
static_assert(kInnerFanout == 1 << 3);

template <unsigned num>
DRIVETRAIN_AVX2 inline void start_together(const std::uint64_t* sums, const std::uint64_t* target,
                                       std::uint64_t* node) noexcept {
  const __m256i wanted = _mm256_load_si256(reinterpret_cast<const __m256i*>(target));
  __m256i last = _mm256_set1_epi64x(num - 1);
#pragma GCC unroll 16
  for (unsigned i = 1; i < num; ++i)
    last = _mm256_add_epi64(
        last, _mm256_cmpgt_epi64(_mm256_set1_epi64x(static_cast<long long>(sums[i])), wanted));
  _mm256_store_si256(reinterpret_cast<__m256i*>(node), last);
}
DRIVETRAIN_AVX2 inline void start_together(const std::uint64_t* sums, unsigned num,
                                       const std::uint64_t* target, std::uint64_t* node) noexcept {
  if (num == kInnerFanout) return start_together<kInnerFanout>(sums, target, node);
  start_together<2 * kInnerFanout>(sums, target, node);
}

DRIVETRAIN_AVX2 inline unsigned count_up_to(const std::uint64_t* sums,
                                            std::uint64_t target) noexcept {
  const __m256i wanted = _mm256_set1_epi64x(static_cast<long long>(target));
  const __m256i low = _mm256_load_si256(reinterpret_cast<const __m256i*>(sums));
  const __m256i high = _mm256_load_si256(reinterpret_cast<const __m256i*>(sums + 4));
  const int above =
      _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(low, wanted))) |
      _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(high, wanted))) << 4;
  return static_cast<unsigned>(__builtin_ctz(static_cast<unsigned>(above) | 0x100));
}

}  // namespace avx2

#endif

}  // namespace drivetrain
