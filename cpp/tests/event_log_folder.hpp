// A folder for recordings of tests, and what is in it.
#pragma once

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "drivetrain/event_log_thread.hpp"
#include "tests/check.hpp"

namespace drivetrain {

inline constexpr std::uint64_t kNoLimit = 1ull << 40;

struct Folder {
  std::string path;
  Folder() {
    char name[] = "event-log-XXXXXX";
    CHECK(::mkdtemp(name) != nullptr);
    path = name;
  }
  ~Folder() {
    for (const auto& name : names()) ::unlink((path + "/" + name).c_str());
    ::rmdir(path.c_str());
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    DIR* folder = ::opendir(path.c_str());
    while (const dirent* entry = ::readdir(folder))
      if (entry->d_name[0] != '.') found.emplace_back(entry->d_name);
    ::closedir(folder);
    return found;
  }
};

struct Stream {
  std::uint64_t num_dropped = 0;
  std::map<std::uint32_t, std::vector<Event>> segments;  // by sequence
  std::vector<Event> events() const {
    std::vector<Event> all;
    for (const auto& [sequence, part] : segments) all.insert(all.end(), part.begin(), part.end());
    return all;
  }
};

/// What the reader in Python does, in a few lines: whole events, by process and thread.
inline std::map<std::pair<std::uint32_t, std::uint32_t>, Stream> read_all(const Folder& folder) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, Stream> streams;
  for (const auto& name : folder.names()) {
    if (name == "shared") continue;
    std::FILE* file = std::fopen((folder.path + "/" + name).c_str(), "rb");
    SegmentHeader header;
    CHECK(std::fread(&header, sizeof header, 1, file) == 1 && header.magic == kSegmentMagic);
    Stream& stream = streams[{header.pid, header.thread}];
    stream.num_dropped += header.num_dropped;
    auto& events = stream.segments[header.sequence];
    for (Event event; std::fread(&event, sizeof event, 1, file) == 1 && event.time_ns != 0;) events.push_back(event);
    std::fclose(file);
  }
  return streams;
}

inline void check_nested_and_ordered(const std::vector<Event>& events) {
  std::vector<std::uint32_t> stack;
  std::uint64_t last = 0;
  for (const Event& event : events) {
    CHECK(event.time_ns >= last);
    last = event.time_ns;
    if (event.kind == EventKind::kBegin) stack.push_back(event.site);
    if (event.kind == EventKind::kEnd) {
      CHECK(!stack.empty() && stack.back() == event.site);
      stack.pop_back();
    }
  }
}

inline std::size_t count(const std::vector<Event>& events, EventKind kind) {
  std::size_t number = 0;
  for (const Event& event : events) number += event.kind == kind;
  return number;
}

}  // namespace drivetrain
