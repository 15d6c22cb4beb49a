// Questions about all rows of a table, as Python asks them.
#pragma once

#include "bind/table.hpp"
#include "drivetrain/queries.hpp"

namespace drivetrain::bind {

// (count, least, largest, sum, alpha) of the leaves of a prioritized table.
inline nb::tuple leaf_stats(const Table& table) {
  auto held = table.hold();
  LeafStats stats{};
  without_gil(*held, [&](ReplayTable& native) { return drivetrain::leaf_stats(native, &stats); });
  return nb::make_tuple(stats.count, stats.least, stats.largest, stats.sum, stats.alpha);
}

// (first, count) of the frames that no row refers to, from the next one to be taken on.
inline nb::tuple idle_frames(const Table& table) {
  auto held = table.hold();
  IdleFrames idle{};
  without_gil(*held, [&](ReplayTable& native) { return drivetrain::idle_frames(native, &idle); });
  return nb::make_tuple(idle.first, idle.count);
}

// The keys of all rows, oldest first.
inline nb::object all_keys(const Table& table) {
  auto held = table.hold();
  RingWalk walk{};
  without_gil(*held, [&](ReplayTable& native) { return begin_walk(native, &walk); });
  const auto most = static_cast<npy_intp>(walk.used);
  nb::object keys = nb::steal(PyArray_SimpleNew(1, &most, NPY_UINT64));
  if (!keys.is_valid()) nb::raise_python_error();
  auto* out = reinterpret_cast<std::uint64_t*>(data_of(keys));
  std::size_t count;
  {
    GilReleased released;
    count = write_all_keys(held->table, walk, out);
  }
  return keys[nb::slice(nb::int_(0), nb::int_(count), nb::none())];
}

// Whether all keys were of this table; then `priorities` is filled. Both are contiguous, of one size.
inline bool read_priorities(const Table& table, nb::handle keys, nb::handle priorities) {
  auto held = table.hold();
  const auto* key = reinterpret_cast<const std::uint64_t*>(data_of(keys));
  auto* out = reinterpret_cast<double*>(data_of(priorities));
  const std::size_t count = count_of(priorities);
  std::int64_t result;
  {
    GilReleased released;
    result = drivetrain::read_priorities(held->table, key, count, out);
  }
  if (result == kBrokenLock) check(Status::kBroken);
  return result == 0;
}

}  // namespace drivetrain::bind
