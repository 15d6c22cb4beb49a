// libcupti, loaded while the program runs: nothing of NVIDIA's is linked or shipped, only its headers are read.
#pragma once

#include <cupti.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace drivetrain {

/// What is called, as the headers declare it.
#define DRIVETRAIN_CUPTI_NEEDED(X)     \
  X(cuptiGetVersion)                   \
  X(cuptiGetResultString)              \
  X(cuptiGetTimestamp)                 \
  X(cuptiGetCallbackName)              \
  X(cuptiSubscribe)                    \
  X(cuptiUnsubscribe)                  \
  X(cuptiActivityRegisterCallbacks)    \
  X(cuptiActivityEnable)               \
  X(cuptiActivityDisable)              \
  X(cuptiActivityGetNextRecord)        \
  X(cuptiActivityGetNumDroppedRecords) \
  X(cuptiActivityFlushAll)

/// What makes a recording better and is not in every version, nor in the headers of every version.
#define DRIVETRAIN_CUPTI_WANTED(X)                                                                 \
  X(cuptiActivityRegisterTimestampCallback, std::uint64_t (*clock)())                              \
  X(cuptiActivityFlushPeriod, std::uint32_t every_ms)                                              \
  X(cuptiSetThreadIdType, CUpti_ActivityThreadIdType type)                                         \
  X(cuptiActivityEnableDriverApi, CUpti_CallbackId cbid, std::uint8_t enable)                      \
  X(cuptiActivityEnableRuntimeApi, CUpti_CallbackId cbid, std::uint8_t enable)                     \
  X(cuptiActivityPushExternalCorrelationId, CUpti_ExternalCorrelationKind kind, std::uint64_t id)  \
  X(cuptiActivityPopExternalCorrelationId, CUpti_ExternalCorrelationKind kind, std::uint64_t* id)

struct Cupti {
#define DRIVETRAIN_DECLARE(name) decltype(&::name) name = nullptr;
#define DRIVETRAIN_DECLARE_AS(name, ...) CUptiResult (*name)(__VA_ARGS__) = nullptr;
  DRIVETRAIN_CUPTI_NEEDED(DRIVETRAIN_DECLARE)
  DRIVETRAIN_CUPTI_WANTED(DRIVETRAIN_DECLARE_AS)
#undef DRIVETRAIN_DECLARE
#undef DRIVETRAIN_DECLARE_AS

  /// False where there is no such library or a function is missing; `why` says which. The library stays loaded.
  bool load(const char* path, char* why, std::size_t size) noexcept {
    // Where the program has one of this name already, it must be that one: two would each hold half the state.
    const char* slash = path;
    for (const char* at = path; *at != '\0'; ++at)
      if (*at == '/') slash = at + 1;
    void* library = ::dlopen(slash, RTLD_NOW | RTLD_NOLOAD);
    // PyTorch loads its own by the name with the version, which is how a toolkit's `libcupti.so` calls itself, too.
    for (const char* name : {"libcupti.so.13", "libcupti.so.12"})
      if (library == nullptr) library = ::dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* said = ::dlerror();
      std::snprintf(why, size, "%s", said != nullptr ? said : path);
      return false;
    }
#define DRIVETRAIN_FIND(function, ...) function = reinterpret_cast<decltype(function)>(::dlsym(library, #function));
    DRIVETRAIN_CUPTI_NEEDED(DRIVETRAIN_FIND)
    DRIVETRAIN_CUPTI_WANTED(DRIVETRAIN_FIND)
#undef DRIVETRAIN_FIND
#define DRIVETRAIN_CHECK(function)                               \
  if (function == nullptr) {                                     \
    std::snprintf(why, size, "%s has no " #function, path);      \
    return false;                                                \
  }
    DRIVETRAIN_CUPTI_NEEDED(DRIVETRAIN_CHECK)
#undef DRIVETRAIN_CHECK
    return true;
  }
};

}  // namespace drivetrain
