// A YAML document as a tree that knows where everything stands. Plain YAML only: see spec_text.h.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/status.h"

namespace lockstep::app {

struct YamlNode {
  enum class Kind { kNull, kScalar, kMap, kList };
  struct Entry;

  Kind kind = Kind::kNull;
  bool flow = false;            // map or list in brackets
  bool quoted = false;          // scalar
  bool simple = true;           // scalar in one line, so that [offset, end) may be replaced
  std::string value;            // scalar
  std::vector<Entry> entries;   // map
  std::vector<YamlNode> items;  // list
  int line = 0, column = 0;     // from 1
  std::size_t offset = 0, end = 0;

  const Entry* find(std::string_view key) const;
};
struct YamlNode::Entry {
  YamlNode key;
  YamlNode node;
};

struct YamlFailure {
  int line = 0, column = 0;
  Message what, expected;
};

// False with `failure` filled where the text is not plain YAML.
bool parseYaml(const std::string& text, YamlNode& root, YamlFailure& failure);

// A scalar as YAML writes it: quoted where it would be read as something else.
std::string yamlScalar(std::string_view text, bool isText);

}  // namespace lockstep::app
