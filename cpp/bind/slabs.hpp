// Memory of samples: one block for all arrays of a sample, used again once nobody holds any of them.
//
//   take() -> owner object <- base of each array       the last array dies -> the block waits here
//
// A fresh block of many megabytes costs a page fault every 4 KB, more than the copy into it.
#pragma once

#include <nanobind/nanobind.h>
#include <sys/mman.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

namespace drivetrain::bind {

namespace nb = nanobind;

inline constexpr std::size_t kSlabAlignment = 64;  // what JAX imports by DLPack without a copy
inline std::size_t aligned_nbytes(std::size_t nbytes) {
  return (nbytes + kSlabAlignment - 1) / kSlabAlignment * kSlabAlignment;
}

/// Blocks in use own their pool, so that arrays may outlive the replay. Any thread.
class SlabPool : public std::enable_shared_from_this<SlabPool> {
 public:
  /// At most `most_idle_nbytes` are kept waiting.
  explicit SlabPool(std::size_t most_idle_nbytes) : most_idle_nbytes_(most_idle_nbytes) {
    idle_.reserve(kMostIdle);
  }

  /// A block of `nbytes`, kept until the object returned dies.
  nb::object take(std::size_t nbytes, unsigned char** data) {
    auto slab = std::make_unique<Slab>(Slab{idle(nbytes), nbytes, shared_from_this()});
    if (!slab->memory) slab->memory = allocate(nbytes);
    *data = slab->memory.get();
    nb::capsule owner(slab.get(), [](void* dying) noexcept {
      const std::unique_ptr<Slab> returned(static_cast<Slab*>(dying));
      returned->pool->give_back(std::move(returned->memory), returned->nbytes);
    });
    slab.release();
    return owner;
  }

  /// Frees what has waited since this was called before: sizes that are not asked for any more.
  void free_unused() {
    const std::scoped_lock lock(mutex_);
    idle_nbytes_ = 0;
    std::erase_if(idle_, [](const Idle& idle) { return idle.is_old; });
    for (Idle& idle : idle_) {
      idle.is_old = true;
      idle_nbytes_ += idle.nbytes;
    }
  }

  /// Frees what waits, and from now on whatever comes back.
  void close() {
    const std::scoped_lock lock(mutex_);
    most_idle_nbytes_ = idle_nbytes_ = 0;
    idle_.clear();
  }

  std::size_t idle_nbytes() const {
    const std::scoped_lock lock(mutex_);
    return idle_nbytes_;
  }

 private:
  struct Free {
    void operator()(unsigned char* memory) const noexcept { std::free(memory); }
  };
  using Memory = std::unique_ptr<unsigned char, Free>;
  struct Slab {
    Memory memory;
    std::size_t nbytes;
    std::shared_ptr<SlabPool> pool;
  };
  struct Idle {
    Memory memory;
    std::size_t nbytes;
    bool is_old = false;  // it waits since before the last free_unused()
  };

  static Memory allocate(std::size_t nbytes) {
    const bool huge = nbytes >= kHugeNbytes;
    const std::size_t alignment = huge ? kHugePage : kSlabAlignment;
    const std::size_t whole = (nbytes + alignment - 1) / alignment * alignment;
    Memory memory(static_cast<unsigned char*>(std::aligned_alloc(alignment, whole)));
    if (!memory) throw std::bad_alloc();
    if (huge) (void)::madvise(memory.get(), whole, MADV_HUGEPAGE);  // a kernel without them
    return memory;
  }

  Memory idle(std::size_t nbytes) {
    const std::scoped_lock lock(mutex_);
    for (std::size_t i = idle_.size(); i-- > 0;) {  // the last one is the likeliest to be cached
      if (idle_[i].nbytes != nbytes) continue;
      Memory memory = std::move(idle_[i].memory);
      idle_.erase(idle_.begin() + static_cast<std::ptrdiff_t>(i));
      idle_nbytes_ -= nbytes;
      return memory;
    }
    return nullptr;
  }

  void give_back(Memory memory, std::size_t nbytes) noexcept {
    const std::scoped_lock lock(mutex_);
    if (nbytes > most_idle_nbytes_) return;
    while (idle_nbytes_ + nbytes > most_idle_nbytes_ || idle_.size() == kMostIdle) {
      idle_nbytes_ -= idle_.front().nbytes;  // the oldest: its size may not be asked for any more
      idle_.erase(idle_.begin());
    }
    idle_.push_back({std::move(memory), nbytes});
    idle_nbytes_ += nbytes;
  }

  static constexpr std::size_t kMostIdle = 16;
  // Large blocks in huge pages, as NumPy's own: fewer page faults, fewer misses of the page tables' cache.
  static constexpr std::size_t kHugePage = 2 << 20, kHugeNbytes = 4 << 20;

  mutable std::mutex mutex_;  // guards all below; never held while Python code could run
  std::size_t most_idle_nbytes_;
  std::vector<Idle> idle_;
  std::size_t idle_nbytes_ = 0;
};

}  // namespace drivetrain::bind
