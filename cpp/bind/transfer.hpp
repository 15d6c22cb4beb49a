// Rows and frames of a table on their way to a file and back, as Python (replay/files) moves them. What
// fits is seen to there.
#pragma once

#include "bind/table.hpp"
#include "drivetrain/transfer.hpp"

namespace drivetrain::bind {

// Copies the committed rows of slots [first, first + count): leaves [count] and generations
// [count] (0: no row here), by the given alpha, and raw rows [count, row bytes]. Safe against concurrent writers.
inline void export_rows(Table& table, std::size_t first, double alpha, nb::handle rows, nb::handle leaves,
                        nb::handle generations) {
  auto held = table.hold();
  const std::size_t count = count_of(generations);
  unsigned char* row_out = data_of(rows);
  auto* leaf_out = reinterpret_cast<float*>(data_of(leaves));
  auto* generation_out = reinterpret_cast<std::uint32_t*>(data_of(generations));
  without_gil(*held, [&](ReplayTable& native) {
    return drivetrain::export_rows(native, first, count, alpha, row_out, leaf_out, generation_out);
  });
}

// The same without rows: leaves [count] and generations [count] (0: no row here).
inline void export_leaves(Table& table, std::size_t first, double alpha, nb::handle leaves,
                          nb::handle generations) {
  auto held = table.hold();
  const std::size_t count = count_of(generations);
  auto* leaf_out = reinterpret_cast<float*>(data_of(leaves));
  auto* generation_out = reinterpret_cast<std::uint32_t*>(data_of(generations));
  without_gil(*held, [&](ReplayTable& native) {
    return drivetrain::export_leaves(native, first, count, alpha, leaf_out, generation_out);
  });
}

// Appends rows as export_rows gave them, with their leaves; with the keys of their frames
// [count, num_refs] in a framed table.
inline void import_rows(Table& table, nb::handle rows, nb::handle leaves, nb::handle keys) {
  auto held = table.hold();
  const std::size_t count = count_of(leaves);
  const unsigned char* row = data_of(rows);
  const auto* leaf = reinterpret_cast<const float*>(data_of(leaves));
  const auto* key = keys.is_none() ? nullptr : reinterpret_cast<const std::uint64_t*>(data_of(keys));
  without_gil(*held, [&](ReplayTable& native) { return append_rows(native, row, leaf, count, key); });
}

// The generations [count] that the rows from `first` have now; what was exported before this call
// is whole where they are the same.
inline void export_generations(Table& table, std::size_t first, nb::handle generations) {
  auto held = table.hold();
  const std::size_t count = count_of(generations);
  auto* out = reinterpret_cast<std::uint32_t*>(data_of(generations));
  std::atomic_thread_fence(std::memory_order_acquire);  // earlier copies are over
  for (std::size_t i = 0; i < count; ++i)
    out[i] = held->table.row(first + i)
                 .generation.load(std::memory_order_relaxed);
}

// The generations [count] of the frames of these slots (0: not whole).
inline void export_frame_generations(Table& table, nb::handle slots, nb::handle generations) {
  auto held = table.hold();
  const std::size_t count = count_of(slots);
  const auto* slot = reinterpret_cast<const std::uint32_t*>(data_of(slots));
  auto* out = reinterpret_cast<std::uint32_t*>(data_of(generations));
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t generation =
        held->table.frames().frame(slot[i]).generation.load(std::memory_order_relaxed);
    out[i] = generation & 1 ? 0 : generation;
  }
}

// Copies frames [count, frame_stride] and their generations [count] (0: changed meanwhile).
inline void export_frames(Table& table, nb::handle slots, nb::handle frames,
                          nb::handle generations) {
  auto held = table.hold();
  const std::size_t count = count_of(slots);
  const auto* slot = reinterpret_cast<const std::uint32_t*>(data_of(slots));
  unsigned char* out = data_of(frames);
  auto* generation_out = reinterpret_cast<std::uint32_t*>(data_of(generations));
  GilReleased released;
  drivetrain::export_frames(held->table, slot, count, out, generation_out);
}

// Stores frames as export_frames gave them; fills in their keys [count].
inline void import_frames(Table& table, nb::handle frames, nb::handle keys) {
  auto held = table.hold();
  const std::size_t count = count_of(keys);
  const unsigned char* data = data_of(frames);
  auto* key = reinterpret_cast<std::uint64_t*>(data_of(keys));
  without_gil(*held, [&](ReplayTable& native) { return append_frames(native, data, count, key); });
}

// Gives an empty tree the unit that leaves were saved with.
inline void restore_unit(Table& table, std::int32_t exponent) {
  auto held = table.hold();
  with_lock(held->table, [&] {
    if (held->table.config().prioritized) held->table.tree().start_with_unit(exponent);
  });
}

// Sets the numbers beside the rows; next_slot is below the capacity.
inline void restore(Table& table, float max_priority, std::uint64_t random_block,
                    std::uint64_t num_inserted, std::uint64_t next_slot) {
  auto held = table.hold();
  with_lock(held->table, [&] {
    held->table.set_next_slot(next_slot);
    held->table.header().max_priority = max_priority;
    held->table.header().num_inserted = num_inserted;
    held->table.header().random_block.store(random_block, std::memory_order_relaxed);
  });
}

}  // namespace drivetrain::bind
