// Copies of whole lines, for each instruction set: its Vector, load(), store() and stream() come from line_copy.hpp,
// which includes this once for each, and DRIVETRAIN_KERNEL is what its functions say.

// All that is moved is read before any of it is written.
template <bool past_caches, std::size_t num_lines>
DRIVETRAIN_KERNEL inline void move_lines(unsigned char* to, const unsigned char* from) noexcept {
  constexpr std::size_t kNum = num_lines * kLine / sizeof(Vector);
  Vector lines[kNum];
  for (std::size_t i = 0; i < kNum; ++i) lines[i] = load(from + i * sizeof(Vector));
  for (std::size_t i = 0; i < kNum; ++i)
    past_caches ? stream(to + i * sizeof(Vector), lines[i]) : store(to + i * sizeof(Vector), lines[i]);
}

template <bool past_caches, std::size_t num>
DRIVETRAIN_KERNEL inline void copy_lines(unsigned char* const* targets, const unsigned char* const* sources,
                                         std::size_t num_lines) noexcept {
  unsigned char* to[num];  // in registers: what is written may be anything else
  const unsigned char* from[num];
  std::copy_n(targets, num, to);
  std::copy_n(sources, num, from);
  std::size_t at = 0;
  for (; at + 2 * kLine <= num_lines * kLine; at += 2 * kLine)
    for (std::size_t k = 0; k < num; ++k) move_lines<past_caches, 2>(to[k] + at, from[k] + at);
  for (std::size_t k = 0; k < num && at < num_lines * kLine; ++k) move_lines<past_caches, 1>(to[k] + at, from[k] + at);
}
