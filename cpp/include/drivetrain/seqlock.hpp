// One writer, many readers, always the latest complete payload: a sequence lock over two halves.
//
//   | begun | completed | half 0 ........ | half 1 ........ |
//
// Version v lives in half v & 1. The writer announces v in `begun`, fills its half, then sets
// `completed`. Readers copy the half of `completed` and accept the copy if the version after it
// but one had not begun by then. The writer never waits; a reader retries only when it was
// overtaken twice during one copy; a writer killed half-way leaves the last version readable.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "drivetrain/shared_copy.hpp"

namespace drivetrain {

class Broadcast {
 public:
  static constexpr std::size_t kAlignment = 64;

  static std::size_t nbytes_for(std::size_t payload_nbytes) noexcept {
    return kAlignment + 2 * padded(payload_nbytes);
  }

  /// Zeroed memory is an empty channel.
  Broadcast(void* memory, std::size_t payload_nbytes) noexcept
      : head_(static_cast<Head*>(memory)),
        halves_(static_cast<unsigned char*>(memory) + kAlignment),
        payload_nbytes_(payload_nbytes) {}

  std::uint64_t version() const noexcept {
    return head_->completed.load(std::memory_order_acquire);  // pairs with publish()
  }

  /// Copies payload_nbytes from `payload`; returns its version. One publisher at a time.
  std::uint64_t publish(const void* payload) noexcept {
    const std::uint64_t version = head_->completed.load(std::memory_order_relaxed) + 1;
    head_->begun.store(version, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);  // begun is seen before any new byte
    copy_to_shared(half(version), payload, payload_nbytes_);
    head_->completed.store(version, std::memory_order_release);  // bytes are seen before this
    return version;
  }

  /// Copies the latest payload to `out`; returns its version, 0 if there is none yet.
  std::uint64_t read(void* out) const noexcept {
    for (;;) {
      const std::uint64_t version = head_->completed.load(std::memory_order_acquire);
      if (version == 0) return 0;
      copy_from_shared(out, half(version), payload_nbytes_);
      std::atomic_thread_fence(std::memory_order_acquire);  // the copy is over before the check
      if (head_->begun.load(std::memory_order_relaxed) <= version + 1) return version;
    }
  }

 private:
  struct Head {
    std::atomic<std::uint64_t> begun;      // written by the publisher only
    std::atomic<std::uint64_t> completed;  // written by the publisher only
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(Head) <= kAlignment);

  static std::size_t padded(std::size_t nbytes) noexcept {
    return (nbytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  unsigned char* half(std::uint64_t version) const noexcept {
    return halves_ + (version & 1) * padded(payload_nbytes_);
  }

  Head* head_;
  unsigned char* halves_;
  std::size_t payload_nbytes_;
};

}  // namespace drivetrain
