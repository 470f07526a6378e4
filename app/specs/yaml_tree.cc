#include "app/specs/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>
#include <unordered_map>

#include "engine/base/utf8.h"

namespace lockstep::app {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 20;
constexpr int kMaxDepth = 32;

struct Refusal {
  YamlFailure failure;
};
[[noreturn]] void refuse(const YAML::Mark& mark, Message what, Message expected) {
  throw Refusal{{mark.line + 1, mark.column + 1, std::move(what), std::move(expected)}};
}

class Builder : public YAML::EventHandler {
 public:
  // `begin`: where the text begins, since the parser does not count a mark of UTF-8 before it.
  Builder(YamlNode& root, std::size_t begin) : root_(root), begin_(begin) {}
  int documents() const { return documents_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) refuse(mark, "a second document", "expected one document only");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    checkAnchor(mark, anchor);
    YamlNode node = at(mark);
    add(std::move(node));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "an alias (*)",
           "expected the value itself: anchors and aliases are not used here");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    checkAnchor(mark, anchor);
    if (!tag.empty() && tag != "?" && tag != "!") {
      refuse(mark, message("a tag ({})", tag), "expected a plain value: tags are not used here");
    }
    YamlNode node = at(mark);
    node.kind = YamlNode::Kind::kScalar;
    node.quoted = tag == "!";
    node.value = value;
    // yaml-cpp reads the escapes \N and \_ as single bytes of Latin-1.
    for (std::size_t bad; (bad = firstNotUtf8(node.value)) != std::string::npos;) {
      if (node.value[bad] != '\x85' && node.value[bad] != '\xa0')
        refuse(mark, "an escape that is no character", "expected text");
      node.value.insert(bad, 1, '\xc2');
    }
    add(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    open(mark, tag, anchor, YamlNode::Kind::kList, style == YAML::EmitterStyle::Flow);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    open(mark, tag, anchor, YamlNode::Kind::kMap, style == YAML::EmitterStyle::Flow);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Level {
    YamlNode node;
    bool haveKey = false;
    YamlNode key;
    std::unordered_map<std::string, int> lines;  // by key
  };

  YamlNode at(const YAML::Mark& mark) const {
    YamlNode node;
    node.line = mark.line + 1;
    node.column = mark.column + 1;
    node.offset = begin_ + static_cast<std::size_t>(mark.pos < 0 ? 0 : mark.pos);
    return node;
  }
  static void checkAnchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != 0) {
      refuse(mark, "an anchor (&)",
             "expected the value itself: anchors and aliases are not used here");
    }
  }
  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            YamlNode::Kind kind, bool flow) {
    checkAnchor(mark, anchor);
    if (!tag.empty() && tag != "?" && tag != "!") {
      refuse(mark, message("a tag ({})", tag), "expected a plain value: tags are not used here");
    }
    if (levels_.size() >= kMaxDepth) {
      refuse(mark, "nested too deeply", "expected at most 32 levels");
    }
    Level level;
    level.node = at(mark);
    level.node.kind = kind;
    level.node.flow = flow;
    levels_.push_back(std::move(level));
  }
  void close() {
    YamlNode node = std::move(levels_.back().node);
    levels_.pop_back();
    add(std::move(node));
  }
  void add(YamlNode node) {
    if (levels_.empty()) {
      root_ = std::move(node);
      return;
    }
    Level& level = levels_.back();
    if (level.node.kind == YamlNode::Kind::kList) {
      level.node.items.push_back(std::move(node));
    } else if (!level.haveKey) {
      if (node.kind != YamlNode::Kind::kScalar) {
        throw Refusal{
            {node.line, node.column, "a field name that is not a word", "expected 'name: value'"}};
      }
      const auto [first, isNew] = level.lines.try_emplace(node.value, node.line);
      if (!isNew) {
        throw Refusal{{node.line, node.column, message("'{}' is given twice", node.value),
                       message("expected it once (first in line {})", first->second)}};
      }
      level.key = std::move(node);
      level.haveKey = true;
    } else {
      level.haveKey = false;
      level.node.entries.push_back({std::move(level.key), std::move(node)});
    }
  }

  YamlNode& root_;
  const std::size_t begin_;
  std::vector<Level> levels_;
  int documents_ = 0;
};

bool isBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::size_t skipBlanksAndComments(const std::string& text, std::size_t at) {
  while (at < text.size()) {
    if (isBlank(text[at]) || text[at] == ',') {
      ++at;
    } else if (text[at] == '#' && (at == 0 || isBlank(text[at - 1]))) {
      while (at < text.size() && text[at] != '\n') ++at;
    } else {
      break;
    }
  }
  return at;
}

// Ends of nodes, which the parser's events do not give.
std::size_t clamped(const std::string& text, std::size_t at) { return std::min(at, text.size()); }

void findScalarEnd(const std::string& text, YamlNode& node) {
  std::size_t at = node.offset;
  const char first = at < text.size() ? text[at] : '\0';
  const bool isBlock = first == '|' || first == '>';
  if (node.quoted && (first == '"' || first == '\'')) {
    for (++at; at < text.size(); ++at) {
      if (first == '"' && text[at] == '\\') {
        ++at;
      } else if (text[at] == first) {
        if (first == '\'' && at + 1 < text.size() && text[at + 1] == '\'') {
          ++at;
        } else {
          break;
        }
      }
    }
    node.end = clamped(text, at + 1);
    node.simple = std::string_view(text).substr(node.offset, node.end - node.offset).find('\n') ==
                  std::string_view::npos;
  } else if (!isBlock && text.compare(at, node.value.size(), node.value) == 0) {
    node.end = at + node.value.size();
    node.simple = node.value.find('\n') == std::string::npos;
  } else {  // over several lines, which have its words; a block begins after that of its '|'
    node.simple = false;
    if (isBlock) at = clamped(text, text.find('\n', at));
    for (const char c : node.value)
      if (!isBlank(c)) at = clamped(text, text.find(c, at)) + 1;
    node.end = clamped(text, at);
  }
}

