// A network on a few rows, against plain loops in double, at every instruction set of this CPU.
#include "drivetrain/forward.hpp"

#include <limits>

#include "check.hpp"

using namespace drivetrain;
using test::Random;

namespace {

using Numbers = std::vector<float>;

Numbers random_numbers(Random& random, std::size_t size) {
  Numbers numbers(size);
  for (float& x : numbers) x = static_cast<float>(random.uniform() - 0.5);
  return numbers;
}

struct Case {
  std::vector<std::size_t> widths;  // inputs, then hidden layers
  std::vector<std::size_t> heads;
  std::size_t rows;
};

/// Everything in exactly as much memory as it needs, so that a sanitizer sees what is beyond.
struct Network {
  std::vector<Numbers> pieces, outputs;
  std::vector<Dense> layers;
  std::size_t num_hidden, rows;
  Numbers x;

  explicit Network(const Case& one) : num_hidden(one.widths.size() - 1), rows(one.rows) {
    Random random(one.widths.back() * 1009 + one.rows);
    x = random_numbers(random, rows * one.widths[0]);
    const auto add = [&](std::size_t num_in, std::size_t num_out) {
      pieces.push_back(random_numbers(random, num_in * num_out));
      pieces.push_back(random_numbers(random, num_out));
      layers.push_back({nullptr, nullptr, num_in, num_out});
    };
    for (std::size_t n = 0; n < num_hidden; ++n) add(one.widths[n], one.widths[n + 1]);
    for (std::size_t width : one.heads) add(one.widths.back(), width);
    for (std::size_t n = 0; n < layers.size(); ++n) {
      layers[n].weight = pieces[2 * n].data();
      layers[n].bias = pieces[2 * n + 1].data();
    }
    for (std::size_t width : one.heads) outputs.emplace_back(rows * width);
  }

  void evaluate(Forward& forward, Activation activation, SimdLevel simd, bool before_units = false) {
    std::vector<float*> heads;
    for (Numbers& output : outputs) heads.push_back(output.data());
    forward(layers, num_hidden, activation, before_units, x.data(), rows, heads.data(), simd);
  }

  std::vector<double> dense(const std::vector<double>& h, std::size_t n) const {
    std::vector<double> z(layers[n].num_out);
    for (std::size_t j = 0; j < z.size(); ++j) {
      z[j] = layers[n].bias[j];
      for (std::size_t k = 0; k < h.size(); ++k) z[j] += h[k] * layers[n].weight[k * z.size() + j];
    }
    return z;
  }

  void check(Activation activation) const {
    const std::size_t num_in = layers[0].num_in;
    for (std::size_t row = 0; row < rows; ++row) {
      std::vector<double> h(x.begin() + row * num_in, x.begin() + (row + 1) * num_in);
      for (std::size_t n = 0; n < num_hidden; ++n) {
        h = dense(h, n);
        for (double& z : h) z = activation == Activation::kTanh ? std::tanh(z) : std::max(z, 0.0);
      }
      for (std::size_t n = num_hidden; n < layers.size(); ++n) {
        const std::vector<double> expected = dense(h, n);
        for (std::size_t j = 0; j < expected.size(); ++j) {
          const double got = outputs[n - num_hidden][row * expected.size() + j];
          CHECK(std::abs(got - expected[j]) <= 1e-5 * (1 + std::abs(expected[j])));
        }
      }
    }
  }
};

void test_a_row_does_not_depend_on_the_others(Forward& forward, SimdLevel simd) {
  Network all({{5, 40, 37}, {3}, 4});
  all.evaluate(forward, Activation::kRelu, simd);
  Network one({{5, 40, 37}, {3}, 4});
  one.rows = 1;
  for (std::size_t row = 0; row < 4; ++row) {
    std::memmove(one.x.data(), all.x.data() + row * 5, 5 * sizeof(float));
    one.evaluate(forward, Activation::kRelu, simd);
    CHECK(std::memcmp(one.outputs[0].data(), all.outputs[0].data() + row * 3, 3 * sizeof(float)) == 0);
  }
}

void test_what_goes_in_may_be_before_units(Forward& forward, SimdLevel simd) {
  Network before({{70, 33}, {3}, 2}), behind({{70, 33}, {3}, 2});
  for (float& x : behind.x) x = std::max(x, 0.0f);
  CHECK(behind.x != before.x);
  before.evaluate(forward, Activation::kTanh, simd, true);
  behind.evaluate(forward, Activation::kTanh, simd);
  behind.check(Activation::kTanh);
  for (std::size_t i = 0; i < before.outputs[0].size(); ++i)
    CHECK(std::abs(before.outputs[0][i] - behind.outputs[0][i]) < 1e-5f);
}

void test_nan_is_kept(Forward& forward, SimdLevel simd) {
  for (Activation activation : {Activation::kRelu, Activation::kTanh}) {
    Network network({{3, 20, 9}, {2, 1}, 2});
    network.x[4] = std::numeric_limits<float>::quiet_NaN();  // in the second row
    network.evaluate(forward, activation, simd);
    for (const Numbers& output : network.outputs)
      for (std::size_t i = 0; i < output.size(); ++i) CHECK(std::isnan(output[i]) == (i >= output.size() / 2));
  }
}

}  // namespace

int main() {
  Forward forward;  // used by all sizes in turn, growing and not
  for (SimdLevel simd : {SimdLevel::kPortable, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    if (!cpu_supports(simd)) continue;
    for (Activation activation : {Activation::kRelu, Activation::kTanh})
      for (const Case& one : {Case{{4, 256, 256}, {2}, 1}, Case{{17, 64, 33}, {6, 6}, 3}, Case{{3}, {5, 1}, 2},
                              Case{{1, 1, 1}, {1}, 1}, Case{{200, 7, 129, 15}, {31}, 8}, Case{{2, 3}, {1}, 0}}) {
        Network network(one);
        network.evaluate(forward, activation, simd);
        network.check(activation);
      }
    test_a_row_does_not_depend_on_the_others(forward, simd);
    test_what_goes_in_may_be_before_units(forward, simd);
    test_nan_is_kept(forward, simd);
    std::printf("%s: equal to plain loops\n", simd_name(simd));
  }
}
