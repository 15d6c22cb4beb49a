// Runs a CUDA kernel's source as plain C++, without a GPU: one block after another, the threads of a warp in turns.
//
// Each thread of a warp has a stack of its own and runs until __syncwarp(), then the next one runs; once all 32 have
// arrived, they go on. That some arrive while others are finished already would hang a GPU, and is an error here.
#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#define __global__
#define __device__
#define __shared__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(threads)

struct Place {
  unsigned x;
};
static Place threadIdx, blockIdx, gridDim;

namespace shim {
constexpr int WARP = 32, STACK_NBYTES = 1 << 19;
static ucontext_t turns, threads[WARP];
alignas(64) static char stacks[WARP][STACK_NBYTES];
static bool finished[WARP];
static long arrivals[WARP];
static int here;
static void (*body)(void*);
static void* arguments;

static void thread() {
  body(arguments);
  finished[here] = true;
}
static bool run_warp(unsigned first) {  // whether its threads met at every barrier
  for (int l = 0; l < WARP; ++l) {
    getcontext(&threads[l]);
    threads[l].uc_stack.ss_sp = stacks[l];
    threads[l].uc_stack.ss_size = STACK_NBYTES;
    threads[l].uc_link = &turns;
    makecontext(&threads[l], thread, 0);
    finished[l] = false, arrivals[l] = 0;
  }
  do {
    for (here = 0; here < WARP; ++here) {
      threadIdx.x = first + here;
      swapcontext(&turns, &threads[here]);
    }
    for (int l = 1; l < WARP; ++l)
      if (finished[l] != finished[0] || arrivals[l] != arrivals[0]) return false;
  } while (!finished[0]);
  return true;
}
static bool launch(int64_t num_blocks, int num_threads, void (*kernel)(void*), void* given) {
  body = kernel, arguments = given, gridDim.x = (unsigned)num_blocks;
  for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x)
    for (int first = 0; first < num_threads; first += WARP)
      if (!run_warp((unsigned)first)) return false;
  return true;
}
}  // namespace shim

static __attribute__((noinline)) void __syncwarp() {
  ++shim::arrivals[shim::here];
  swapcontext(&shim::threads[shim::here], &shim::turns);
}
