// Named points at which a test build may die while it holds a lock.
//
// Every write to shared state that is made under the table's lock goes through
// DRIVETRAIN_LOCKED_WRITE, so that "a process is killed between every two writes" can be tested
// exhaustively (cpp/tests/test_crash_points.cpp). In other builds it is the bare statement.
#pragma once

#ifdef DRIVETRAIN_CRASH_POINTS
namespace drivetrain {
using CrashPointHook = void (*)(const char* name);
inline CrashPointHook crash_point_hook = nullptr;  // set once, before any thread starts
}  // namespace drivetrain
#define DRIVETRAIN_CRASH_POINT(name)                                            \
  do {                                                                          \
    if (::drivetrain::crash_point_hook) ::drivetrain::crash_point_hook((name)); \
  } while (false)
#else
#define DRIVETRAIN_CRASH_POINT(name) ((void)0)
#endif

#define DRIVETRAIN_LOCKED_WRITE(name, ...) \
  do {                                     \
    __VA_ARGS__;                           \
    DRIVETRAIN_CRASH_POINT(name);          \
  } while (false)
