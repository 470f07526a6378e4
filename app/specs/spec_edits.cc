// Changes of a spec's text: of a field's value, and of the items of a list.
#include <algorithm>

#include "app/specs/spec_state.h"
#include "app/specs/yaml_style.h"
#include "engine/specs/options.h"

namespace lockstep::app {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

namespace {

std::size_t lineStart(const std::string& text, std::size_t at) {
  const auto before = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
  return before == std::string::npos ? 0 : before + 1;
}
std::size_t lineEnd(const std::string& text, std::size_t at) {
  const auto end = text.find('\n', at);
  return end == std::string::npos ? text.size() : end;
}

std::string trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\n')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n' || text.back() == '\r')) {
    text.remove_suffix(1);
  }
  return std::string(text);
}

// The '-' before an item of a block list: all stand in its column, and comments may follow them.
std::size_t dashOf(const std::string& text, const YamlNode& list, const YamlNode& item) {
  const auto column = static_cast<std::size_t>(list.column - 1);
  std::size_t line = lineStart(text, item.offset);
  while (line > 0 && (line + column >= lineEnd(text, line) || text[line + column] != '-'))
    line = lineStart(text, line - 1);
  return std::min(line + column, text.size());
}

Error notReadable() {
  Error error = makeError(Code::kFailedPrecondition, "the text cannot be edited as fields");
  error.why = "it is not valid YAML";
  error.next = "correct the text first";
  return error;
}

// The items of "28, 28, 1" or "[28, 28, 1]"; of numbers also "28x28x1".
YamlNode listNode(const FieldDescriptor& field, std::string_view value) {
  const bool isText = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  std::string text = trimmed(value);
  if (text.size() > 1 && text.front() == '[' && text.back() == ']') {
    text = text.substr(1, text.size() - 2);
  }
  if (!isText) {
    for (const std::string_view sign : {"\u00d7", "x", "X"}) {
      for (auto at = text.find(sign); at != std::string::npos; at = text.find(sign)) {
        text.replace(at, sign.size(), ",");
      }
    }
    std::replace(text.begin(), text.end(), ' ', ',');
  }
  YamlNode list;
  list.kind = YamlNode::Kind::kList;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    if (std::string item = trimmed(std::string_view(text).substr(at, comma - at)); !item.empty()) {
      if (item.size() > 1 && item.front() == '"' && item.back() == '"') {
        item = item.substr(1, item.size() - 2);
      }
      list.items.push_back(scalarNode(std::move(item), isText));
    }
    at = comma + 1;
  }
  return list;
}

// The node of `value` for the field (null: text): scalars without quotes, messages in YAML.
Result<YamlNode> valueNode(const FieldDescriptor* field, std::string_view value, bool item) {
  if (field == nullptr) return scalarNode(std::string(value), true);
  if (field->message_type() != nullptr) {
    YamlNode node;
    YamlFailure failure;
    if (!parseYaml(std::string(value), node, failure)) return invalidArgument("{}", failure.what);
    return node;
  }
  if (field->is_repeated() && !item) return listNode(*field, value);
  return scalarNode(std::string(value), field->cpp_type() == FieldDescriptor::CPPTYPE_STRING);
}

// The message a value is of, or the items of a list; null of scalars and maps.
const Descriptor* typeOf(const FieldDescriptor* field) {
  return field == nullptr || field->is_map() ? nullptr : field->message_type();
}
const Descriptor* typeAt(SpecKind kind, const std::vector<std::string>& parts, std::size_t depth) {
  const Descriptor* type = rootOf(kind);
  for (std::size_t i = 0; i < depth && type != nullptr; ++i) {
    if (parts[i][0] != '[') type = typeOf(type->FindFieldByName(parts[i]));
  }
  return type;
}

bool isLayerKind(const Descriptor* type, const std::string& name) {
  if (type == nullptr || type->name() != "LayerSpec") return false;
  const FieldDescriptor* field = type->FindFieldByName(name);
  return field != nullptr && field->containing_oneof() != nullptr;
}

// Whether the value stands after its key in lines, not in braces.
bool inBlock(const Found& found) {
  return found.entry != nullptr && found.parent != nullptr && !found.parent->flow;
}
// Whether it can be written anew without losing something.
bool rewritable(const std::string& text, const Found& found) {
  if (!inBlock(found)) return false;
  const std::string_view written =
      std::string_view(text).substr(found.node->offset, found.node->end - found.node->offset);
  return written.find('#') == std::string_view::npos;
}

}  // namespace

