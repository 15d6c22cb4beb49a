// What a replay segment holds, in order, all by offset:
//
//   | TableHeader | sum tree (prioritized only) | extremes of its leaves (if asked for) | rows
//   | frame headers | frames (framed only) |
//
//   row = | generation, owner | links (framed only) | fields, packed | padding |   stride: 8 n
//
// A row is one transition, so that sampling it touches consecutive cache lines. In a framed table
// observations lie in frames, a second ring (frames.hpp), and a row holds the slots of its frames.
// Frame headers are apart from the frames: draws need none of them, and a repair reads nothing else.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "drivetrain/exponent.hpp"
#include "drivetrain/mutex.hpp"
#include "drivetrain/sum_tree.hpp"

namespace drivetrain {

inline constexpr std::uint32_t kTableVersion = 3;
inline constexpr std::size_t kPageBytes = 4096;

/// generation: 0 never written; odd while being written; even and positive once committed.
/// owner: OwnerTag of the process that is writing or wrote the row.
struct RowHeader {
  std::atomic<std::uint32_t> generation;  // changed under the lock only, read anywhere
  std::atomic<std::uint32_t> owner;       // likewise
};
static_assert(sizeof(RowHeader) == 8 && std::atomic<std::uint32_t>::is_always_lock_free);

/// What a framed row starts with, before its fields; num_refs frame slots follow.
struct RowLinks {
  std::atomic<std::uint64_t> next_dependent;  // Key of the next row in its frame's list; under the lock
};

/// generation, owner: as of a row.
struct FrameHeader {
  std::atomic<std::uint32_t> generation;
  std::atomic<std::uint32_t> owner;
  std::uint64_t dependents;  // Key of the newest row whose life this frame ends; 0: none; under the lock
};
static_assert(sizeof(RowLinks) == 8 && sizeof(FrameHeader) == 16 &&
              std::atomic<std::uint64_t>::is_always_lock_free);

/// Whether a row of this generation is whole: written, and not being written again.
inline bool is_committed(std::uint32_t generation) noexcept {
  return generation != 0 && !(generation & 1);
}

/// The generation of a row that is now taken to be written, even or left odd by a writer that died: the next odd one,
/// which no earlier claim carries. After 2^31 claims they begin again at 1, since what follows the last would be 0.
inline std::uint32_t taken_after(std::uint32_t generation) noexcept {
  const std::uint32_t taken = (generation + 1) | 1;
  return taken != ~std::uint32_t{0} ? taken : 1;
}

/// Where the priority of a new row comes from.
enum class InitialPriority : std::uint32_t {
  kRunningMax,  // the largest that update_priorities was ever given; 1 at first
  kBufferMax,   // the largest in the buffer now; 1 while it is empty
  kGiven,       // from whoever adds the row
  kFixed,       // TableConfig::initial_priority
};

struct TableConfig {
  std::uint64_t capacity;     // rows, 1 .. 2^32 - 1
  std::uint64_t row_stride;   // bytes from row to row, a multiple of 8
  std::uint32_t prioritized;  // 0 or 1
  double alpha;               // of a new table; TableHeader::exponent has today's
  std::uint64_t seed;         // key of the random stream
  InitialPriority initial = InitialPriority::kRunningMax;
  float initial_priority = 1.0f;        // of kFixed
  std::uint32_t weights_by_buffer = 0;  // 1: weights relative to the largest there can be
  std::uint64_t num_frames = 0;    // 0: rows hold their observations; else below 2^32
  std::uint64_t frame_stride = 0;  // bytes from frame to frame
  std::uint64_t num_refs = 0;      // frames a row refers to

  bool keeps_extremes() const noexcept {
    return prioritized && (weights_by_buffer || initial == InitialPriority::kBufferMax);
  }
};

struct TableHeader {
  std::uint32_t version;
  TableConfig config;  // constant after initialisation
  RobustMutex mutex;   // guards everything below down to random_block, and the tree

  std::uint64_t next_slot;      // where the ring goes on, below capacity
  std::atomic<std::uint64_t> num_used;       // slots in use, from 0 on; readable any time
  std::atomic<std::uint64_t> num_committed;  // rows that can be sampled; readable at any time
  TreeState tree;
  Exponent exponent;            // leaf = (priority + 1e-6)^alpha
  float max_priority;           // running maximum: the priority of new rows
  std::uint32_t num_repairs;    // times the lock was inherited from a dead holder
  std::uint64_t num_inserted;   // rows ever committed
  std::uint64_t next_frame;     // where the ring of frames goes on, below num_frames
  std::uint64_t num_dropped;    // rows not inserted: their frames were gone before they were whole

  alignas(64) std::atomic<std::uint64_t> random_block;  // relaxed counter, taken without the lock
};
static_assert(sizeof(TableHeader) <= kPageBytes);

inline std::size_t tree_offset() noexcept { return kPageBytes; }
inline std::size_t extremes_offset(const TableConfig& config) noexcept {
  return tree_offset() + (config.prioritized ? SumTree::nbytes_for(config.capacity) : 0);
}
inline std::size_t extremes_nbytes(const TableConfig& config) noexcept {
  return config.keeps_extremes() ? SumTree::extremes_nbytes_for(config.capacity) : 0;
}
inline std::size_t rows_offset(const TableConfig& config) noexcept {
  const std::size_t end = extremes_offset(config) + extremes_nbytes(config);
  return (end + kPageBytes - 1) / kPageBytes * kPageBytes;
}
inline std::size_t frame_headers_offset(const TableConfig& config) noexcept {
  const std::size_t end = rows_offset(config) + config.capacity * config.row_stride;
  return config.num_frames ? (end + 63) / 64 * 64 : end;
}
inline std::size_t frames_offset(const TableConfig& config) noexcept {
  const std::size_t end = frame_headers_offset(config) + config.num_frames * sizeof(FrameHeader);
  return config.num_frames ? (end + 63) / 64 * 64 : end;
}
inline std::size_t table_nbytes(const TableConfig& config) noexcept {
  return frames_offset(config) + config.num_frames * config.frame_stride;
}
/// Bytes between the header of a row and its fields.
inline std::size_t links_nbytes(std::uint64_t num_refs) noexcept {
  return num_refs ? (sizeof(RowLinks) + num_refs * 4 + 7) / 8 * 8 : 0;
}

/// One part of a table's memory.
struct Region {
  const char* name;
  std::size_t nbytes;
};
inline constexpr std::size_t kNumRegions = 6;
inline void list_regions(const TableConfig& config, Region (&regions)[kNumRegions]) noexcept {
  const std::size_t tree = extremes_offset(config) - tree_offset();
  const std::size_t extremes = extremes_nbytes(config);
  regions[0] = {"header", tree_offset()};
  regions[1] = {"sum tree", tree};
  regions[2] = {"extremes", extremes};
  regions[3] = {"alignment", rows_offset(config) - extremes_offset(config) - extremes};
  regions[4] = {"rows", frame_headers_offset(config) - rows_offset(config)};
  regions[5] = {"frames", table_nbytes(config) - frame_headers_offset(config)};
}

/// A row's key: which slot, and which of the rows that slot held over time.
struct Key {
  static std::uint64_t make(std::uint32_t slot, std::uint32_t generation) noexcept {
    return static_cast<std::uint64_t>(generation) << 32 | slot;
  }
  static std::uint32_t slot(std::uint64_t key) noexcept { return static_cast<std::uint32_t>(key); }
  static std::uint32_t generation(std::uint64_t key) noexcept {
    return static_cast<std::uint32_t>(key >> 32);
  }
};

}  // namespace drivetrain
