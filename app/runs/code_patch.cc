#include "app/runs/code_patch.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/text.h"
#include "engine/base/utf8.h"

namespace lockstep::app {
namespace {

constexpr std::size_t kMostNames = 200;        // files that are in no commit
constexpr std::size_t kMostWords = 64 * 1024;  // bytes of paths in one call

constexpr std::string_view kOther = "#   ";  // begins the line of such a file
constexpr std::string_view kDiff = "diff --git ";

std::string inOneLine(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c >= 0 && c < ' '; }, '?');
  return text;
}

std::string noteOf(const std::vector<std::string>& others) {
  if (others.empty()) return {};
  std::string out = "# not in the commit:\n";
  for (std::size_t i = 0; i < std::min(others.size(), kMostNames); ++i)
    out += fmt::format("{}{}\n", kOther, inOneLine(others[i].empty() ? "./" : others[i]));
  if (others.size() > kMostNames) out += fmt::format("# and {} more\n", others.size() - kMostNames);
  return out;
}

// No setting of the person's, and no program that the repository names, shapes the text.
std::vector<std::string> diffWords(const std::string& below) {
  return {"-c",
          "core.quotePath=false",
          "--literal-pathspecs",
          "diff",
          "--patch",
          "--no-color",
          "--no-ext-diff",
          "--no-textconv",
          "--no-renames",
          "--submodule=short",
          "--ignore-submodules=dirty",
          "--relative",
          "--src-prefix=a/" + below,
          "--dst-prefix=b/" + below,
          "HEAD",
          "--"};
}

void cut(std::string& text) {
  const std::size_t end = text.rfind('\n', kMostPatch - 1);
  text.resize(end == std::string::npos ? kMostPatch : end + 1);
  text += fmt::format("# cut after {} KiB: the differences go on\n", kMostPatch / 1024);
}

// "a/x.py b/x.py", where a file keeps its name.
std::string pathIn(std::string_view names) {
  std::string_view first = names.substr(0, names.size() / 2);
  const bool quoted = first.starts_with('"') && first.ends_with('"');
  if (quoted) first = first.substr(1, first.size() - 2);
  return std::string(first.starts_with("a/") ? first.substr(2) : first);
}

}  // namespace

Result<std::string> codePatch(const Git& git, const std::string& root, const CodeChanges& changes) {
  std::string out = noteOf(changes.others);
  for (const auto& [below, paths] : changes.tracked) {
    for (std::size_t at = 0; at < paths.size() && out.size() <= kMostPatch;) {
      std::vector<std::string> words = diffWords(below);
      for (std::size_t bytes = 0; at < paths.size() && bytes < kMostWords; ++at) {
        bytes += paths[at].size() + 1;
        words.push_back(paths[at]);
      }
      LOCKSTEP_ASSIGN(const ProcessResult ran,
                      git.beginning(root + "/" + below, words, kMostPatch + 1));
      out += ran.output;
      if (ran.exitStatus != 0)
        out += fmt::format("# git diff failed: {}\n", inOneLine(withoutLineEnds(ran.errorOutput)));
    }
  }
  if (out.size() > kMostPatch) cut(out);
  return validUtf8(out);
}

std::string codeCommit(std::string_view specResolved) {
  constexpr std::string_view kCode = "# code: ", kCommit = " commit ";
  while (specResolved.starts_with('#')) {
    const std::string_view line = specResolved.substr(0, specResolved.find('\n'));
    specResolved.remove_prefix(std::min(specResolved.size(), line.size() + 1));
    const std::size_t commit = line.find(kCommit);
    if (!line.starts_with(kCode) || commit == std::string_view::npos) continue;
    const std::string_view id = line.substr(commit + kCommit.size());
    return std::string(id.substr(0, id.find_first_not_of("0123456789abcdef")));
  }
  return {};
}

std::vector<ChangedFile> changedFiles(std::string_view patch) {
  std::vector<ChangedFile> out;
  bool lines = false;  // of a file
  while (!patch.empty()) {
    const std::string_view line = patch.substr(0, patch.find('\n'));
    patch.remove_prefix(std::min(line.size() + 1, patch.size()));
    if (line.starts_with(kDiff)) {
      lines = false;
      out.push_back({pathIn(line.substr(kDiff.size()))});
    } else if (line.starts_with(kOther)) {
      out.push_back({std::string(line.substr(kOther.size())), 0, 0, false});
    } else if (line.starts_with("@@")) {
      lines = true;
    } else if (lines && !out.empty()) {
      out.back().added += line.starts_with('+') ? 1 : 0;
      out.back().removed += line.starts_with('-') ? 1 : 0;
    }
  }
  std::stable_partition(out.begin(), out.end(),
                        [](const ChangedFile& file) { return file.committed; });
  return out;
}

}  // namespace lockstep::app
