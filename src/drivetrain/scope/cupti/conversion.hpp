// CUPTI's activity records, each as one of ours.
#pragma once

#include <utility>

#include "gpu_record.hpp"
#include "layouts.hpp"
#include "names.hpp"

namespace drivetrain {

inline const char* name_of_copy(std::uint8_t kind) noexcept {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD: return "copy, host to device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH: return "copy, device to host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOA: return "copy, host to array";
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOH: return "copy, array to host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOA: return "copy, array to array";
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOD: return "copy, array to device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOA: return "copy, device to array";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD: return "copy, device to device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOH: return "copy, host to host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP: return "copy, between devices";
    default: return "copy";
  }
}

inline const char* name_of_sync(CUpti_ActivitySynchronizationType type) noexcept {
  switch (type) {
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE: return "wait for an event";
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT: return "stream waits for an event";
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE: return "wait for a stream";
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE: return "wait for a context";
    default: return "synchronization";
  }
}

/// By the number in the high half, which is the same in all versions; the lower half has the driver's compiler.
inline const char* name_of_overhead(std::uint32_t kind) noexcept {
  switch (kind) {
    case 1: return "driver compiler";
    case 1 << 16: return "CUPTI buffer flush";
    case 2 << 16: return "CUPTI instrumentation";
    case 3 << 16: return "CUPTI resource";
    case 4 << 16: return "module loading";
    case 5 << 16: return "function loading";
    case 6 << 16: return "command buffer full";
    case 7 << 16: return "CUPTI buffer request";
    case 8 << 16: return "CUPTI unified memory";
    default: return "overhead";
  }
}

/// Reads records; not thread-safe, as names are not.
class Conversion {
 public:
  /// Times of CUPTI plus `offset_ns` are CLOCK_MONOTONIC.
  Conversion(Names& names, std::int64_t offset_ns) : names_(names), offset_ns_(offset_ns) {}

  /// False for a record that is cut off before `end`, is of a kind that was not asked for, or has no times. A kernel
  /// has none where the device lacked memory for them; such are counted.
  bool convert(const CUpti_Activity* record, const std::uint8_t* end, GpuRecord& out) {
    const auto room = static_cast<std::size_t>(end - reinterpret_cast<const std::uint8_t*>(record));
    out = GpuRecord{};
    switch (record->kind) {
      case CUPTI_ACTIVITY_KIND_KERNEL:
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        return viewed<views::Kernel>(record, room, [&](const auto& from) {
          out.name = names_.kernel(from.name);
          return activity(GpuKind::kKernel, from, out);
        });
      case CUPTI_ACTIVITY_KIND_MEMCPY:
        return viewed<views::Copy>(record, room, [&](const auto& from) { return copy(from, out); });
      case CUPTI_ACTIVITY_KIND_MEMCPY2:
        return viewed<views::PeerCopy>(record, room, [&](const auto& from) { return copy(from, out); });
      case CUPTI_ACTIVITY_KIND_MEMSET:
        return viewed<views::Set>(record, room, [&](const auto& from) {
          out.value = static_cast<std::int64_t>(from.bytes);
          out.name = names_.number("memory set");
          return activity(GpuKind::kSet, from, out);
        });
      case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
        return viewed<views::Graph>(record, room, [&](const auto& from) {
          out.name = names_.number("CUDA graph");
          return activity(GpuKind::kGraph, from, out);
        });
      case CUPTI_ACTIVITY_KIND_RUNTIME:
        return viewed<views::Call>(record, room, [&](const auto& from) {
          return call(GpuKind::kRuntime, CUPTI_CB_DOMAIN_RUNTIME_API, from, out);
        });
      case CUPTI_ACTIVITY_KIND_DRIVER:
        return viewed<views::Call>(record, room, [&](const auto& from) {
          return call(GpuKind::kDriver, CUPTI_CB_DOMAIN_DRIVER_API, from, out);
        });
      case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
        return viewed<views::Sync>(record, room, [&](const auto& from) { return sync(from, out); });
      case CUPTI_ACTIVITY_KIND_OVERHEAD:
        return viewed<views::Overhead>(record, room, [&](const auto& from) { return overhead(from, out); });
      case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
        return viewed<views::External>(record, room, [&](const auto& from) {
          out.kind = GpuKind::kExternal;
          out.correlation = from.correlationId;
          out.value = static_cast<std::int64_t>(from.externalId);
          out.begin_ns = out.end_ns = 1;  // it has no time, and 0 is what is not there
          return from.externalKind == CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2;
        });
      default:
        return false;
    }
  }

  /// Activities without times since it was last asked.
  std::int64_t take_untimed() noexcept { return std::exchange(num_untimed_, 0); }

 private:
  template <typename View, typename Read>
  static bool viewed(const CUpti_Activity* record, std::size_t room, const Read& read) {
    return room >= sizeof(View) && read(*reinterpret_cast<const View*>(record));
  }

  bool timed(std::uint64_t start, std::uint64_t end, GpuRecord& out) noexcept {
    out.begin_ns = start + static_cast<std::uint64_t>(offset_ns_);
    out.end_ns = end + static_cast<std::uint64_t>(offset_ns_);
    return start != 0 && end >= start;
  }

  template <typename Activity>
  bool activity(GpuKind kind, const Activity& from, GpuRecord& out) noexcept {
    out.kind = kind;
    out.correlation = from.correlationId;
    out.device = static_cast<std::int16_t>(from.deviceId);
    out.context = static_cast<std::int32_t>(from.contextId);
    out.stream = static_cast<std::int32_t>(from.streamId);
    out.graph = from.graphId;
    const bool has_times = timed(from.start, from.end, out);
    num_untimed_ += !has_times;
    return has_times;
  }

  template <typename Activity>
  bool copy(const Activity& from, GpuRecord& out) {
    out.value = static_cast<std::int64_t>(from.bytes);
    out.detail = from.copyKind;
    out.name = names_.number(name_of_copy(from.copyKind));
    return activity(GpuKind::kCopy, from, out);
  }

  bool call(GpuKind kind, CUpti_CallbackDomain domain, const views::Call& from, GpuRecord& out) {
    out.kind = kind;
    out.correlation = from.correlationId;
    out.value = from.threadId;
    out.name = names_.call(domain, from.cbid);
    return timed(from.start, from.end, out);
  }

  bool sync(const views::Sync& from, GpuRecord& out) {
    out.kind = GpuKind::kSync;
    out.correlation = from.correlationId;
    out.context = static_cast<std::int32_t>(from.contextId);
    out.stream = static_cast<std::int32_t>(from.streamId);
    out.detail = static_cast<std::uint8_t>(from.type);
    out.name = names_.number(name_of_sync(from.type));
    return timed(from.start, from.end, out);
  }

  bool overhead(const views::Overhead& from, GpuRecord& out) {
    out.kind = GpuKind::kOverhead;
    if (from.objectKind == CUPTI_ACTIVITY_OBJECT_THREAD) out.value = from.objectId.pt.threadId;
    const auto kind = static_cast<std::uint32_t>(from.overheadKind);
    out.detail = static_cast<std::uint8_t>(kind >> 16);
    out.name = names_.number(name_of_overhead(kind));
    return timed(from.start, from.end, out);
  }

  Names& names_;
  std::int64_t offset_ns_;
  std::int64_t num_untimed_ = 0;
};

}  // namespace drivetrain
