#include "agent/base/process_stat.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "engine/base/file.h"
#include "engine/base/utf8.h"

namespace lockstep::agent {

std::optional<ProcessStat> parseProcessStat(std::string_view text) {
  const std::size_t open = text.find('('), close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open)
    return std::nullopt;
  ProcessStat out;
  out.name = validUtf8(text.substr(open + 1, close - open - 1));
  std::vector<std::string_view> fields;  // from the state on
  for (std::string_view rest = text.substr(close + 1); !rest.empty();) {
    const std::size_t begin = rest.find_first_not_of(" \n");
    if (begin == std::string_view::npos) break;
    const std::size_t end = std::min(rest.find_first_of(" \n", begin), rest.size());
    fields.push_back(rest.substr(begin, end - begin));
    rest.remove_prefix(end);
  }
  constexpr std::size_t kParent = 1, kUser = 11, kKernel = 12, kThreads = 17, kStart = 19;
  if (fields.size() <= kStart) return std::nullopt;
  const auto number = [&](std::size_t field, auto& value) {
    const std::string_view word = fields[field];
    const auto read = std::from_chars(word.data(), word.data() + word.size(), value);
    return read.ec == std::errc() && read.ptr == word.data() + word.size();
  };
  std::uint64_t inUser = 0, inKernel = 0;
  if (!number(kParent, out.parent) || !number(kUser, inUser) || !number(kKernel, inKernel) ||
      !number(kThreads, out.threads) || !number(kStart, out.start))
    return std::nullopt;
  out.state = fields[0][0];
  out.cpu = inUser + inKernel;
  return out;
}

bool processRuns(int pid) {
  constexpr std::size_t kMostBytes = 4096;
  const auto text = readFile(fmt::format("/proc/{}/stat", pid), kMostBytes);
  const auto stat = text.ok() ? parseProcessStat(*text) : std::nullopt;
  return stat && stat->state != 'Z' && stat->state != 'X';
}

}  // namespace lockstep::agent
