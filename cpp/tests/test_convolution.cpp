// Convolutions and their derivatives, against plain loops in double, at every instruction set of this CPU.
#include "drivetrain/convolution.hpp"

#include <algorithm>

#include "plain_convolution.hpp"

using namespace drivetrain;
using namespace drivetrain::convolution;
using namespace test;

namespace {

/// What ours give, each in exactly as much memory as it needs, so that a sanitizer sees what is beyond.
template <class Number>
struct Ours {
  Numbers y, dw, dbias, dx;

  Ours(const Layer& layer, std::size_t num, const std::vector<Number>& x, const Numbers& w, const Numbers& bias,
       const Numbers& dy, Workspace& work, SimdLevel simd)
      : y(dy.size(), kNan), dw(w.size(), kNan), dbias(bias.size(), kNan), dx(x.size(), kNan) {
    CHECK(work.reserve(words_for(layer)));
    forward(layer, num, x.data(), w.data(), bias.data(), y.data(), work, simd);
    CHECK(work.reserve(words_for(layer)));
    weight_slopes(layer, num, x.data(), dy.data(), dw.data(), dbias.data(), work, simd);
    if constexpr (std::is_same_v<Number, float>) {
      CHECK(work.reserve(words_for(layer)));
      input_slopes(layer, num, x.data(), w.data(), dy.data(), dx.data(), work, simd);
    }
  }
};

void test_units(const Layer& layer, double kept, Workspace& work, SimdLevel simd) {
  CHECK(layer.fits(false));
  constexpr std::size_t kNum = 3;
  Random random(layer.size() + 7 * layer.taps());
  Numbers z = random_numbers(random, kNum * layer.size(), 1);
  for (float& x : z) x = random.uniform() < kept ? std::abs(x) : random.below(4) == 0 ? 0 : -std::abs(x);
  const Numbers w = random_numbers(random, layer.taps() * layer.num_out, 1);
  const Numbers bias = random_numbers(random, layer.num_out, 1);
  const Numbers dy = random_numbers(random, kNum * layer.out_size(), kept);
  std::vector<double> x(z.begin(), z.end());
  for (double& one : x) one = std::max(one, 0.0);
  Plain plain(layer, kNum, x, w, bias, dy);
  for (std::size_t i = 0; i < x.size(); ++i)
    if (x[i] == 0) plain.dx[i] = 0;  // a unit that is off
  const Ours<float> ours(layer, kNum, z, w, bias, dy, work, simd);
  check_close(ours.y, plain.y);
  check_close(ours.dw, plain.dw);
  check_close(ours.dbias, plain.dbias);
  check_close(ours.dx, plain.dx);
  // An image's numbers do not depend on those beside it, and nothing on what the memory held before.
  Workspace another;
  const Numbers second(z.begin() + static_cast<std::ptrdiff_t>(layer.size()),
                       z.begin() + static_cast<std::ptrdiff_t>(2 * layer.size()));
  const Numbers slopes(dy.begin() + static_cast<std::ptrdiff_t>(layer.out_size()),
                       dy.begin() + static_cast<std::ptrdiff_t>(2 * layer.out_size()));
  const Ours<float> alone(layer, 1, second, w, bias, slopes, another, simd);
  CHECK(std::equal(alone.y.begin(), alone.y.end(), ours.y.begin() + static_cast<std::ptrdiff_t>(layer.out_size())));
  CHECK(std::equal(alone.dx.begin(), alone.dx.end(), ours.dx.begin() + static_cast<std::ptrdiff_t>(layer.size())));
}

void test_bytes(const Layer& layer, double background, Workspace& work, SimdLevel simd) {
  CHECK(layer.fits(true));
  constexpr std::size_t kNum = 3;
  Random random(layer.size() + 11 * layer.taps());
  std::vector<std::uint8_t> bytes(kNum * layer.size());
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random.uniform() < background ? 87 : random.below(256));
  const Numbers w = random_numbers(random, layer.taps() * layer.num_out, 1);
  const Numbers bias = random_numbers(random, layer.num_out, 1);
  const Numbers dy = random_numbers(random, kNum * layer.out_size(), 0.4);
  const Plain plain(layer, kNum, seen(layer, bytes), w, bias, dy);
  const Ours<std::uint8_t> ours(layer, kNum, bytes, w, bias, dy, work, simd);
  check_close(ours.y, plain.y);
  check_close(ours.dw, plain.dw);
  check_close(ours.dbias, plain.dbias);
}

}  // namespace

int main() {
  Workspace work;  // used by all sizes in turn, growing and not
  for (SimdLevel simd : {SimdLevel::kPortable, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    if (!cpu_supports(simd)) continue;
    for (const Layer& layer : {Layer{20, 20, 32, 4, 2, 64}, Layer{9, 9, 64, 3, 1, 64}, Layer{5, 7, 16, 3, 1, 16},
                               Layer{7, 5, 48, 4, 2, 48}, Layer{3, 3, 16, 3, 1, 272}, Layer{8, 11, 272, 2, 3, 32}})
      for (double kept : {0.0, 0.3, 1.0}) test_units(layer, kept, work, simd);
    for (const Layer& layer : kLayersOfBytes)
      for (double background : {0.0, 0.9, 1.0}) test_bytes(layer, background, work, simd);
    const WithNan nan;
    nan.check(Ours<float>(nan.layer, 1, nan.z, nan.w, nan.bias, nan.dy, work, simd));
    std::printf("%s: equal to plain loops\n", simd_name(simd));
  }
}
