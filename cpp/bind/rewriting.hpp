// Fields of rows written anew, as Python (Replay.update_fields) asks for it. What fits is seen to there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "bind/table.hpp"

namespace drivetrain::bind {

inline constexpr std::size_t kRewrittenBytes = 64 << 10;  // per hold of the lock, one row at least

// keys [count]: each of another row, become the rows' new ones; arrays [count, ...]: the new contents of the fields at
// these places in the schema. Returns how many keys were stale.
inline std::uint64_t rewrite_rows(Table& table, nb::handle keys, nb::list places, nb::list arrays) {
  auto held = table.hold();
  const RowSchema schema = table.schema();
  std::vector<NewField> fields;
  std::size_t row_nbytes = 1;
  for (std::size_t i = 0; i < nb::len(places); ++i) {
    const Field& field = schema.fields[nb::cast<std::size_t>(places[i])];
    fields.push_back({field.offset, field.nbytes, data_of(arrays[i])});
    row_nbytes += field.nbytes;
  }
  const std::size_t count = count_of(keys);
  const std::size_t per_hold = std::clamp<std::size_t>(kRewrittenBytes / row_nbytes, 1, kMaxBatch);
  auto* key = reinterpret_cast<std::uint64_t*>(data_of(keys));
  std::uint64_t num_stale = 0;
  without_gil(*held, [&](ReplayTable& native) {
    Status status = Status::kOk;
    for (std::size_t first = 0; first < count && status == Status::kOk; first += per_hold)
      status = native.rewrite(key, first, std::min(per_hold, count - first), fields.data(), fields.size(), &num_stale);
    return status;
  });
  return num_stale;
}

}  // namespace drivetrain::bind
