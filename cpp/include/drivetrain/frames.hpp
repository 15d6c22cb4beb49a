// The ring of frames behind the rows of a framed table: each observation (or each frame of a stack
// of them) once, however many rows show it.
//
//   frame   generation, owner │ dependents ──▶ row ──▶ row          bytes of all obs leaves
//   row     generation, owner │ next dependent, slots of its frames │ other fields
//
// Frames are taken and published like rows: odd in flight, even once whole, taken again in ring
// order. A row is good as long as all its frames are, so it hangs in the list of the one that the
// ring reaches first, and taking that one ends the row *before* anything of the frame changes. Hence
// whoever finds a row's generation unchanged after a copy has seen none but its own frames.
//
//   * The frame reached first is the one at the least distance ahead of the cursor when the row is
//     committed: its frames are all committed then, and the cursor passes over frames in flight only.
//   * A list has its newest row first, and rows behind one that was overwritten are older still in
//     the ring of rows, so overwritten too: a walk may end at the first row that has changed. Who
//     ends rows otherwise ends whole lists, each within one hold of the lock.
//     (Dependents of one frame come from one environment of one writer, one commit after the other.)
//   * Why lists are short: a row's newest frame is always a new one, so a frame is the oldest one of
//     at most about as many rows as a stack has frames.
//
// Every call is made under the table's lock, unless it says otherwise. Tests: test_frames,
// test_hammer, test_crash_points.
#pragma once

#include <cstddef>
#include <cstdint>

#include "drivetrain/bounds.hpp"
#include "drivetrain/crash_point.hpp"
#include "drivetrain/layout.hpp"
#include "drivetrain/process.hpp"

namespace drivetrain {

/// A reserved row or frame, this process's own until it is committed.
struct Claim {
  std::uint32_t slot;
  std::uint32_t generation;  // odd
};

/// Stands for the frames that a padded sequence does not have.
inline constexpr std::uint32_t kNoFrame = 0xffffffffu;
inline constexpr std::uint64_t kNoFrameKey = kNoFrame;

class FrameRing {
 public:
  FrameRing() = default;
  FrameRing(void* memory, const TableConfig& config) noexcept
      : header_(static_cast<TableHeader*>(memory)),
        rows_(static_cast<unsigned char*>(memory) + rows_offset(config)),
        headers_(static_cast<unsigned char*>(memory) + frame_headers_offset(config)),
        frames_(static_cast<unsigned char*>(memory) + frames_offset(config)),
        config_(config) {}

  FrameHeader& frame(std::uint64_t slot) const noexcept {
    return reinterpret_cast<FrameHeader*>(headers_)[within(slot, config_.num_frames)];
  }
  /// A frame's bytes. Written by the holder of its claim; read, without the lock, under a check of
  /// the generation of a row that refers to it, or of its own.
  unsigned char* bytes(std::uint64_t slot) const noexcept {
    return frames_ + within(slot, config_.num_frames) * config_.frame_stride;
  }
  /// The slots of a row's frames; atomic, relaxed: believed only after a check of the row.
  std::atomic<std::uint32_t>* refs(std::uint64_t row_slot) const noexcept {
    return reinterpret_cast<std::atomic<std::uint32_t>*>(&links(row_slot) + 1);
  }
  /// Whether a frame is still the one that was given this key. Without the lock: call it again
  /// after an acquire fence to trust what was read in between.
  bool is_current(std::uint64_t key) const noexcept {
    return key == kNoFrameKey ||
           frame(Key::slot(key)).generation.load(std::memory_order_relaxed) ==
               Key::generation(key);
  }
  bool are_current(const std::uint64_t* keys, std::size_t count) const noexcept {
    for (std::size_t i = 0; i < count; ++i)
      if (!is_current(keys[i])) return false;
    return true;
  }

  /// Makes a row, this process's own, refer to these frames.
  void set_refs(std::uint64_t row_slot, const std::uint64_t* keys) const noexcept {
    for (std::uint64_t r = 0; r < config_.num_refs; ++r)
      refs(row_slot)[r].store(Key::slot(keys[r]), std::memory_order_relaxed);
  }