TextEdit SpecText::State::rewrite(const Found& found, const YamlNode& value,
                                  const Descriptor* type) const {
  const YamlNode& key = found.entry->key;
  const auto indent = static_cast<std::size_t>(key.column - 1);
  // A comment behind it stays on the line.
  const std::size_t after = lineEnd(text, found.node->end) - found.node->end;
  return TextEdit{key.end, found.node->end - key.end,
                  ":" + yamlValue(value, type, indent, indent + key.end - key.offset + 1 + after)};
}

Result<TextEdit> SpecText::State::add(const Found& found, const std::vector<std::string>& parts,
                                      const YamlNode& value) const {
  // The missing levels below the first part, innermost first.
  YamlNode below = value;
  for (std::size_t i = parts.size() - 1; i > found.depth; --i) {
    YamlNode outer;
    if (parts[i][0] == '[' && indexOf(parts[i]) == 0 && keyOf(parts[i]) == "0") {
      outer.kind = YamlNode::Kind::kList;
      outer.items.push_back(std::move(below));
    } else if (parts[i][0] == '[' && indexOf(parts[i]) >= 0) {
      return invalidArgument("there is no item {}", parts[i]);
    } else {
      outer.kind = YamlNode::Kind::kMap;
      outer.entries.push_back({scalarNode(keyOf(parts[i]), true), std::move(below)});
    }
    below = std::move(outer);
  }
  const std::string key = yamlScalar(keyOf(parts[found.depth]), true);
  const Descriptor* type = typeAt(kind, parts, found.depth + 1);
  const Descriptor* parentType = typeAt(kind, parts, found.depth);
  const YamlNode& parent = *found.node;
  if (parent.kind == YamlNode::Kind::kNull ||
      (parent.kind == YamlNode::Kind::kMap && !parent.flow && parent.entries.empty())) {
    if (found.depth == 0) {
      const std::string lead = text.empty() || text.back() == '\n' ? "" : "\n";
      return TextEdit{text.size(), 0, lead + yamlEntry(key, below, type, 0) + "\n"};
    }
    YamlNode whole;
    whole.kind = YamlNode::Kind::kMap;
    whole.entries.push_back({scalarNode(keyOf(parts[found.depth]), true), std::move(below)});
    if (inBlock(found)) return rewrite(found, whole, parentType);
    return TextEdit{parent.offset, 0, " " + yamlFlow(whole)};
  }
  if (parent.kind == YamlNode::Kind::kScalar && isLayerKind(parentType, parent.value)) {
    YamlNode whole;  // "- flatten" is "- flatten: {}"
    whole.kind = YamlNode::Kind::kMap;
    if (keyOf(parts[found.depth]) != parent.value) {
      whole.entries.push_back({scalarNode(parent.value, true), YamlNode()});
      whole.entries.front().node.kind = YamlNode::Kind::kMap;
    }
    whole.entries.push_back({scalarNode(keyOf(parts[found.depth]), true), std::move(below)});
    return TextEdit{parent.offset, parent.end - parent.offset, yamlFlow(whole)};
  }
  if (parent.kind != YamlNode::Kind::kMap) return invalidArgument("{} has no fields", key);
  if (parent.flow) {
    const std::string flow = key + ": " + yamlFlow(below);
    const std::size_t last = text.rfind('\n', parent.end - 1) + 1;  // 0 where there is none
    const bool fits = lineEnd(text, parent.end) - last + flow.size() + 2 <= kYamlLine;
    if (rewritable(text, found) && (parent.entries.empty() || !fits)) {
      YamlNode whole = parent;
      whole.entries.push_back({scalarNode(keyOf(parts[found.depth]), true), std::move(below)});
      return rewrite(found, whole, parentType);
    }
    if (parent.entries.empty()) {
      return TextEdit{parent.offset, parent.end - parent.offset, "{" + flow + "}"};
    }
    const auto& before = parent.entries.back();
    return TextEdit{std::max(before.node.end, before.key.end), 0, ", " + flow};
  }
  const auto& last = parent.entries.back();
  const std::size_t at = lineEnd(text, std::max(last.node.end, last.key.end));
  const auto indent = static_cast<std::size_t>(parent.entries.front().key.column - 1);
  return TextEdit{at, 0, "\n" + std::string(indent, ' ') + yamlEntry(key, below, type, indent)};
}

