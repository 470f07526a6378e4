// Goldens: texts kept in tests/golden. LOCKSTEP_UPDATE_GOLDEN=1 writes them anew.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

#include "engine/base/file.h"
#include "tests/support/paths.h"

namespace lockstep::testing {

// "" where `text` is what tests/golden/NAME holds; else the first line that differs.
inline std::string differsFromGolden(std::string_view name, const std::string& text) {
  const std::string path = lockstep::test::sourcePath("tests/golden/") + std::string(name);
  if (std::getenv("LOCKSTEP_UPDATE_GOLDEN") != nullptr) {
    const Status status = writeFileAtomically(path, text);
    return status.ok() ? "" : status.error().text();
  }
  const Result<std::string> golden = readFile(path);
  if (!golden.ok()) return golden.error().text();
  if (*golden == text) return "";
  std::size_t line = 1, begin = 0;
  for (std::size_t i = 0; i < golden->size() && i < text.size() && (*golden)[i] == text[i]; ++i)
    if (text[i] == '\n') {
      ++line;
      begin = i + 1;
    }
  auto lineAt = [begin](const std::string& all) {
    return begin < all.size() ? all.substr(begin, all.find('\n', begin) - begin) : "(the end)";
  };
  return fmt::format("{}:{}\n  golden: {}\n  actual: {}", path, line, lineAt(*golden),
                     lineAt(text));
}

}  // namespace lockstep::testing
