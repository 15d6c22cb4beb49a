// An NVML without a GPU: two devices, of which the second is idle.
#include <atomic>
#include <cstdlib>
#include <cstring>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {
bool fails(const char* function) {
  const char* failing = std::getenv("FAKE_NVML_FAILURE");
  return failing != nullptr && std::strcmp(failing, function) == 0;
}
char devices[2];
}  // namespace

EXPORTED int nvmlInit_v2() { return fails("nvmlInit_v2") ? 9 : 0; }
EXPORTED int nvmlShutdown() { return 0; }
EXPORTED const char* nvmlErrorString(int) { return "Driver Not Loaded"; }
EXPORTED int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}
EXPORTED int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &devices[index];
  return index < 2 ? 0 : 2;
}
EXPORTED int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  *device = &devices[1];
  return std::strcmp(uuid, "GPU-second") == 0 ? 0 : 6;
}
EXPORTED int nvmlDeviceGetUtilizationRates(void* device, unsigned* rates) {
  rates[0] = device == &devices[0] ? 90 : 0;
  rates[1] = 1;
  return fails("nvmlDeviceGetUtilizationRates") ? 3 : 0;
}
EXPORTED int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* memory) {
  memory[0] = 1000;
  memory[1] = 400;
  memory[2] = device == &devices[0] ? 600 : 5;
  return 0;
}
EXPORTED int nvmlDeviceGetName(void* device, char* name, unsigned nbytes) {
  std::strncpy(name, device == &devices[0] ? "Fake A" : "Fake B", nbytes);
  return fails("nvmlDeviceGetName") ? 3 : 0;
}
