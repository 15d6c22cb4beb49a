// The fields of CUPTI's records that are read here lie where they always lay.
//
// CUPTI hands out records of its newest version, which may be newer than the headers that this is compiled against.
// NVIDIA appends fields, and keeps old versions in its headers. So records are read through the first version that has
// what we read, and every later version that the headers know is held against it.
#pragma once

#include <cupti.h>

#include <cstddef>

namespace drivetrain::views {

using Kernel = CUpti_ActivityKernel5;  // CUDA 11.1: the first one with graphId
using Copy = CUpti_ActivityMemcpy4;
using PeerCopy = CUpti_ActivityMemcpyPtoP3;
using Set = CUpti_ActivityMemset3;
using Graph = CUpti_ActivityGraphTrace;
using Sync = CUpti_ActivitySynchronization;
using Overhead = CUpti_ActivityOverhead;
using Call = CUpti_ActivityAPI;
using External = CUpti_ActivityExternalCorrelation;

#define DRIVETRAIN_SAME(first, later, field)                                                          \
  static_assert(offsetof(first, field) == offsetof(later, field) &&                                   \
                    sizeof(static_cast<first*>(nullptr)->field) == sizeof(static_cast<later*>(nullptr)->field), \
                #later " has another place for " #field)
#define DRIVETRAIN_SAME_ACTIVITY(first, later)    \
  DRIVETRAIN_SAME(first, later, kind);            \
  DRIVETRAIN_SAME(first, later, start);           \
  DRIVETRAIN_SAME(first, later, end);             \
  DRIVETRAIN_SAME(first, later, deviceId);        \
  DRIVETRAIN_SAME(first, later, contextId);       \
  DRIVETRAIN_SAME(first, later, streamId);        \
  DRIVETRAIN_SAME(first, later, correlationId);   \
  DRIVETRAIN_SAME(first, later, graphId)
#define DRIVETRAIN_SAME_KERNEL(later)         \
  DRIVETRAIN_SAME_ACTIVITY(Kernel, later);    \
  DRIVETRAIN_SAME(Kernel, later, name)
#define DRIVETRAIN_SAME_COPY(first, later)    \
  DRIVETRAIN_SAME_ACTIVITY(first, later);     \
  DRIVETRAIN_SAME(first, later, copyKind);    \
  DRIVETRAIN_SAME(first, later, bytes)
#define DRIVETRAIN_SAME_OVERHEAD(later)            \
  DRIVETRAIN_SAME(Overhead, later, overheadKind);  \
  DRIVETRAIN_SAME(Overhead, later, objectKind);    \
  DRIVETRAIN_SAME(Overhead, later, objectId);      \
  DRIVETRAIN_SAME(Overhead, later, start);         \
  DRIVETRAIN_SAME(Overhead, later, end)

DRIVETRAIN_SAME_KERNEL(CUpti_ActivityKernel6);
DRIVETRAIN_SAME_KERNEL(CUpti_ActivityKernel7);
DRIVETRAIN_SAME_KERNEL(CUpti_ActivityKernel8);
DRIVETRAIN_SAME_KERNEL(CUpti_ActivityKernel9);
DRIVETRAIN_SAME_COPY(Copy, CUpti_ActivityMemcpy5);
DRIVETRAIN_SAME_COPY(PeerCopy, CUpti_ActivityMemcpyPtoP4);
DRIVETRAIN_SAME_ACTIVITY(Set, CUpti_ActivityMemset4);
DRIVETRAIN_SAME(Set, CUpti_ActivityMemset4, bytes);
#if CUPTI_API_VERSION >= 130500
DRIVETRAIN_SAME_KERNEL(CUpti_ActivityKernel10);
DRIVETRAIN_SAME_KERNEL(CUpti_ActivityKernel11);
DRIVETRAIN_SAME_KERNEL(CUpti_ActivityKernel12);
DRIVETRAIN_SAME_KERNEL(CUpti_ActivityKernel13);
DRIVETRAIN_SAME_COPY(Copy, CUpti_ActivityMemcpy6);
DRIVETRAIN_SAME_COPY(Copy, CUpti_ActivityMemcpy7);
DRIVETRAIN_SAME_ACTIVITY(Set, CUpti_ActivityMemset5);
DRIVETRAIN_SAME(Set, CUpti_ActivityMemset5, bytes);
DRIVETRAIN_SAME_ACTIVITY(Graph, CUpti_ActivityGraphTrace2);
DRIVETRAIN_SAME(Sync, CUpti_ActivitySynchronization2, type);
DRIVETRAIN_SAME(Sync, CUpti_ActivitySynchronization2, start);
DRIVETRAIN_SAME(Sync, CUpti_ActivitySynchronization2, end);
DRIVETRAIN_SAME(Sync, CUpti_ActivitySynchronization2, correlationId);
DRIVETRAIN_SAME(Sync, CUpti_ActivitySynchronization2, contextId);
DRIVETRAIN_SAME(Sync, CUpti_ActivitySynchronization2, streamId);
DRIVETRAIN_SAME_OVERHEAD(CUpti_ActivityOverhead2);
DRIVETRAIN_SAME_OVERHEAD(CUpti_ActivityOverhead3);
#endif

// The same on every machine that this builds on.
static_assert(offsetof(Kernel, start) == 16 && offsetof(Kernel, correlationId) == 92 && offsetof(Kernel, name) == 104);
static_assert(offsetof(Copy, bytes) == 8 && offsetof(Copy, start) == 16 && offsetof(Copy, correlationId) == 44);
static_assert(offsetof(Set, bytes) == 8 && offsetof(Set, start) == 16 && offsetof(Set, correlationId) == 44);
static_assert(offsetof(Call, cbid) == 4 && offsetof(Call, start) == 8 && offsetof(Call, threadId) == 28 &&
              offsetof(Call, correlationId) == 32);
static_assert(offsetof(External, externalId) == 8 && offsetof(External, correlationId) == 16);

#undef DRIVETRAIN_SAME
#undef DRIVETRAIN_SAME_ACTIVITY
#undef DRIVETRAIN_SAME_KERNEL
#undef DRIVETRAIN_SAME_COPY
#undef DRIVETRAIN_SAME_OVERHEAD

}  // namespace drivetrain::views
