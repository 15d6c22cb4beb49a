// Convolutions in rounded factors and their derivatives, against plain loops in double, by every way that this CPU has.
#include "drivetrain/rounded_convolution.hpp"

#include "plain_convolution.hpp"

using namespace drivetrain;
using namespace drivetrain::rounded;
using namespace test;

namespace {

/// What ours give, each in exactly as much memory as it needs, so that a sanitizer sees what is beyond.
template <class Number>
struct Ours {
  Numbers y, dw, dbias, dx;

  Ours(const Layer& layer, std::size_t num, const std::vector<Number>& x, const Numbers& w, const Numbers& bias,
       const Numbers& dy, ConvolutionWorkspace& work, By by)
      : y(dy.size(), kNan), dw(w.size(), kNan), dbias(bias.size(), kNan), dx(x.size(), kNan) {
    CHECK(work.reserve(layer));
    forward(layer, num, x.data(), w.data(), bias.data(), y.data(), work, by);
    weight_slopes(layer, num, x.data(), dy.data(), dw.data(), dbias.data(), work, by);
    if constexpr (std::is_same_v<Number, float>)
      input_slopes(layer, num, x.data(), w.data(), dy.data(), dx.data(), work, by);
  }
};

Numbers rounded_of(const Numbers& numbers) {
  Numbers halves;
  for (const float x : numbers) halves.push_back(static_cast<float>(rounded_to_half(x)));
  return halves;
}

struct Drawn {
  Numbers w, bias, dy;
  std::vector<double> dbias;

  Drawn(const Layer& layer, std::size_t num, Random& random)
      : w(random_numbers(random, layer.taps() * layer.num_out, 1)),
        bias(random_numbers(random, layer.num_out, 1)),
        dy(random_numbers(random, num * layer.out_size(), 0.6)),
        dbias(layer.num_out) {
    for (std::size_t i = 0; i < dy.size(); ++i) dbias[i % layer.num_out] += dy[i];
  }
};

void test_units(const Layer& layer, std::size_t num, ConvolutionWorkspace& work, By by) {
  CHECK(fits(layer, false));
  Random random(layer.size() + 7 * layer.taps());
  const Numbers z = random_numbers(random, num * layer.size(), 0.9);
  const Drawn drawn(layer, num, random);
  std::vector<double> x;
  for (const float one : z) x.push_back(std::max(0.0, rounded_to_half(one)));
  Plain plain(layer, num, x, rounded_of(drawn.w), drawn.bias, rounded_of(drawn.dy));
  for (std::size_t i = 0; i < x.size(); ++i)
    if (z[i] <= 0) plain.dx[i] = 0;  // a unit that is off
  const Ours<float> ours(layer, num, z, drawn.w, drawn.bias, drawn.dy, work, by);
  check_close(ours.y, plain.y);
  check_close(ours.dw, plain.dw);
  check_close(ours.dbias, drawn.dbias);
  check_close(ours.dx, plain.dx);
  // An image's numbers do not depend on those beside it, and nothing on what the memory held before.
  ConvolutionWorkspace another;
  const auto last_of = [](const Numbers& all, std::size_t size) {
    return Numbers(all.end() - static_cast<std::ptrdiff_t>(size), all.end());
  };
  const Ours<float> alone(layer, 1, last_of(z, layer.size()), drawn.w, drawn.bias, last_of(drawn.dy, layer.out_size()),
                          another, by);
  CHECK(alone.y == last_of(ours.y, layer.out_size()) && alone.dx == last_of(ours.dx, layer.size()));
}

void test_bytes(const Layer& layer, std::size_t num, ConvolutionWorkspace& work, By by) {
  CHECK(fits(layer, true));
  Random random(layer.size() + 11 * layer.taps());
  std::vector<std::uint8_t> bytes(num * layer.size());
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random.below(256));
  const Drawn drawn(layer, num, random);
  const Plain plain(layer, num, seen(layer, bytes), rounded_of(drawn.w), drawn.bias, rounded_of(drawn.dy));
  const Ours<std::uint8_t> ours(layer, num, bytes, drawn.w, drawn.bias, drawn.dy, work, by);
  check_close(ours.y, plain.y);
  check_close(ours.dw, plain.dw);
  check_close(ours.dbias, drawn.dbias);
}

}  // namespace

int main() {
  ConvolutionWorkspace work;  // used by all sizes in turn, growing and not
  CHECK(!fits({9, 9, 16, 3, 1, 16}, false));  // runs of 48 taps, which are no whole tiles
  for (By by : {By::kLoops, By::kTiles}) {
    if (by == By::kTiles && !has_tiles()) continue;
    for (const Layer& layer : {Layer{20, 20, 32, 4, 2, 64}, Layer{9, 9, 64, 3, 1, 64}, Layer{5, 7, 32, 3, 1, 16},
                               Layer{7, 5, 48, 4, 2, 48}, Layer{8, 11, 32, 2, 3, 32}})
      for (const std::size_t num : {1, 5}) test_units(layer, num, work, by);
    for (const Layer& layer : kLayersOfBytes) test_bytes(layer, 3, work, by);
    const WithNan nan;
    nan.check(Ours<float>(nan.layer, 1, nan.z, nan.w, nan.bias, nan.dy, work, by));
    std::printf("%s: equal to plain loops\n", by == By::kTiles ? "tiles" : "loops");
  }
}
