// What a recording looks like on disk: one shared file per session, and segments of events per thread.
//
//   shared  │ SharedState │                         bytes taken by all processes, events dropped
//   segment │ SegmentHeader │ Event │ Event │ ... │ zeros
//
// Segments are written through a shared mapping, so that what was stored survives the death of its process.
// An event is there once its time is not 0: the time is stored last. Nothing else marks the end.
#pragma once

#include <atomic>
#include <cstdint>

namespace drivetrain {

inline constexpr std::uint64_t kSegmentMagic = 0x31676573'63737464ull;  // "dtscseg1", little-endian
inline constexpr std::uint64_t kSharedMagic = 0x31726873'63737464ull;   // "dtscshr1"
inline constexpr std::uint32_t kEventLogVersion = 2;

enum class EventKind : std::uint16_t {
  kNone = 0,
  kBegin = 1,   // `site` was entered
  kEnd = 2,     // `site` was left
  kStep = 3,    // a step is over; value: StepKind
  kLane = 4,    // from here on the thread works on stack `site` (asyncio: one stack per context; 0 is the thread's)
  kThreadEnd = 5,
  kBlock = 6,  // a block begins (event_log_blocks.hpp); site: mask of the instruments that are muted; value: BlockFlag
  kCount = 7,  // of the block that ends here; site: the count; value: Counter
};

/// What records a span: each has a cost of its own. In the value of kBegin and kEnd.
enum class Instrument : std::uint16_t {
  kCall = 0,        // a wrapped callable
  kAnnotation = 1,  // a context manager
};
inline constexpr std::uint16_t kResumed = 1 << 8;  // in the value of kBegin: entered before, and recorded from here on

enum BlockFlag : std::uint16_t {
  kRoundBegins = 1,  // the first block of a round
  kBlocksEnd = 2,    // no block: the one before was not finished, and everything records again
};

enum class Counter : std::uint16_t {
  kCpuNs = 0,      // CPU time of the thread, low 32 bits ...
  kCpuNsHigh = 1,  // ... and high ones
  kSpans = 2,      // + Instrument: spans entered, recorded or not
  kSteps = 8,      // + StepKind: steps that were over, recorded or not
};

enum class StepKind : std::uint16_t {
  kMarked = 0,     // mark_step()
  kSimulated = 1,  // the outermost simulator call returned
  kUpdated = 2,    // the outermost optimiser call returned
};

struct Event {
  std::uint64_t time_ns;  // CLOCK_MONOTONIC, which all processes of a machine share; 0 until all is written
  std::uint32_t site;
  EventKind kind;
  std::uint16_t value;
};
static_assert(sizeof(Event) == 16 && alignof(Event) == 8);

struct SegmentHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t header_nbytes;
  std::uint64_t process_start;  // clock ticks since boot: with the pid, names a process for good
  std::uint32_t pid;
  std::uint32_t tid;
  std::uint32_t sequence;       // of the segment in its thread: 0, 1, ...
  std::uint32_t thread;         // of the thread in its process, by first event: 0, 1, ...
  std::uint64_t nbytes;         // of the file, header included, while it is being written
  char thread_name[16];         // as the system knows it
  std::uint64_t num_dropped;    // events of this thread that found no room; written by the thread alone
  std::uint64_t dropped_from_ns;
};
static_assert(sizeof(SegmentHeader) == 80);

struct SharedState {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t unused;
  std::uint64_t limit_nbytes;
  std::atomic<std::uint64_t> taken_nbytes;  // relaxed: a budget, orders nothing
  std::atomic<std::uint64_t> num_dropped;   // relaxed: a count
};
static_assert(sizeof(SharedState) == 40 && std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace drivetrain
