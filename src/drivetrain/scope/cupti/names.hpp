// Names of kernels, of calls and of everything else that is recorded, each written once.
#pragma once

#include <cxxabi.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

#include "gpu_record.hpp"
#include "library.hpp"

namespace drivetrain {

/// Not thread-safe.
class Names {
 public:
  Names(const GpuSink& sink, const Cupti& cupti) : sink_(sink), cupti_(cupti) {}

  std::uint32_t number(const char* name) {
    const auto [at, is_new] = numbers_.try_emplace(name, 0);
    if (is_new) at->second = sink_.name(name);
    return at->second;
  }

  /// Names of kernels come as the linker has them. They are kept by what they say and not by their address, at which
  /// another module may have another name later.
  std::uint32_t kernel(const char* mangled) {
    if (mangled == nullptr) return 0;
    const auto [at, is_new] = kernels_.try_emplace(mangled, 0);
    if (is_new) {
      int status = 0;
      // Without the prefix it is no mangled name, and may be read as a type: `f` as float.
      const bool is_mangled = std::strncmp(mangled, "_Z", 2) == 0;
      char* readable = is_mangled ? abi::__cxa_demangle(mangled, nullptr, nullptr, &status) : nullptr;
      at->second = number(readable != nullptr ? readable : mangled);
      std::free(readable);
    }
    return at->second;
  }

  /// "cudaLaunchKernel" for what CUPTI calls cudaLaunchKernel_v7000.
  std::uint32_t call(CUpti_CallbackDomain domain, std::uint32_t cbid) {
    auto& known = calls_[domain == CUPTI_CB_DOMAIN_RUNTIME_API];
    if (cbid >= kMostCalls) return 0;
    if (cbid >= known.size()) known.resize(cbid + 1, kUnasked);
    if (known[cbid] == kUnasked) {
      const char* name = nullptr;
      const bool found = cupti_.cuptiGetCallbackName(domain, cbid, &name) == CUPTI_SUCCESS && name != nullptr;
      known[cbid] = found ? number(without_version(name, domain).c_str()) : 0;
    }
    return known[cbid];
  }

  static std::string without_version(const char* name, CUpti_CallbackDomain domain) {
    std::string text = name;
    const std::size_t at = text.rfind("_v");
    const bool is_version = at != std::string::npos && at + 2 < text.size() &&
                            text.find_first_not_of("0123456789", at + 2) == std::string::npos;
    // Of the driver's functions, cuMemAlloc and cuMemAlloc_v2 are two.
    if (domain == CUPTI_CB_DOMAIN_RUNTIME_API && is_version) text.resize(at);
    return text;
  }

 private:
  static constexpr std::uint32_t kUnasked = ~std::uint32_t{0};
  static constexpr std::uint32_t kMostCalls = 1 << 16;

  const GpuSink& sink_;
  const Cupti& cupti_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::unordered_map<std::string, std::uint32_t> kernels_;
  std::vector<std::uint32_t> calls_[2];
};

}  // namespace drivetrain
