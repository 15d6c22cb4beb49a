// Which vector instructions this CPU has, decided once per process at run time; their intrinsics, and what a
// function says that uses them.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#if defined(DRIVETRAIN_EMULATE_SIMD)
#include "emulated_simd.hpp"  // cpp/tests: the same intrinsics on any CPU
#define DRIVETRAIN_TARGET(features)
#elif defined(__x86_64__)
#include <immintrin.h>
#define DRIVETRAIN_TARGET(features) __attribute__((target(features)))
#endif

namespace drivetrain {

enum class SimdLevel { kPortable, kAvx2, kAvx512 };

inline const char* simd_name(SimdLevel level) noexcept {
  switch (level) {
    case SimdLevel::kAvx512: return "avx512";
    case SimdLevel::kAvx2: return "avx2";
    default:
#if defined(__aarch64__)
      return "neon";
#else
      return "baseline";
#endif
  }
}

inline bool cpu_supports(SimdLevel level) noexcept {
  if (level == SimdLevel::kPortable) return true;
#if defined(DRIVETRAIN_EMULATE_SIMD)
  return true;
#elif defined(__x86_64__)
  __builtin_cpu_init();
  if (level == SimdLevel::kAvx2)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("popcnt");
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

/// What DRIVETRAIN_SIMD asks for; nullptr where it is not set or empty.
inline const char* wanted_simd() noexcept {
  const char* wanted = std::getenv("DRIVETRAIN_SIMD");
  return wanted && *wanted ? wanted : nullptr;
}

/// Whether that is something there is, on this CPU or on another.
inline bool knows_wanted_simd() noexcept {
  const char* wanted = wanted_simd();
  if (!wanted || std::strcmp(wanted, "baseline") == 0) return true;
  for (SimdLevel level : {SimdLevel::kPortable, SimdLevel::kAvx2, SimdLevel::kAvx512})
    if (std::strcmp(wanted, simd_name(level)) == 0) return true;
  return false;
}

/// The best level of this CPU; DRIVETRAIN_SIMD=baseline|avx2|avx512 asks for a lower one. What is none of these
/// gives the lowest: bindings refuse it (knows_wanted_simd).
inline SimdLevel best_simd_level() noexcept {
  static const SimdLevel level = [] {
    const char* wanted = wanted_simd();
    const SimdLevel levels[] = {SimdLevel::kAvx512, SimdLevel::kAvx2};
    bool allowed = wanted == nullptr;
    for (SimdLevel candidate : levels) {
      allowed = allowed || std::strcmp(wanted, simd_name(candidate)) == 0;
      if (allowed && cpu_supports(candidate)) return candidate;
    }
    return SimdLevel::kPortable;
  }();
  return level;
}

#if defined(DRIVETRAIN_TARGET)
#define DRIVETRAIN_AVX2 DRIVETRAIN_TARGET("avx2,popcnt")
#define DRIVETRAIN_AVX512 DRIVETRAIN_TARGET("avx512f,avx512dq,popcnt")

namespace avx512 {
/// One word in every lane.
DRIVETRAIN_AVX512 inline __m512i every(std::uint64_t word) noexcept {
  return _mm512_set1_epi64(static_cast<long long>(word));
}

}  // namespace avx512
#endif

// Written as `DRIVETRAIN_INLINED { ... }` behind a lambda's parameters: its code becomes that of who calls it.
#define DRIVETRAIN_INLINED __attribute__((always_inline))

#if defined(DRIVETRAIN_TARGET) && !defined(DRIVETRAIN_EMULATE_SIMD)
template <class Work>
DRIVETRAIN_TARGET("avx512f,avx512dq,avx512bw,avx512vl")
inline auto with_avx512(Work work) noexcept {  // by value: no store in its loops can be taken to change it
  return work();
}
template <class Work>
DRIVETRAIN_TARGET("avx2")
inline auto with_avx2(Work work) noexcept {
  return work();
}
#endif

/// What work() returns, a lambda that is DRIVETRAIN_INLINED, with its loops vectorised for an instruction set. Nothing
/// is fused, so that the bits are the same.
template <class Work>
inline auto at_level(SimdLevel simd, Work&& work) noexcept {
#if defined(DRIVETRAIN_TARGET) && !defined(DRIVETRAIN_EMULATE_SIMD)
  if (simd == SimdLevel::kAvx512) return with_avx512(work);
  if (simd == SimdLevel::kAvx2) return with_avx2(work);
#endif
  (void)simd;
  return work();
}

}  // namespace drivetrain

/// Returns what `call` gives in the namespace of an instruction set, avx512, avx2 or portable.
#if defined(DRIVETRAIN_TARGET)
#define DRIVETRAIN_BY_LEVEL(simd, call)                             \
  if (simd == drivetrain::SimdLevel::kAvx512) return avx512::call;  \
  if (simd == drivetrain::SimdLevel::kAvx2) return avx2::call;      \
  return portable::call
#else
#define DRIVETRAIN_BY_LEVEL(simd, call) \
  (void)simd;                           \
  return portable::call
#endif
