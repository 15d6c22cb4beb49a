// A libcuda for cuda.core: a GPU whose memory is the host's, whose streams do everything at once, and whose kernels are
// functions that were handed over. Built against NVIDIA's header, so every call has the arguments that the driver takes.
//
// It refuses what a driver refuses and a stand-in in Python would not: calls without a context, events that could not be
// made, memory that it did not give, memory that is given back twice.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#define CALL extern "C" __attribute__((visibility("default"))) CUresult
#define NEEDS_CONTEXT \
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT

using Run = CUresult (*)(void** parameters, unsigned num_blocks);
struct Kernel {
  Run run;
  int num_parameters;
};
struct Launch {
  Kernel kernel;
  unsigned num_blocks;
  std::vector<unsigned long long> parameters;
};
static const CUcontext primary = (CUcontext)0xC0;
static thread_local CUcontext current = nullptr;
static std::map<char*, size_t> memory;  // what was given, and not given back
static Kernel next{};
static std::map<void*, Kernel> kernels;
static std::map<void*, std::vector<Launch>> captures, graphs;
static long last_handle = 0x5000;
template <class Handle>
static CUresult give(Handle* handle) {
  *handle = (Handle)(last_handle += 16);
  return CUDA_SUCCESS;
}
static bool is_ours(CUdeviceptr place) {
  auto after = memory.upper_bound((char*)place);
  if (after == memory.begin()) return false;
  --after;
  return (char*)place < after->first + after->second;
}

// ---- for tests -------------------------------------------------------------------------------------------

/// What the next kernel that is loaded does: its number of parameters, the third of them 4 bytes, the others 8.
extern "C" __attribute__((visibility("default"))) void fake_kernel(void* run, int num_parameters) {
  next = {(Run)run, num_parameters};
}
extern "C" __attribute__((visibility("default"))) size_t fake_num_blocks() { return memory.size(); }

// ---- devices and contexts --------------------------------------------------------------------------------

CALL cuInit(unsigned) { return CUDA_SUCCESS; }
CALL cuDriverGetVersion(int* version) { return *version = 13000, CUDA_SUCCESS; }
CALL cuDeviceGetCount(int* count) { return *count = 1, CUDA_SUCCESS; }
CALL cuDeviceGet(CUdevice* device, int number) {
  return *device = number, number == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CALL cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice) {
  *value = which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? 9
           : which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 0
                                                                   : 1;
  return CUDA_SUCCESS;
}
CALL cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) { return *context = primary, CUDA_SUCCESS; }
CALL cuDevicePrimaryCtxRelease_v2(CUdevice) { return CUDA_SUCCESS; }
CALL cuCtxSetCurrent(CUcontext context) { return current = context, CUDA_SUCCESS; }
CALL cuCtxGetCurrent(CUcontext* context) { return *context = current, CUDA_SUCCESS; }
CALL cuCtxGetDevice(CUdevice* device) {
  NEEDS_CONTEXT;
  return *device = 0, CUDA_SUCCESS;
}
CALL cuCtxGetStreamPriorityRange(int* least, int* greatest) { return *least = 0, *greatest = -5, CUDA_SUCCESS; }

// ---- streams, events, graphs -----------------------------------------------------------------------------