  /// Takes `wanted` frames to write and calls kill(row slot) for each row that ends with them; false
  /// when there are too few, because live processes are writing the others: then none is taken.
  template <class Kill>
  bool take(std::size_t wanted, Claim* claims, Kill&& kill) noexcept {
    const std::uint32_t self = OwnerTag::self();
    std::uint64_t slot = header_->next_frame;
    std::uint32_t known_dead = 0;
    std::size_t num = 0;
    for (std::uint64_t passed = 0; num < wanted && passed < config_.num_frames; ++passed) {
      FrameHeader& head = frame(slot);
      const std::uint32_t generation = head.generation.load(std::memory_order_relaxed);
      const bool in_flight = generation & 1;
      if (!in_flight ||
          OwnerTag::is_dead(head.owner.load(std::memory_order_relaxed), known_dead)) {
        end_dependents(head, kill);
        const std::uint32_t taken = taken_after(generation);
        DRIVETRAIN_LOCKED_WRITE("frames/owner", head.owner.store(self, std::memory_order_relaxed));
        DRIVETRAIN_LOCKED_WRITE("frames/generation",
                                head.generation.store(taken, std::memory_order_relaxed));
        claims[num++] = {static_cast<std::uint32_t>(slot), taken};
      }
      slot = slot + 1 == config_.num_frames ? 0 : slot + 1;
    }
    if (num < wanted) {
      disown(claims, num);
      return false;
    }
    DRIVETRAIN_LOCKED_WRITE("frames/next_frame", header_->next_frame = slot);
    return true;
  }

  /// Calls kill(row slot) for each row that hangs under a frame, newest first, and empties its list.
  template <class Kill>
  void end_dependents(FrameHeader& head, Kill&& kill) noexcept {
    if (head.dependents == 0) return;
    for (std::uint64_t key = head.dependents; is_alive(key);) {
      const std::uint32_t slot = Key::slot(key);
      key = links(slot).next_dependent.load(std::memory_order_relaxed);
      kill(slot);
    }
    DRIVETRAIN_LOCKED_WRITE("frames/end_dependents", head.dependents = 0);
  }

  /// Undoes take(), before anything was written: the same frames are the next to be taken.
  void give_back(const Claim* claims, std::size_t count, std::uint64_t next_frame) noexcept {
    disown(claims, count);
    DRIVETRAIN_LOCKED_WRITE("frames/next_frame", header_->next_frame = next_frame);
  }

  void publish(const Claim* claims, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i)  // release: the bytes are seen before "even"
      DRIVETRAIN_LOCKED_WRITE("frames/publish", frame(claims[i].slot)
                                                    .generation.store(claims[i].generation + 1,
                                                                      std::memory_order_release));
  }

  /// Puts a row, about to become committed with this generation, under the frame that ends it.
  void hang(std::uint32_t row_slot, std::uint32_t generation) noexcept {
    FrameHeader& head = frame(reached_first(row_slot));
    DRIVETRAIN_LOCKED_WRITE(
        "frames/next_dependent",
        links(row_slot).next_dependent.store(head.dependents, std::memory_order_relaxed));
    DRIVETRAIN_LOCKED_WRITE("frames/dependents", head.dependents = Key::make(row_slot, generation));
  }

  /// Has the list that a row hangs in know it by its new generation; its frames and its place stay.
  void rehang(std::uint64_t row_key, std::uint32_t generation) noexcept {
    const std::uint64_t renewed = Key::make(Key::slot(row_key), generation);
    FrameHeader& head = frame(reached_first(Key::slot(row_key)));
    if (head.dependents == row_key) {
      DRIVETRAIN_LOCKED_WRITE("frames/rehang_first", head.dependents = renewed);
      return;
    }
    for (std::uint64_t key = head.dependents; is_alive(key);) {
      RowLinks& links_of = links(Key::slot(key));
      key = links_of.next_dependent.load(std::memory_order_relaxed);
      if (key != row_key) continue;
      DRIVETRAIN_LOCKED_WRITE("frames/rehang", links_of.next_dependent.store(renewed, std::memory_order_relaxed));
      return;
    }
  }

