// Copies in and out of shared rows that a concurrent writer may be changing, and the words of the sum
// tree, which are read while its writer, one at a time, changes them.
//
// The copy runs without a lock; a generation read before and after tells whether it can be
// trusted, and an untrusted copy is thrown away. Under the C++ memory model a plain copy is then
// still a data race. The sanitizer build therefore copies by relaxed atomic bytes, which is the
// race-free program ThreadSanitizer checks; other builds use plain moves of the same bytes, which
// compilers do not tear into anything the check of the generation would miss. Words of the tree are
// aligned and of at most 8 bytes, which no CPU tears; what is read of them together is checked to fit
// together (descent.hpp).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace drivetrain {

#if defined(__SANITIZE_THREAD__)
#define DRIVETRAIN_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define DRIVETRAIN_TSAN 1
#endif
#endif

#ifdef DRIVETRAIN_TSAN

template <class Word>
inline Word load_shared(const Word& shared) noexcept {
  Word word;
  __atomic_load(&shared, &word, __ATOMIC_RELAXED);
  return word;
}
template <class Word>
inline void store_shared(Word& shared, Word word) noexcept {
  __atomic_store(&shared, &word, __ATOMIC_RELAXED);
}

/// A cache line of words to search in: here a copy in `own`, in other builds the line itself, which
/// is then to be read once, before once_read().
template <class Word, std::size_t num>
inline const Word* shared_line(const Word* shared, Word (&own)[num]) noexcept {
  for (std::size_t i = 0; i < num; ++i) own[i] = load_shared(shared[i]);
  return own;
}

inline void copy_to_shared(void* to, const void* from, std::size_t nbytes) noexcept {
  auto* target = static_cast<unsigned char*>(to);
  const auto* source = static_cast<const unsigned char*>(from);
  for (std::size_t i = 0; i < nbytes; ++i)
    __atomic_store_n(target + i, source[i], __ATOMIC_RELAXED);
}

inline void copy_from_shared(void* to, const void* from, std::size_t nbytes) noexcept {
  auto* target = static_cast<unsigned char*>(to);
  const auto* source = static_cast<const unsigned char*>(from);
  for (std::size_t i = 0; i < nbytes; ++i)
    target[i] = __atomic_load_n(source + i, __ATOMIC_RELAXED);
}

template <std::size_t blocks>
inline void copy_blocks_to_shared(void* to, const void* from, std::size_t nbytes) noexcept {
  copy_to_shared(to, from, nbytes);
}
template <std::size_t blocks>
inline void copy_blocks_from_shared(void* to, const void* from, std::size_t nbytes) noexcept {
  copy_from_shared(to, from, nbytes);
}

/// Where either side may be shared.
inline void copy_shared(void* to, const void* from, std::size_t nbytes) noexcept {
  auto* target = static_cast<unsigned char*>(to);
  const auto* source = static_cast<const unsigned char*>(from);
  for (std::size_t i = 0; i < nbytes; ++i)
    __atomic_store_n(target + i, __atomic_load_n(source + i, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

inline void clear_shared(void* to, std::size_t nbytes) noexcept {
  auto* target = static_cast<unsigned char*>(to);
  for (std::size_t i = 0; i < nbytes; ++i) __atomic_store_n(target + i, 0, __ATOMIC_RELAXED);
}

/// Whether shared bytes are these; believe it only once a generation was found unchanged.
inline bool equals_shared(const void* shared, const void* own, std::size_t nbytes) noexcept {
  const auto* left = static_cast<const unsigned char*>(shared);
  const auto* right = static_cast<const unsigned char*>(own);
  for (std::size_t i = 0; i < nbytes; ++i)
    if (__atomic_load_n(left + i, __ATOMIC_RELAXED) != right[i]) return false;
  return true;
}

#else

template <class Word>
inline Word load_shared(const Word& shared) noexcept { return shared; }
template <class Word>
inline void store_shared(Word& shared, Word word) noexcept { shared = word; }
template <class Word, std::size_t num>
inline const Word* shared_line(const Word* shared, Word (&)[num]) noexcept { return shared; }

/// memcpy for sizes known only at run time and mostly small: no call below 128 bytes. Always inline: where
/// the size is a constant after all, little is left of it.
[[gnu::always_inline]] inline void copy_bytes(void* to, const void* from, std::size_t nbytes) noexcept {
  auto* target = static_cast<unsigned char*>(to);
  const auto* source = static_cast<const unsigned char*>(from);
  if (__builtin_constant_p(nbytes) && nbytes <= 32) {  // one move; what follows would take two that overlap
    std::memcpy(target, source, nbytes);
  } else if (nbytes > 128) {
    std::memcpy(target, source, nbytes);
  } else if (nbytes >= 16) {
    for (std::size_t i = 0; i + 16 < nbytes; i += 16) std::memcpy(target + i, source + i, 16);
    std::memcpy(target + nbytes - 16, source + nbytes - 16, 16);  // the tail may overlap
  } else if (nbytes >= 8) {
    std::memcpy(target, source, 8);
    std::memcpy(target + nbytes - 8, source + nbytes - 8, 8);
  } else if (nbytes >= 4) {
    std::memcpy(target, source, 4);
    std::memcpy(target + nbytes - 4, source + nbytes - 4, 4);
  } else {
    for (std::size_t i = 0; i < nbytes; ++i) target[i] = source[i];
  }
}

inline void copy_to_shared(void* to, const void* from, std::size_t nbytes) noexcept {
  copy_bytes(to, from, nbytes);
}
inline void copy_from_shared(void* to, const void* from, std::size_t nbytes) noexcept {
  copy_bytes(to, from, nbytes);
}
/// The same for sizes above 16 * blocks and up to 16 more: moves without a loop.
template <std::size_t blocks>
[[gnu::always_inline]] inline void copy_blocks(void* to, const void* from, std::size_t nbytes) noexcept {
  auto* target = static_cast<unsigned char*>(to);
  const auto* source = static_cast<const unsigned char*>(from);
  for (std::size_t i = 0; i < blocks; ++i) std::memcpy(target + 16 * i, source + 16 * i, 16);
  std::memcpy(target + nbytes - 16, source + nbytes - 16, 16);
}
template <std::size_t blocks>
inline void copy_blocks_to_shared(void* to, const void* from, std::size_t nbytes) noexcept {
  copy_blocks<blocks>(to, from, nbytes);
}
template <std::size_t blocks>
inline void copy_blocks_from_shared(void* to, const void* from, std::size_t nbytes) noexcept {
  copy_blocks<blocks>(to, from, nbytes);
}
inline void clear_shared(void* to, std::size_t nbytes) noexcept { std::memset(to, 0, nbytes); }
inline bool equals_shared(const void* shared, const void* own, std::size_t nbytes) noexcept {
  return std::memcmp(shared, own, nbytes) == 0;
}

#endif

/// What was loaded of shared memory before this stays as it was: the compiler does not load it again.
inline void once_read() noexcept { asm volatile("" ::: "memory"); }

}  // namespace drivetrain
