// What XLA hands to a custom call: the part of its C interface that a handler on the CPU needs.
//
// XLA promises this layout across versions of its FFI (xla/ffi/api/c_api.h, "stable binary API"); a test holds it
// against the header of the jaxlib at hand (tests/train/test_xla_call.py). Declared here so that the
// package is built without jaxlib.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace drivetrain::xla {

struct Extension {
  std::size_t struct_size;
  int type;
  Extension* next;
};
inline constexpr int kMetadataExtension = 1;

struct ApiVersion {
  std::size_t struct_size;
  Extension* extension_start;
  int major_version, minor_version;
};

struct Metadata {
  std::size_t struct_size;
  ApiVersion api_version;
  std::uint32_t traits;
  std::int64_t state_type;  // 0: a handler keeps no state
};

struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

struct Buffer {
  std::size_t struct_size;
  Extension* extension_start;
  int dtype;
  void* data;
  std::int64_t rank;
  std::int64_t* dims;
};
inline constexpr int kUint8 = 6, kFloat32 = 11;

/// Arguments, or results: `types[i]` is 1 where buffers[i] is a Buffer.
struct Buffers {
  std::size_t struct_size;
  Extension* extension_start;
  std::int64_t size;
  int* types;
  Buffer** buffers;
};

struct Name {
  const char* text;
  std::size_t length;
};

struct Scalar {
  int dtype;
  void* value;
};
inline constexpr int kInt64 = 5;

/// What a call says beside its arguments: `values[i]` is a Scalar where types[i] is kScalar.
struct Attributes {
  std::size_t struct_size;
  Extension* extension_start;
  std::int64_t size;
  int* types;
  Name** names;
  void** values;
};
inline constexpr int kScalar = 3;

struct Error;  // XLA's own; null is success

struct ErrorArgs {
  std::size_t struct_size;
  Extension* extension_start;
  const char* message;
  int code;
};
inline constexpr int kInvalidArgument = 3;

/// The beginning of XLA's table of functions.
struct Api {
  std::size_t struct_size;
  Extension* extension_start;
  ApiVersion api_version;
  void* internal_api;
  Error* (*error_create)(ErrorArgs* args);
};

struct CallFrame {
  std::size_t struct_size;
  Extension* extension_start;
  const Api* api;
  void* context;
  int stage;
  Buffers args;
  Buffers rets;
  Attributes attributes;
};

/// An integer that a call says beside its arguments; 0 where it does not.
inline std::int64_t integer(const CallFrame* frame, const char* name) noexcept {
  const Attributes& all = frame->attributes;
  for (std::int64_t i = 0; i < all.size; ++i) {
    const Name& one = *all.names[i];
    if (all.types[i] != kScalar || one.length != std::strlen(name) || std::memcmp(one.text, name, one.length) != 0)
      continue;
    const auto* scalar = static_cast<const Scalar*>(all.values[i]);
    return scalar->dtype == kInt64 ? *static_cast<const std::int64_t*>(scalar->value) : 0;
  }
  return 0;
}

/// Whether XLA asks what a handler is rather than to run it; then it is told.
inline bool answers_metadata(CallFrame* frame) noexcept {
  if (frame->extension_start == nullptr || frame->extension_start->type != kMetadataExtension) return false;
  Metadata* metadata = reinterpret_cast<MetadataExtension*>(frame->extension_start)->metadata;
  // Minor versions change nothing of what is used here; of another major version XLA says that it is none of its own.
  metadata->api_version.major_version = 0;
  metadata->api_version.minor_version = frame->api->api_version.minor_version;
  metadata->traits = 0;
  metadata->state_type = 0;
  return true;
}

inline Error* error(const CallFrame* frame, int code, const char* message) noexcept {
  ErrorArgs args{sizeof(ErrorArgs), nullptr, message, code};
  return frame->api->error_create(&args);
}

}  // namespace drivetrain::xla
