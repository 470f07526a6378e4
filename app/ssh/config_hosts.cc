#include "app/ssh/config_hosts.h"

#include <glob.h>
#include <strings.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string_view>

#include "engine/base/file.h"

namespace lockstep::app {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;  // of a file

// A word may stand in quotes; a comment may follow the words.
std::vector<std::string> wordsOf(std::string_view line) {
  std::vector<std::string> out;
  constexpr std::string_view kBetween = " \t\r=";
  while (true) {
    const std::size_t begin = line.find_first_not_of(kBetween);
    if (begin == std::string_view::npos || line[begin] == '#') return out;
    line.remove_prefix(begin);
    const char quote = line.front();
    const bool quoted = quote == '"' || quote == '\'';
    if (quoted) line.remove_prefix(1);
    const std::size_t end =
        std::min(quoted ? line.find(quote) : line.find_first_of(kBetween), line.size());
    if (end > 0) out.emplace_back(line.substr(0, end));
    line.remove_prefix(std::min(end + (quoted ? 1 : 0), line.size()));
  }
}

std::string homeFolder() {
  const char* home = std::getenv("HOME");
  return home == nullptr ? std::string() : home;
}

std::vector<std::string> filesOf(std::string pattern) {
  if (pattern.starts_with("~/"))
    pattern = homeFolder() + pattern.substr(1);
  else if (!pattern.starts_with('/'))
    pattern = homeFolder() + "/.ssh/" + pattern;
  std::vector<std::string> out;
  glob_t found{};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
    out.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return out;
}

class Hosts {
 public:
  void read(const std::string& file) {
    if (!read_.insert(file).second) return;  // it may include itself
    const auto text = readFile(file, kMostBytes);
    if (!text.ok()) return;
    std::string_view rest = *text;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      readLine(wordsOf(rest.substr(0, end)));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  std::vector<std::string> take() { return std::move(hosts_); }

 private:
  void readLine(const std::vector<std::string>& words) {
    if (words.empty()) return;
    const bool isHost = strcasecmp(words[0].c_str(), "host") == 0;
    const bool isInclude = strcasecmp(words[0].c_str(), "include") == 0;
    for (std::size_t i = 1; i < words.size(); ++i) {
      if (isHost) add(words[i]);
      if (isInclude)
        for (const std::string& file : filesOf(words[i])) read(file);
    }
  }
  void add(const std::string& name) {
    const bool isPattern = name.find_first_of("*?") != std::string::npos || name.starts_with('!');
    if (!isPattern && std::ranges::find(hosts_, name) == hosts_.end()) hosts_.push_back(name);
  }

  std::vector<std::string> hosts_;
  std::set<std::string> read_;
};

}  // namespace

std::vector<std::string> sshConfigHosts(const std::string& file) {
  Hosts hosts;
  hosts.read(file.empty() ? homeFolder() + "/.ssh/config" : file);
  return hosts.take();
}

}  // namespace lockstep::app
