// Copies of large pieces: every byte, and no other, wherever the pieces begin and end.
#include <memory>

#include "check.hpp"
#include "drivetrain/large_copy.hpp"

using namespace drivetrain;
using namespace drivetrain::test;

namespace {

// A piece in memory of exactly its size, at an offset from a multiple of 64, so that a sanitizer sees every
// byte too many.
struct Piece {
  Piece(std::size_t offset, std::size_t nbytes)
      : memory(static_cast<unsigned char*>(std::aligned_alloc(64, (offset + nbytes + 63) / 64 * 64))),
        begin(memory.get() + (offset + nbytes + 63) / 64 * 64 - nbytes),
        nbytes(nbytes) {}
  struct Free {
    void operator()(unsigned char* memory) const { std::free(memory); }
  };
  std::unique_ptr<unsigned char, Free> memory;
  unsigned char* begin;  // ends where the memory does
  std::size_t nbytes;
};

void every_byte_is_copied_and_no_other(bool past_caches, SimdLevel simd) {
  Random random(past_caches);
  for (int round = 0; round < 120; ++round) {
    std::vector<Piece> from, to;
    const std::size_t common = random.below(9000);
    for (int piece = 0; piece < 12; ++piece) {
      const std::size_t nbytes = round % 4 == 3 ? common : random.below(round % 2 ? 200 : 9000);
      from.emplace_back(random.below(64), nbytes);
      to.emplace_back(random.below(64), nbytes + 64);  // with borders of 32 bytes
      for (std::size_t i = 0; i < nbytes; ++i)
        from.back().begin[i] = static_cast<unsigned char>(random.below(256));
      std::memset(to.back().begin, 7, nbytes + 64);
    }
    {
      LargeCopies copies(past_caches, 1 + random.below(LargeCopies::kMost), simd);
      for (std::size_t i = 0; i < from.size(); ++i)
        copies.add(to[i].begin + 32, from[i].begin, from[i].nbytes);
    }
    for (std::size_t i = 0; i < from.size(); ++i) {
      CHECK(std::memcmp(to[i].begin + 32, from[i].begin, from[i].nbytes) == 0);
      for (std::size_t border = 0; border < 32; ++border)
        CHECK(to[i].begin[border] == 7 && to[i].begin[32 + from[i].nbytes + border] == 7);
    }
  }
}

}  // namespace

int main() {
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  for (SimdLevel simd : {SimdLevel::kPortable, SimdLevel::kAvx2, SimdLevel::kAvx512})
    for (bool past_caches : {false, true})
      if (cpu_supports(simd)) every_byte_is_copied_and_no_other(past_caches, simd);
  { const LargeCopies nothing(true); }
  std::puts("ok");
}
