// Redirects calls of a loaded object into other libraries, in its own table of their addresses (ELF's global offsets).
//
//   object │ call sem_wait ─▶ slot ─▶ libc's       becomes       slot ─▶ ours ─▶ libc's
//
// Only that object's calls are redirected; nothing is written into code, and whoever asks for the function by name
// finds what was there. A slot is changed by one store, so that other threads may call meanwhile.
#pragma once

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>

namespace drivetrain {

struct Redirection {
  const char* symbol;
  void* to;
};

namespace linkage {

struct Request {
  std::uintptr_t inside;  // an address in the object
  const Redirection* redirections;
  std::size_t num;
  int num_changed;
};

inline bool is_slot(std::uint64_t info) noexcept {
#if defined(__x86_64__)
  return ELF64_R_TYPE(info) == R_X86_64_JUMP_SLOT || ELF64_R_TYPE(info) == R_X86_64_GLOB_DAT;
#elif defined(__aarch64__)
  return ELF64_R_TYPE(info) == R_AARCH64_JUMP_SLOT || ELF64_R_TYPE(info) == R_AARCH64_GLOB_DAT;
#else
  return static_cast<void>(info), false;
#endif
}

/// The pages that the loader has made read-only after it filled them.
struct ReadOnly {
  std::uintptr_t begin = 0, end = 0;
};

inline bool set_slot(std::uintptr_t* slot, void* to, const ReadOnly& pages) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(slot);
  const auto page_nbytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const bool is_read_only = at >= pages.begin && at < pages.end;
  void* page = reinterpret_cast<void*>(at / page_nbytes * page_nbytes);
  if (is_read_only && ::mprotect(page, page_nbytes, PROT_READ | PROT_WRITE) != 0) return false;
  // release: whoever jumps there finds what open() and the sites' numbers were set to before.
  std::atomic_ref<std::uintptr_t>(*slot).store(reinterpret_cast<std::uintptr_t>(to), std::memory_order_release);
  if (is_read_only) ::mprotect(page, page_nbytes, PROT_READ);
  return true;
}

struct Tables {
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  const ElfW(Rela)* slots[2] = {};  // of functions, and of all other addresses, functions among them
  std::uint64_t nbytes[2] = {};
};

/// Some loaders leave offsets in the table, others have made addresses of them.
inline Tables tables_of(const ElfW(Dyn)* entry, std::uintptr_t base) noexcept {
  Tables found;
  const auto at = [&](std::uintptr_t value) { return value < base ? base + value : value; };
  for (; entry->d_tag != DT_NULL; ++entry) {
    const std::uintptr_t value = entry->d_un.d_ptr;
    if (entry->d_tag == DT_SYMTAB) found.symbols = reinterpret_cast<const ElfW(Sym)*>(at(value));
    if (entry->d_tag == DT_STRTAB) found.names = reinterpret_cast<const char*>(at(value));
    if (entry->d_tag == DT_JMPREL) found.slots[0] = reinterpret_cast<const ElfW(Rela)*>(at(value));
    if (entry->d_tag == DT_RELA) found.slots[1] = reinterpret_cast<const ElfW(Rela)*>(at(value));
    if (entry->d_tag == DT_PLTRELSZ) found.nbytes[0] = value;
    if (entry->d_tag == DT_RELASZ) found.nbytes[1] = value;
    if (entry->d_tag == DT_PLTREL && value != DT_RELA) found.slots[0] = nullptr;  // none of the two platforms above
  }
  if (found.symbols == nullptr || found.names == nullptr) return Tables{};
  return found;
}

inline int change(dl_phdr_info* object, std::size_t, void* data) noexcept {
  Request& request = *static_cast<Request*>(data);
  const std::uintptr_t base = object->dlpi_addr;
  const auto page_nbytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  bool is_it = false;
  const ElfW(Dyn)* dynamic = nullptr;
  ReadOnly read_only;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& part = object->dlpi_phdr[i];
    const std::uintptr_t begin = base + part.p_vaddr, end = begin + part.p_memsz;
    if (part.p_type == PT_LOAD) is_it |= request.inside >= begin && request.inside < end;
    if (part.p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const ElfW(Dyn)*>(begin);
    if (part.p_type == PT_GNU_RELRO) read_only = {begin / page_nbytes * page_nbytes, end / page_nbytes * page_nbytes};
  }
  if (!is_it) return 0;
  if (dynamic == nullptr) return 1;
  const Tables tables = tables_of(dynamic, base);
  for (int which = 0; which < 2; ++which) {
    const ElfW(Rela)* slot = tables.slots[which];
    for (std::uint64_t i = 0; slot != nullptr && i < tables.nbytes[which] / sizeof *slot; ++i, ++slot) {
      if (!is_slot(slot->r_info)) continue;
      const char* name = tables.names + tables.symbols[ELF64_R_SYM(slot->r_info)].st_name;
      for (std::size_t k = 0; k < request.num; ++k)
        if (std::strcmp(name, request.redirections[k].symbol) == 0)
          request.num_changed += set_slot(reinterpret_cast<std::uintptr_t*>(base + slot->r_offset),
                                          request.redirections[k].to, read_only);
    }
  }
  return 1;
}

}  // namespace linkage

/// Redirects what the object that an address lies in calls; returns how many of its slots were changed.
inline int redirect(const void* inside, const Redirection* redirections, std::size_t num) noexcept {
  linkage::Request request{reinterpret_cast<std::uintptr_t>(inside), redirections, num, 0};
  ::dl_iterate_phdr(&linkage::change, &request);
  return request.num_changed;
}

}  // namespace drivetrain
