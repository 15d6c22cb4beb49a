// Items between rows and arrays, of every size that is copied by wide moves, by every instruction set this CPU has.
#include "check.hpp"
#include "drivetrain/rows.hpp"

using namespace drivetrain;
using namespace drivetrain::test;

namespace {

constexpr std::size_t kRows = 37, kGuard = 64;
constexpr unsigned char kUntouched = 0xA5;

struct Bytes {
  explicit Bytes(std::size_t num) : all(num + 2 * kGuard, kUntouched) {}
  unsigned char* first() { return all.data() + kGuard; }
  bool are_only(std::size_t begin, std::size_t end, const unsigned char* expected) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool inside = i >= kGuard + begin && i < kGuard + end;
      if (all[i] != (inside ? expected[i - kGuard - begin] : kUntouched)) return false;
    }
    return true;
  }
  std::vector<unsigned char> all;
};

template <class Get, class Put>
void expect_copies(std::size_t nbytes, Get&& get, Put&& put) {
  Random random(nbytes);
  for (const std::size_t offset : {0, 5, 8}) {
    std::vector<Bytes> rows(kRows, Bytes(nbytes + 16));
    std::vector<unsigned char> items(kRows * nbytes);
    for (auto& byte : items) byte = static_cast<unsigned char>(random.word());
    std::vector<unsigned char*> places;
    for (auto& row : rows) places.push_back(row.first());
    put(places.data(), offset, items.data());
    for (std::size_t i = 0; i < kRows; ++i)
      CHECK(rows[i].are_only(offset, offset + nbytes, items.data() + i * nbytes));
    Bytes out(kRows * nbytes);
    get(out.first(), places.data(), offset);
    CHECK(out.are_only(0, kRows * nbytes, items.data()));
  }
}

#define EXPECT_COPIES(isa)                                                                                  \
  with_blocks(nbytes, [&](auto blocks) {                                                                    \
    expect_copies(                                                                                          \
        nbytes,                                                                                             \
        [&](auto* out, auto* const* rows, std::size_t offset) {                                             \
          isa::get_blocks<blocks>(out, nbytes, rows, offset, kRows);                                        \
        },                                                                                                  \
        [&](auto* const* rows, std::size_t offset, const auto* items) {                                     \
          isa::put_blocks<blocks>(rows, offset, nbytes, kRows, items);                                      \
        });                                                                                                 \
  })

void items_of_every_size_are_copied_whole_and_nothing_beside_them() {
  for (std::size_t nbytes = 1; nbytes <= 300; ++nbytes)
    expect_copies(
        nbytes,
        [&](auto* out, auto* const* rows, std::size_t offset) { get_items(out, nbytes, rows, offset, kRows); },
        [&](auto* const* rows, std::size_t offset, const auto* items) {
          put_array(rows, offset, nbytes, kRows, items);
        });
}

void every_simd_level_copies_the_same() {
  for (std::size_t nbytes = 17; nbytes <= 128; ++nbytes) {
    EXPECT_COPIES(portable);
#if defined(DRIVETRAIN_WIDE_ITEMS)
    if (cpu_supports(SimdLevel::kAvx2)) EXPECT_COPIES(avx2);
    if (cpu_supports(SimdLevel::kAvx512)) EXPECT_COPIES(avx512);
#endif
  }
}

}  // namespace

int main() {
  std::printf("seed %llu, simd %s\n", static_cast<unsigned long long>(kSeed), simd_name(best_simd_level()));
  items_of_every_size_are_copied_whole_and_nothing_beside_them();
  every_simd_level_copies_the_same();
  std::puts("ok");
}