CALL cuStreamCreateWithPriority(CUstream* stream, unsigned, int) {
  NEEDS_CONTEXT;
  return give(stream);
}
CALL cuStreamDestroy_v2(CUstream) { return CUDA_SUCCESS; }
CALL cuStreamGetCtx(CUstream, CUcontext* context) {
  NEEDS_CONTEXT;
  return *context = current, CUDA_SUCCESS;
}
CALL cuStreamGetCtx_v2(CUstream stream, CUcontext* context, CUgreenCtx* green) {
  if (green != nullptr) *green = nullptr;
  return cuStreamGetCtx(stream, context);
}
CALL cuStreamGetDevice(CUstream, CUdevice* device) { return *device = 0, CUDA_SUCCESS; }
CALL cuStreamSynchronize(CUstream) { return CUDA_SUCCESS; }
CALL cuStreamWaitEvent(CUstream, CUevent event, unsigned) {
  return event != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CALL cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  *status = captures.count(stream) ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
static CUgraph graph_of(CUstream stream) { return (CUgraph)((long)stream * 16); }
CALL cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* number, CUgraph* graph,
                               const CUgraphNode** nodes, const CUgraphEdgeData** edges, size_t* num_nodes) {
  if (number != nullptr) *number = 1;
  if (graph != nullptr) *graph = graph_of(stream);
  if (nodes != nullptr) *nodes = nullptr;
  if (edges != nullptr) *edges = nullptr;
  if (num_nodes != nullptr) *num_nodes = 0;
  return cuStreamIsCapturing(stream, status);
}
CALL cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode) {
  if ((long)stream < 3) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;  // a default one
  return captures[stream], CUDA_SUCCESS;
}
CALL cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  graphs[*graph = graph_of(stream)] = captures[stream];
  captures.erase(stream);
  return CUDA_SUCCESS;
}
CALL cuGraphClone(CUgraph* to, CUgraph from) { return give(to), graphs[*to] = graphs[from], CUDA_SUCCESS; }
CALL cuGraphInstantiateWithFlags(CUgraphExec* to, CUgraph from, unsigned long long) {
  return give(to), graphs[*to] = graphs[from], CUDA_SUCCESS;
}
CALL cuGraphInstantiateWithParams(CUgraphExec* to, CUgraph from, CUDA_GRAPH_INSTANTIATE_PARAMS* asked) {
  asked->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return cuGraphInstantiateWithFlags(to, from, 0);
}
CALL cuGraphLaunch(CUgraphExec graph, CUstream) {
  for (Launch& launch : graphs[graph]) {
    std::vector<void*> parameters;
    for (auto& parameter : launch.parameters) parameters.push_back(&parameter);
    if (const CUresult result = launch.kernel.run(parameters.data(), launch.num_blocks)) return result;
  }
  return CUDA_SUCCESS;
}
CALL cuGraphDestroy(CUgraph) { return CUDA_SUCCESS; }
CALL cuGraphExecDestroy(CUgraphExec) { return CUDA_SUCCESS; }
CALL cuGraphUpload(CUgraphExec, CUstream) { return CUDA_SUCCESS; }
CALL cuGraphGetNodes(CUgraph, CUgraphNode*, size_t* count) { return *count = 0, CUDA_SUCCESS; }
CALL cuUserObjectCreate(CUuserObject* object, void*, CUhostFn, unsigned, unsigned) { return give(object); }
CALL cuUserObjectRelease(CUuserObject, unsigned) { return CUDA_SUCCESS; }
CALL cuUserObjectRetain(CUuserObject, unsigned) { return CUDA_SUCCESS; }
CALL cuGraphRetainUserObject(CUgraph, CUuserObject, unsigned, unsigned) { return CUDA_SUCCESS; }
CALL cuGraphReleaseUserObject(CUgraph, CUuserObject, unsigned) { return CUDA_SUCCESS; }
CALL cuEventCreate(CUevent* event, unsigned) {
  NEEDS_CONTEXT;
  return give(event);
}
CALL cuEventRecord(CUevent event, CUstream) { return event != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE; }
CALL cuEventQuery(CUevent) { return CUDA_SUCCESS; }
CALL cuEventDestroy_v2(CUevent) { return CUDA_SUCCESS; }

// ---- memory ----------------------------------------------------------------------------------------------

