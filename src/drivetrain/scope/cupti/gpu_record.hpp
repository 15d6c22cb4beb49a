// What the CUPTI layer hands to the recorder: records of a size and form of ours, and the functions that take them.
//
// The two are compiled apart, the recorder with the package and the layer where it is used, so `version` guards this
// file: whoever changes it changes that number.
#pragma once

#include <cstddef>
#include <cstdint>

namespace drivetrain {

inline constexpr std::uint32_t kGpuRecordVersion = 2;

enum class GpuKind : std::uint8_t {
  kNone = 0,
  // On devices.
  kKernel = 1,
  kCopy = 2,
  kSet = 3,
  kGraph = 4,
  // In threads.
  kRuntime = 17,
  kDriver = 18,
  kSync = 19,
  kOverhead = 20,
  // About other records.
  kExternal = 33,  // `value` is the external id of the call that `correlation` names
  kDropped = 34,   // `value` records found no room in CUPTI's buffers since the last of these
  kUntimed = 35,   // `value` activities were without a begin or an end
};

// In `detail` of kOverhead, beyond CUPTI's own kinds: between the two nothing was recorded but calls that wait.
inline constexpr std::uint8_t kSwitchedOff = 32;
inline constexpr std::uint8_t kSwitchedOn = 33;

struct GpuRecord {
  std::uint64_t begin_ns;  // CLOCK_MONOTONIC; stored last, so that a record is there once it is not 0
  std::uint64_t end_ns;
  std::int64_t value;      // bytes of copies and sets; the thread of calls, as the system numbers it; see GpuKind
  std::uint32_t correlation;
  std::uint32_t name;      // position in the process's table of names, counted from 1; 0: unknown
  std::int32_t context;
  std::int32_t stream;
  std::uint32_t graph;     // 0: of none
  std::int16_t device;
  GpuKind kind;
  std::uint8_t detail;     // kind of copy, of synchronisation, of overhead
};
static_assert(sizeof(GpuRecord) == 48 && alignof(GpuRecord) == 8 && offsetof(GpuRecord, detail) == 47);

/// Functions of the recorder, for any thread.
struct GpuSink {
  std::uint32_t version;
  std::uint32_t record_nbytes;
  void (*put)(const GpuRecord* records, std::size_t num_records);
  std::uint32_t (*name)(const char* text);                 // the number of one more name; 0 where there is no room
  void (*note)(const char* cause, const char* sentence);   // once per cause and session; `cause` is part of a file name
  // Recording begins. `stop` is called once, while what is put is still taken; `inside` whenever a thread enters or
  // leaves a site, with 1 + the number of the one that it is in, or 0. `change` switches the recording off and on, from
  // any thread; null where this CUPTI cannot.
  void (*started)(void (*stop)(), void (*inside)(std::uint32_t id), void (*change)(bool is_on));
};

}  // namespace drivetrain