TextEdit SpecText::State::remove(const Found& found) const {
  const YamlNode& parent = *found.parent;
  std::size_t index = 0;
  while (&parent.entries[index] != found.entry) ++index;
  const auto& entry = parent.entries[index];
  const std::size_t end = std::max(entry.node.end, entry.key.end);
  if (parent.entries.size() == 1) {
    return {parent.offset, std::max(parent.end, end) - parent.offset, "{}"};
  }
  if (parent.flow) {
    if (index + 1 < parent.entries.size()) {
      return {entry.key.offset, parent.entries[index + 1].key.offset - entry.key.offset, ""};
    }
    const auto& before = parent.entries[index - 1];
    const std::size_t from = std::max(before.node.end, before.key.end);
    return {from, end - from, ""};
  }
  const std::size_t start = lineStart(text, entry.key.offset);
  const bool alone =
      trimmed(std::string_view(text).substr(start, entry.key.offset - start)).empty();
  if (!alone && index + 1 < parent.entries.size()) {  // the first, on the line of the '-'
    return {entry.key.offset, parent.entries[index + 1].key.offset - entry.key.offset, ""};
  }
  const std::size_t stop = lineEnd(text, end);
  return {start, (stop < text.size() ? stop + 1 : stop) - start, ""};
}

Result<TextEdit> SpecText::edit(std::string_view path, std::string_view value) const {
  if (!readable()) return notReadable();
  const auto parts = splitPath(path);
  if (parts.empty()) return invalidArgument("no field is named");
  const FieldDescriptor* field = findField(kind(), path, nullptr);
  if (field == nullptr) return invalidArgument("there is no field {}", path);
  const bool item = parts.back()[0] == '[';
  const Found found = walk(state_->root, parts);
  if (found.depth < parts.size()) {
    if (value.empty()) return TextEdit{};
    if (parts[found.depth][0] == '[' && !field->is_map()) {
      return invalidArgument("there is no item {}", path);
    }
    LOCKSTEP_ASSIGN(const YamlNode node, valueNode(field->is_map() ? nullptr : field, value, item));
    return state_->add(found, parts, node);
  }
  if (value.empty() && found.entry != nullptr) return state_->remove(found);
  LOCKSTEP_ASSIGN(const YamlNode node, valueNode(field->is_map() ? nullptr : field, value, item));
  const YamlNode& old = *found.node;
  if (old.kind == YamlNode::Kind::kScalar && !old.simple) {
    Error error = makeError(Code::kFailedPrecondition, "{} is text of several lines", path);
    error.next = "edit it in the text";
    return error;
  }
  if (old.kind == YamlNode::Kind::kScalar && old.value == node.value && node.kind == old.kind) {
    return TextEdit{};
  }
  const bool lines =
      !old.flow && (old.kind == YamlNode::Kind::kMap || old.kind == YamlNode::Kind::kList);
  if (inBlock(found) && (lines || field->message_type() != nullptr)) {
    return state_->rewrite(found, node, typeOf(field));
  }
  const std::string text = yamlFlow(node);
  if (found.parent != nullptr && found.parent->flow && found.entry != nullptr) {
    const std::string& all = state_->text;
    const std::size_t line = lineEnd(all, old.end) - lineStart(all, old.offset);
    const Found map = walk(state_->root, {parts.begin(), parts.end() - 1});
    if (line + text.size() + old.offset > kYamlLine + old.end && rewritable(all, map)) {
      YamlNode whole = *map.node;
      for (std::size_t i = 0; i < whole.entries.size(); ++i)
        if (&map.node->entries[i] == found.entry) whole.entries[i].node = node;
      return state_->rewrite(map, whole, typeAt(kind(), parts, parts.size() - 1));
    }
  }
  if (old.kind == YamlNode::Kind::kNull) return TextEdit{old.offset, 0, " " + text};
  return TextEdit{old.offset, old.end - old.offset, text};
}

namespace {

// Block of lines of each item, with the comments before it; the last ends with its line.
std::vector<std::size_t> blockStarts(const std::string& text, const YamlNode& list) {
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    std::size_t start = lineStart(text, dashOf(text, list, list.items[i]));
    if (i > 0) {
      const std::size_t after = lineEnd(text, list.items[i - 1].end) + 1;
      start = std::min(start, std::max(after, starts.back()));
    }
    starts.push_back(start);
  }
  const std::size_t end = lineEnd(text, list.items.back().end);
  starts.push_back(end < text.size() ? end + 1 : end);
  return starts;
}

std::vector<std::string> flowItems(const std::string& text, const YamlNode& list) {
  std::vector<std::string> items;
  for (const auto& item : list.items) {
    items.push_back(text.substr(item.offset, item.end - item.offset));
  }
  return items;
}
TextEdit flowList(const YamlNode& list, const std::vector<std::string>& items) {
  std::string out = "[";
  for (const auto& item : items) out += (out.size() > 1 ? ", " : "") + item;
  return {list.offset, list.end - list.offset, out + "]"};
}

}  // namespace