void findEnds(const std::string& text, YamlNode& node, std::size_t notBefore) {
  node.offset = clamped(text, node.offset);
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      node.offset = node.end = clamped(text, notBefore);
      return;
    case YamlNode::Kind::kScalar:
      return findScalarEnd(text, node);
    case YamlNode::Kind::kMap: {
      std::size_t last = node.offset + (node.flow ? 1 : 0);
      for (auto& entry : node.entries) {
        findEnds(text, entry.key, last);
        std::size_t colon = entry.key.end;
        while (colon < text.size() && (text[colon] == ' ' || text[colon] == '\t')) ++colon;
        if (colon < text.size() && text[colon] == ':') {
          ++colon;
        } else {
          colon = entry.key.end;
        }
        findEnds(text, entry.node, colon);
        if (entry.node.kind == YamlNode::Kind::kNull) {
          entry.node.line = entry.key.line;
          entry.node.column = entry.key.column + static_cast<int>(colon - entry.key.offset);
        }
        last = entry.node.end > entry.key.end ? entry.node.end : entry.key.end;
      }
      node.end = last;
      break;
    }
    case YamlNode::Kind::kList: {
      std::size_t last = node.offset + (node.flow ? 1 : 0);
      for (auto& item : node.items) {
        if (item.kind == YamlNode::Kind::kNull) item.offset = last;
        findEnds(text, item, item.offset > last ? item.offset : last);
        last = item.end;
      }
      node.end = last;
      break;
    }
  }
  if (node.flow) {
    const std::size_t at = skipBlanksAndComments(text, node.end);
    node.end = clamped(text, at + 1);
  }
}

bool looksLikeNumber(std::string_view text) {
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc() && end == text.data() + text.size();
}

// Returns the code point of the control character that begins at `at`, of one or two bytes; none if
// there is no control character.
std::optional<unsigned> controlAt(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  if (byte(at) < 0x20 || byte(at) == 0x7f) return byte(at);
  if (byte(at) == 0xc2 && byte(at + 1) >= 0x80 && byte(at + 1) < 0xa0) return byte(at + 1);
  return std::nullopt;
}

}  // namespace

const YamlNode::Entry* YamlNode::find(std::string_view key) const {
  for (const auto& entry : entries) {
    if (entry.key.value == key) return &entry;
  }
  return nullptr;
}

bool parseYaml(const std::string& text, YamlNode& root, YamlFailure& failure) {
  YamlNode empty;
  empty.line = empty.column = 1;
  root = empty;
  if (text.size() > kMaxBytes) {
    failure = {1, 1, message("the file has {} bytes", text.size()), "expected at most 1 MiB"};
    return false;
  }
  const std::size_t zero = text.find('\0');
  if (const std::size_t bad = std::min(zero, firstNotUtf8(text)); bad != std::string::npos) {
    int line = 1, column = 1;
    for (std::size_t i = 0; i < bad; ++i) {
      column = text[i] == '\n' ? 1 : column + 1;
      line += text[i] == '\n';
    }
    failure = {line, column, bad == zero ? "a zero byte" : "a byte that is not UTF-8",
               bad == zero ? "expected text" : "expected text in UTF-8"};
    return false;
  }
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    const std::size_t begin = text.starts_with("\xef\xbb\xbf") ? 3 : 0;
    Builder builder(root, begin);
    while (parser.HandleNextDocument(builder)) {
    }
    findEnds(text, root, begin);
    return true;
  } catch (const Refusal& refusal) {
    failure = refusal.failure;
  } catch (const YAML::Exception& error) {
    std::string what = error.msg.empty() ? "this is not YAML" : error.msg;
    failure = {error.mark.line + 1, error.mark.column + 1, message("not valid YAML ({})", what),
               "expected 'name: value' lines with even indentation"};
    if (failure.line < 1) failure.line = failure.column = 1;
  } catch (const std::exception& error) {
    failure = {1, 1, message("not valid YAML ({})", error.what()), "expected 'name: value' lines"};
  }
  root = empty;  // a first document may have been read, whose nodes have no end yet
  return false;
}

std::string yamlScalar(std::string_view text, bool isText) {
  bool plain = !text.empty() && !isBlank(text.front()) && !isBlank(text.back());
  for (std::size_t at = 0; at < text.size(); ++at)
    if (controlAt(text, at) ||
        std::string_view("\"#:{}[],?").find(text[at]) != std::string_view::npos)
      plain = false;
  if (plain && std::string_view("!&*|>%@`'\"?-").find(text.front()) != std::string_view::npos) {
    plain = !isText && looksLikeNumber(text);
  }
  if (plain && isText &&
      (looksLikeNumber(text) || text == "true" || text == "false" || text == "null" ||
       text == "Null" || text == "NULL" || text == "~" || text == "yes" || text == "no")) {
    plain = false;
  }
  // Paths and host names with ':' or ',' are the common case of what must be quoted.
  if (plain) return std::string(text);
  std::string out = "\"";
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (const auto control = controlAt(text, at)) {
          out += fmt::format("\\x{:02x}", *control);
          if (*control >= 0x80) ++at;
        } else {
          out += c;
        }
    }
  }
  return out + "\"";
}

}  // namespace lockstep::app