  /// Whether a row hangs under a frame; rows refer to none that the ring reaches before the first of these.
  bool has_dependents(std::uint64_t slot) const noexcept { return is_alive(frame(slot).dependents); }

  /// Makes all lists anew from the rows: oldest rows first, so that the newest is first in its list.
  void rebuild_dependents() noexcept {
    for (std::uint64_t slot = 0; slot < config_.num_frames; ++slot)
      if (frame(slot).dependents != 0)
        DRIVETRAIN_LOCKED_WRITE("frames/clear_dependents", frame(slot).dependents = 0);
    for (std::uint64_t i = 0, slot = header_->next_slot; i < config_.capacity; ++i) {
      const std::uint32_t generation = row(slot).generation.load(std::memory_order_relaxed);
      if (is_committed(generation)) hang(static_cast<std::uint32_t>(slot), generation);
      slot = slot + 1 == config_.capacity ? 0 : slot + 1;
    }
  }

  /// Whether every committed row hangs under the right frame and refers to whole frames only.
  bool is_consistent() const noexcept {
    std::uint64_t committed = 0, hanging = 0;
    for (std::uint64_t slot = 0; slot < config_.capacity; ++slot) {
      if (!is_committed(row(slot).generation.load(std::memory_order_relaxed))) continue;
      ++committed;
      for (std::uint64_t r = 0; r < config_.num_refs; ++r) {
        const std::uint32_t ref = refs(slot)[r].load(std::memory_order_relaxed);
        if (ref == kNoFrame) continue;
        if (ref >= config_.num_frames || !is_committed(frame(ref).generation)) return false;
      }
    }
    for (std::uint64_t slot = 0; slot < config_.num_frames; ++slot) {
      if (frame(slot).dependents != 0 && !is_committed(frame(slot).generation)) return false;
      for (std::uint64_t key = frame(slot).dependents; is_alive(key); ++hanging) {
        if (reached_first(Key::slot(key)) != slot || hanging > committed) return false;
        key = links(Key::slot(key)).next_dependent.load(std::memory_order_relaxed);
      }
    }
    return hanging == committed;
  }

 private:
  RowHeader& row(std::uint64_t slot) const noexcept {
    return *reinterpret_cast<RowHeader*>(rows_ + within(slot, config_.capacity) * config_.row_stride);
  }
  RowLinks& links(std::uint64_t slot) const noexcept {
    return *reinterpret_cast<RowLinks*>(rows_ + within(slot, config_.capacity) * config_.row_stride +
                                        sizeof(RowHeader));
  }
  bool is_alive(std::uint64_t row_key) const noexcept {
    return row_key != 0 && row(Key::slot(row_key)).generation.load(std::memory_order_relaxed) ==
                               Key::generation(row_key);
  }

  std::uint64_t reached_first(std::uint64_t row_slot) const noexcept {
    std::uint64_t first = 0, least = config_.num_frames;
    for (std::uint64_t r = 0; r < config_.num_refs; ++r) {
      const std::uint64_t ref = refs(row_slot)[r].load(std::memory_order_relaxed);
      if (ref == kNoFrame) continue;
      const std::uint64_t next = header_->next_frame;
      const std::uint64_t distance = ref >= next ? ref - next : ref + config_.num_frames - next;
      if (distance < least) first = ref, least = distance;
    }
    return first;
  }

  // Odd and nobody's: taken again by the next who comes along.
  void disown(const Claim* claims, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i)
      DRIVETRAIN_LOCKED_WRITE("frames/disown",
                              frame(claims[i].slot).owner.store(0, std::memory_order_relaxed));
  }

  TableHeader* header_ = nullptr;
  unsigned char* rows_ = nullptr;
  unsigned char* headers_ = nullptr;
  unsigned char* frames_ = nullptr;
  TableConfig config_{};
};

}  // namespace drivetrain