Result<TextEdit> SpecText::insertItem(std::string_view listPath, int index,
                                      std::string_view yaml) const {
  if (!readable()) return notReadable();
  const auto parts = splitPath(listPath);
  const FieldDescriptor* field = findField(kind(), listPath, nullptr);
  if (field == nullptr || !field->is_repeated() || field->is_map()) {
    return invalidArgument("{} is not a list", listPath);
  }
  if (yaml.find('\n') != std::string_view::npos) {
    return invalidArgument("an item to insert is one line");
  }
  const std::string& text = state_->text;
  const Found found = walk(state_->root, parts);
  YamlNode item;
  YamlFailure failure;
  if (!parseYaml(std::string(yaml), item, failure)) {
    return invalidArgument("the item to insert: {}, {}", failure.what, failure.expected);
  }
  const Descriptor* type = typeOf(field);
  YamlNode whole;  // the list, where it is written anew
  whole.kind = YamlNode::Kind::kList;
  if (found.depth < parts.size()) {
    whole.items.push_back(std::move(item));
    return state_->add(found, parts, whole);
  }
  const YamlNode& list = *found.node;
  if (list.kind != YamlNode::Kind::kNull && list.kind != YamlNode::Kind::kList) {
    return invalidArgument("{} is not a list", listPath);
  }
  const int size = static_cast<int>(list.items.size());
  index = std::clamp(index, 0, size);
  if (list.kind == YamlNode::Kind::kNull || list.flow) {
    if (type != nullptr &&
        (list.kind == YamlNode::Kind::kNull ? inBlock(found) : rewritable(text, found))) {
      whole.items = list.items;
      whole.items.insert(whole.items.begin() + index, std::move(item));
      return state_->rewrite(found, whole, type);
    }
    auto items = flowItems(text, list);
    items.insert(items.begin() + index, yamlFlow(item));
    TextEdit edit = flowList(list, items);
    if (list.kind == YamlNode::Kind::kNull) edit.replacement.insert(0, " ");
    return edit;
  }
  const auto starts = blockStarts(text, list);
  const std::size_t dash = dashOf(text, list, list.items.front());
  const std::size_t indent = dash - lineStart(text, dash);
  const std::string line = std::string(indent, ' ') + yamlItem(item, type, indent) + "\n";
  const std::size_t at = starts[static_cast<std::size_t>(index)];
  const bool open = at > 0 && text[at - 1] != '\n';
  return TextEdit{at, 0, open ? "\n" + line : line};
}

Result<TextEdit> SpecText::removeItem(std::string_view listPath, int index) const {
  if (!readable()) return notReadable();
  const auto parts = splitPath(listPath);
  const Found found = walk(state_->root, parts);
  const YamlNode& list = *found.node;
  if (found.depth < parts.size() || list.kind != YamlNode::Kind::kList || index < 0 ||
      static_cast<std::size_t>(index) >= list.items.size()) {
    return invalidArgument("there is no item {} in {}", index, listPath);
  }
  const auto at = static_cast<std::size_t>(index);
  if (list.flow) {
    auto items = flowItems(state_->text, list);
    items.erase(items.begin() + index);
    return flowList(list, items);
  }
  if (list.items.size() == 1) {
    const std::size_t dash = dashOf(state_->text, list, list.items.front());
    return TextEdit{dash, list.items.front().end - dash, "[]"};
  }
  const std::size_t start = lineStart(state_->text, dashOf(state_->text, list, list.items[at]));
  const std::size_t end = blockStarts(state_->text, list)[at + 1];
  const std::size_t line = lineEnd(state_->text, list.items[at].end);
  return TextEdit{start, std::min(end, line < state_->text.size() ? line + 1 : line) - start, ""};
}

Result<TextEdit> SpecText::moveItem(std::string_view listPath, int from, int to) const {
  if (!readable()) return notReadable();
  const auto parts = splitPath(listPath);
  const Found found = walk(state_->root, parts);
  const YamlNode& list = *found.node;
  const int size = static_cast<int>(list.items.size());
  if (found.depth < parts.size() || list.kind != YamlNode::Kind::kList || from < 0 || to < 0 ||
      from >= size || to >= size) {
    return invalidArgument("there is no such item in {}", listPath);
  }
  std::vector<std::string> blocks;
  if (list.flow) {
    blocks = flowItems(state_->text, list);
  } else {
    const auto starts = blockStarts(state_->text, list);
    for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
      std::string block = state_->text.substr(starts[i], starts[i + 1] - starts[i]);
      if (block.empty() || block.back() != '\n') block += '\n';
      blocks.push_back(std::move(block));
    }
  }
  std::string moved = std::move(blocks[static_cast<std::size_t>(from)]);
  blocks.erase(blocks.begin() + from);
  blocks.insert(blocks.begin() + to, std::move(moved));
  if (list.flow) return flowList(list, blocks);
  const auto starts = blockStarts(state_->text, list);
  std::string out;
  for (const auto& block : blocks) out += block;
  return TextEdit{starts.front(), starts.back() - starts.front(), out};
}

}  // namespace lockstep::app
