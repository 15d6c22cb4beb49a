// Where a part of a table ends. A table is one piece of memory, in which no sanitizer sees one part go over into the
// next; so builds for sanitizers (DRIVETRAIN_BOUNDS) look for themselves.
#pragma once

#include <cstdint>
#if defined(DRIVETRAIN_BOUNDS)
#include <cstdio>
#include <cstdlib>
#endif

namespace drivetrain {

/// `index`, which is below `count`, as every index by which something is read or written.
inline std::uint64_t within(std::uint64_t index, [[maybe_unused]] std::uint64_t count) noexcept {
#if defined(DRIVETRAIN_BOUNDS)
  if (index >= count) {
    std::fprintf(stderr, "index %llu of %llu\n", static_cast<unsigned long long>(index),
                 static_cast<unsigned long long>(count));
    std::abort();
  }
#endif
  return index;
}

}  // namespace drivetrain
