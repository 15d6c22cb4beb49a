// Waiting in the C library, as the interpreter and its modules call it: recorded below their builtins, which stay what
// they are. Whatever does not wait (a timeout of 0, a lock that is free) does not come here, or passes.
#pragma once

#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cerrno>
#include <iterator>

#include "drivetrain/event_log_thread.hpp"
#include "drivetrain/linkage.hpp"

namespace drivetrain {

/// Sites; written before anything is redirected.
struct SystemWaits {
  SiteUse sleep, lock, ready, process, socket;
};
inline SystemWaits system_waits;

/// None of these is noexcept: a thread that is cancelled while it waits is unwound through them.
namespace waits {

/// The call, as a span unless what is around it is waiting already; errno is the call's.
template <class Call>
auto recorded(const SiteUse& use, const Call& call) {
  if (!thread_log.begin_wait(use)) return call();
  const auto result = call();
  const int error = errno;
  thread_log.end(use.site);
  errno = error;
  return result;
}

inline int sleep(clockid_t clock, int flags, const timespec* time, timespec* left) {
  return recorded(system_waits.sleep, [&] { return ::clock_nanosleep(clock, flags, time, left); });
}
inline int lock(sem_t* lock) {
  return recorded(system_waits.lock, [&] { return ::sem_wait(lock); });
}
inline int lock_until(sem_t* lock, const timespec* time) {
  return recorded(system_waits.lock, [&] { return ::sem_timedwait(lock, time); });
}
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 30)
#define DRIVETRAIN_SEM_CLOCKWAIT 1
inline int lock_until_by(sem_t* lock, clockid_t clock, const timespec* time) {
  return recorded(system_waits.lock, [&] { return ::sem_clockwait(lock, clock, time); });
}
#endif
inline int select(int num, fd_set* in, fd_set* out, fd_set* except, timeval* timeout) {
  const auto call = [&] { return ::select(num, in, out, except, timeout); };
  const bool waits = timeout == nullptr || timeout->tv_sec != 0 || timeout->tv_usec != 0;
  return waits ? recorded(system_waits.ready, call) : call();
}
inline int poll(pollfd* files, nfds_t num, int timeout_ms) {
  const auto call = [&] { return ::poll(files, num, timeout_ms); };
  return timeout_ms != 0 ? recorded(system_waits.ready, call) : call();
}
inline int epoll(int file, epoll_event* events, int num, int timeout_ms) {
  const auto call = [&] { return ::epoll_wait(file, events, num, timeout_ms); };
  return timeout_ms != 0 ? recorded(system_waits.ready, call) : call();
}
inline pid_t process(pid_t pid, int* status, int options) {
  const auto call = [&] { return ::waitpid(pid, status, options); };
  return (options & WNOHANG) == 0 ? recorded(system_waits.process, call) : call();
}
inline pid_t process_usage(pid_t pid, int* status, int options, rusage* usage) {
  const auto call = [&] { return ::wait4(pid, status, options, usage); };
  return (options & WNOHANG) == 0 ? recorded(system_waits.process, call) : call();
}
inline int process_id(idtype_t type, id_t id, siginfo_t* about, int options) {
  const auto call = [&] { return ::waitid(type, id, about, options); };
  return (options & WNOHANG) == 0 ? recorded(system_waits.process, call) : call();
}
inline int accept(int socket, sockaddr* from, socklen_t* size, int flags) {
  return recorded(system_waits.socket, [&] { return ::accept4(socket, from, size, flags); });
}
inline int connect(int socket, const sockaddr* to, socklen_t size) {
  return recorded(system_waits.socket, [&] { return ::connect(socket, to, size); });
}
inline ssize_t receive(int socket, void* data, std::size_t nbytes, int flags) {
  return recorded(system_waits.socket, [&] { return ::recv(socket, data, nbytes, flags); });
}
inline ssize_t receive_from(int socket, void* data, std::size_t nbytes, int flags, sockaddr* from, socklen_t* size) {
  return recorded(system_waits.socket, [&] { return ::recvfrom(socket, data, nbytes, flags, from, size); });
}
inline ssize_t receive_message(int socket, msghdr* message, int flags) {
  return recorded(system_waits.socket, [&] { return ::recvmsg(socket, message, flags); });
}

}  // namespace waits

/// Records what the object that an address lies in waits for; returns in how many of its slots.
inline int record_waits(const void* inside) noexcept {
  const auto to = [](auto function) { return reinterpret_cast<void*>(function); };
  const Redirection redirections[] = {
      {"clock_nanosleep", to(&waits::sleep)},
      {"sem_wait", to(&waits::lock)},
      {"sem_timedwait", to(&waits::lock_until)},
#ifdef DRIVETRAIN_SEM_CLOCKWAIT
      {"sem_clockwait", to(&waits::lock_until_by)},
#endif
      {"select", to(&waits::select)},
      {"poll", to(&waits::poll)},
      {"epoll_wait", to(&waits::epoll)},
      {"waitpid", to(&waits::process)},
      {"wait4", to(&waits::process_usage)},
      {"waitid", to(&waits::process_id)},
      {"accept4", to(&waits::accept)},
      {"connect", to(&waits::connect)},
      {"recv", to(&waits::receive)},
      {"recvfrom", to(&waits::receive_from)},
      {"recvmsg", to(&waits::receive_message)},
  };
  return redirect(inside, redirections, std::size(redirections));
}

}  // namespace drivetrain