CALL cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice) { return *pool = (CUmemoryPool)0xF0, CUDA_SUCCESS; }
CALL cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice) { return *pool = (CUmemoryPool)0xF0, CUDA_SUCCESS; }
CALL cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation*, CUmemAllocationType) {
  return *pool = (CUmemoryPool)0xF0, CUDA_SUCCESS;
}
CALL cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, void*) { return CUDA_SUCCESS; }
CALL cuMemPoolGetAttribute(CUmemoryPool, CUmemPool_attribute, void* value) {
  return *(cuuint64_t*)value = 0, CUDA_SUCCESS;
}
CALL cuMemAllocFromPoolAsync(CUdeviceptr* place, size_t nbytes, CUmemoryPool, CUstream) {
  NEEDS_CONTEXT;
  char* const given = (char*)std::aligned_alloc(256, (nbytes + 255) / 256 * 256);
  memory[given] = nbytes;
  return *place = (CUdeviceptr)given, CUDA_SUCCESS;
}
CALL cuMemFreeAsync(CUdeviceptr place, CUstream) {
  if (memory.erase((char*)place) == 0) return CUDA_ERROR_INVALID_VALUE;
  return std::free((void*)place), CUDA_SUCCESS;
}
CALL cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t nbytes, CUstream) {
  NEEDS_CONTEXT;
  if (!is_ours(to)) return CUDA_ERROR_INVALID_VALUE;
  return std::memcpy((void*)to, from, nbytes), CUDA_SUCCESS;
}
CALL cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t nbytes, CUstream) {
  NEEDS_CONTEXT;
  if (!is_ours(from)) return CUDA_ERROR_INVALID_VALUE;
  return std::memcpy(to, (void*)from, nbytes), CUDA_SUCCESS;
}
CALL cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t nbytes, CUstream stream) {
  return is_ours(from) ? cuMemcpyHtoDAsync_v2(to, (void*)from, nbytes, stream) : CUDA_ERROR_INVALID_VALUE;
}
CALL cuPointerGetAttribute(void* value, CUpointer_attribute which, CUdeviceptr place) {
  const bool ours = is_ours(place);
  switch (which) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: *(unsigned*)value = ours ? CU_MEMORYTYPE_DEVICE : 0; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int*)value = ours ? 0 : -2; break;
    default: *(unsigned*)value = 0;
  }
  return ours ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CALL cuPointerGetAttributes(unsigned count, CUpointer_attribute* which, void** values, CUdeviceptr place) {
  for (unsigned k = 0; k < count; ++k) cuPointerGetAttribute(values[k], which[k], place);
  return CUDA_SUCCESS;
}

// ---- kernels ---------------------------------------------------------------------------------------------

CALL cuLibraryLoadData(CUlibrary* library, const void*, CUjit_option*, void**, unsigned, CUlibraryOption*, void**,
                       unsigned) {
  return give(library);
}
CALL cuLibraryUnload(CUlibrary) { return CUDA_SUCCESS; }
CALL cuLibraryGetKernel(CUkernel* kernel, CUlibrary, const char*) { return give(kernel), kernels[*kernel] = next, CUDA_SUCCESS; }
CALL cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
  NEEDS_CONTEXT;
  const Kernel kernel = kernels[function];
  if (kernel.run == nullptr || extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (captures.count(config->hStream) == 0) return kernel.run(parameters, config->gridDimX);
  Launch launch{kernel, config->gridDimX, {}};
  for (int k = 0; k < kernel.num_parameters; ++k) {
    launch.parameters.push_back(0);
    std::memcpy(&launch.parameters.back(), parameters[k], k == 2 ? 4 : 8);
  }
  return captures[config->hStream].push_back(launch), CUDA_SUCCESS;
}
CALL cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                    unsigned block_y, unsigned block_z, unsigned nbytes, CUstream stream, void** parameters, void** extra) {
  const CUlaunchConfig config{grid_x, grid_y, grid_z, block_x, block_y, block_z, nbytes, stream, nullptr, 0};
  return cuLaunchKernelEx(&config, function, parameters, extra);
}

// ---- how cuda.bindings finds all that --------------------------------------------------------------------

CALL cuGetErrorName(CUresult error, const char** name) {
  static char text[32];
  std::snprintf(text, sizeof text, "CUDA_ERROR %d", (int)error);
  return *name = text, CUDA_SUCCESS;
}
CALL cuGetErrorString(CUresult error, const char** text) { return cuGetErrorName(error, text); }
CALL cuGetExportTable(const void** table, const CUuuid*) { return *table = nullptr, CUDA_ERROR_NOT_FOUND; }  // for NVRTC
CALL cuGetProcAddress_v2(const char* name, void** function, int, cuuint64_t, CUdriverProcAddressQueryResult* status) {
  static void* const self = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  *function = nullptr;
  for (const char* version : {"_v3", "_v2", ""})
    if (*function == nullptr) *function = ::dlsym(self, (std::string(name) + version).c_str());
  if (status != nullptr)
    *status = *function != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
