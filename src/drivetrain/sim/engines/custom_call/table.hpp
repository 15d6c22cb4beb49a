// The kernels of this process by the hash of what they were made from: what a program of XLA names them by. A hash stays
// right in a compiled program that was kept on disk, where an address would be another process's.
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

struct Table {
  std::shared_mutex mutex;  // writers: `enter`, from Python; readers: every call, from XLA's threads
  std::unordered_map<std::string, void*> kernels;
};
inline Table& table() {
  static Table* const only = new Table;  // never freed: XLA's threads may outlive static objects
  return *only;
}
extern "C" void drivetrain_enter(const char* name, void* kernel) {
  Table& entered = table();
  const std::unique_lock lock(entered.mutex);
  entered.kernels[name] = kernel;
}
inline void* kernel_of(std::string_view name) {
  Table& entered = table();
  const std::shared_lock lock(entered.mutex);
  const auto found = entered.kernels.find(std::string(name));
  return found == entered.kernels.end() ? nullptr : found->second;
}
inline ffi::Error not_loaded(std::string_view name) {
  return ffi::Error(ffi::ErrorCode::kFailedPrecondition,
                    "this program calls drivetrain's kernel " + std::string(name.substr(0, 12)) +
                        ", which this process has not loaded: call sim.compile with the arguments, the package and the "
                        "machine that it was traced with, and trace the rollout once, as by jax.eval_shape(rollout, state, "
                        "actions), before the program runs");
}
// Addresses of a call's arrays in the order of a kernel: inputs, then outputs.
inline std::vector<void*> addresses(const ffi::RemainingArgs& inputs, const ffi::RemainingRets& outputs) {
  std::vector<void*> found;
  found.reserve(inputs.size() + outputs.size());
  for (size_t k = 0; k < inputs.size(); ++k) found.push_back(inputs.get<ffi::AnyBuffer>(k)->untyped_data());
  for (size_t k = 0; k < outputs.size(); ++k) found.push_back((*outputs.get<ffi::AnyBuffer>(k))->untyped_data());
  return found;
}
