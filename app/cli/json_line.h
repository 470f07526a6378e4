// One JSON object as one line: what --json writes. Floats have nine digits, NaN and infinities are
// null; the line is flushed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "app/history/history.h"
#include "engine/base/status.h"

namespace lockstep::app::cli {

class JsonLine {
 public:
  explicit JsonLine(std::string_view event = {}) {
    if (!event.empty()) add("event", event);
  }
  JsonLine& add(std::string_view key, std::string_view value);
  JsonLine& add(std::string_view key, const char* value) {
    return add(key, std::string_view(value));
  }
  JsonLine& add(std::string_view key, const std::string& value) {
    return add(key, std::string_view(value));
  }
  JsonLine& add(std::string_view key, std::int64_t value);
  JsonLine& add(std::string_view key, int value) {
    return add(key, static_cast<std::int64_t>(value));
  }
  JsonLine& add(std::string_view key, double value);
  JsonLine& add(std::string_view key, bool value);
  JsonLine& add(const RunFigures& figures);                       // what is not known is null
  JsonLine& addRaw(std::string_view key, std::string_view json);  // an object or array as it is
  std::string text() const { return "{" + body_ + "}"; }
  void print() const;  // to stdout

 private:
  void key(std::string_view key);
  std::string body_;
};

std::string jsonTexts(const std::vector<std::string>& texts);  // an array of strings

// error{code,node,rank,step,what,why,next}; a warning likewise.
JsonLine errorLine(const Error& error, std::string_view event = "error");

}  // namespace lockstep::app::cli
