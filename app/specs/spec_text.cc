#include "app/specs/spec_text.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <charconv>

#include "app/specs/spec_decode.h"
#include "app/specs/yaml_style.h"
#include "engine/models/model.h"
#include "engine/specs/options.h"
#include "engine/specs/specs.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

int indexOf(const std::string& part) {
  int index = -1;
  const auto [end, failure] =
      std::from_chars(part.data() + 1, part.data() + part.size() - 1, index);
  return failure == std::errc() && end == part.data() + part.size() - 1 ? index : -1;
}

std::string keyOf(const std::string& part) {
  if (part[0] != '[') return part;
  return part.size() >= 2 && part.back() == ']' ? part.substr(1, part.size() - 2) : part.substr(1);
}

YamlNode scalarNode(std::string value, bool isText) {
  YamlNode node;
  node.kind = YamlNode::Kind::kScalar;
  node.value = std::move(value);
  node.quoted = isText;
  return node;
}

struct Found {
  const YamlNode* node = nullptr;          // of the longest beginning that is there
  const YamlNode::Entry* entry = nullptr;  // where the node is a field's value
  const YamlNode* parent = nullptr;
  std::size_t depth = 0;  // how many parts are there
};

Found walk(const YamlNode& root, const std::vector<std::string>& parts) {
  Found found;
  found.node = &root;
  for (const auto& part : parts) {
    const YamlNode* next = nullptr;
    const YamlNode::Entry* entry = nullptr;
    if (found.node->kind == YamlNode::Kind::kList && part[0] == '[') {
      const int index = indexOf(part);
      if (index >= 0 && static_cast<std::size_t>(index) < found.node->items.size()) {
        next = &found.node->items[static_cast<std::size_t>(index)];
      }
    } else if (found.node->kind == YamlNode::Kind::kMap) {
      entry = found.node->find(keyOf(part));
      if (entry != nullptr) next = &entry->node;
    }
    if (next == nullptr) break;
    found.parent = found.node;
    found.node = next;
    found.entry = entry;
    ++found.depth;
  }
  return found;
}

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
// The '-' before an item of a block list.
std::size_t dashOf(const std::string& text, std::size_t itemOffset) {
  std::size_t at = itemOffset;
  while (at > 0 && text[at] != '-') --at;
  if (at == itemOffset && at > 0 && text[at] == '-') {
    // A negative number, or a nested list: its own dash is before it.
    std::size_t before = at - 1;
    while (before > 0 && text[before] == ' ') --before;
    if (text[before] == '-') at = before;
  }
  return at;
}

}  // namespace

struct SpecText::State {
  std::string text, file;
  SpecKind kind = SpecKind::kRun;
  bool readable = false;
  YamlNode root;
  std::vector<SpecProblem> problems;
  std::shared_ptr<spec::v1::RunSpec> run;
  std::shared_ptr<spec::v1::ClusterSpec> cluster;
  std::shared_ptr<spec::v1::ModelSpec> model;
  spec::v1::RunSpec filled;  // a run, or of a model its part of one, as far as defaults are known

  SpecProblem at(const Error& error) const;
  void checkMeaning();
  void fillRest();
  Result<TextEdit> add(const Found& found, const std::vector<std::string>& parts,
                       const YamlNode& value) const;
  // The whole value of a field, anew: in a block it may take several lines.
  TextEdit rewrite(const Found& found, const YamlNode& value, const Descriptor* type) const;
  TextEdit remove(const Found& found) const;
};

std::string SpecProblem::text() const {
  std::string out = file;
  if (line > 0) out += fmt::format(":{}:{}", line, column);
  out += ": " + what;
  if (!expected.empty()) out += ", " + expected;
  return out;
}

Error SpecProblem::error() const {
  Error error = withRemedies(invalidArgument("{}", text()), remedies);
  if (!remedies.empty() && expected == error.next) {  // once is enough
    SpecProblem brief = *this;
    brief.expected.clear();
    error.what = brief.text();
  }
  return error;
}

std::string TextEdit::applied(std::string_view text) const {
  std::string out(text.substr(0, offset));
  out += replacement;
  if (offset + length < text.size()) out += text.substr(offset + length);
  return out;
}

SpecText SpecText::parse(std::string text, std::string file, SpecKind kind) {
  auto state = std::make_shared<State>();
  state->text = std::move(text);
  state->file = std::move(file);
  state->kind = kind;
  YamlFailure failure;
  state->readable = parseYaml(state->text, state->root, failure);
  if (!state->readable) {
    state->problems.push_back(
        {state->file, failure.line, failure.column, failure.what, failure.expected, ""});
  } else if (kind == SpecKind::kRun) {
    auto run = std::make_shared<spec::v1::RunSpec>();
    std::string modelPath;
    decode(state->root, state->file, *run, &modelPath, state->problems);
    if (run->has_model()) state->model = std::make_shared<spec::v1::ModelSpec>(run->model());
    state->run = std::move(run);
    if (state->problems.empty() && modelPath.empty()) {
      state->checkMeaning();
    } else {  // the defaults of what is right are known all the same
      state->filled = *state->run;
      if (!specs::checkAndFill(state->filled).ok()) state->fillRest();
    }
  } else if (kind == SpecKind::kCluster) {
    state->cluster = std::make_shared<spec::v1::ClusterSpec>();
    decode(state->root, state->file, *state->cluster, nullptr, state->problems);
    if (state->problems.empty()) state->checkMeaning();
  } else {
    state->model = std::make_shared<spec::v1::ModelSpec>();
    decode(state->root, state->file, *state->model, nullptr, state->problems);
    if (state->problems.empty()) state->checkMeaning();
  }
  std::stable_sort(state->problems.begin(), state->problems.end(),
                   [](const SpecProblem& a, const SpecProblem& b) {
                     return std::tie(a.line, a.column) < std::tie(b.line, b.column);
                   });
  SpecText result;
  result.state_ = std::move(state);
  return result;
}

void SpecText::State::checkMeaning() {
  const auto tell = [&](const Status& status) {
    if (!status.ok()) problems.push_back(at(status.error()));
    return status.ok();
  };
  if (run != nullptr) {
    filled = *run;
    if (!tell(specs::checkAndFill(filled))) return fillRest();
  } else if (cluster != nullptr) {
    tell(specs::toCluster(*cluster, {}, {}).status());
    return;
  }
  const auto built = specs::toModel(*model);
  if (kind == SpecKind::kModel) {
    *filled.mutable_model() = *model;
    (void)specs::checkAndFill(filled);  // of a run with this model; its data are not of interest
  }
  if (!built.ok()) {
    Error error = built.error();
    if (kind == SpecKind::kModel && error.why.rfind("model.", 0) == 0) error.why.erase(0, 6);
    tell(error);
    return;
  }
  if (const auto described = models::describe(*built); !described.ok()) {
    Error error = described.error();
    if (kind == SpecKind::kRun && error.why.rfind("layers", 0) == 0) {
      error.why = "model." + error.why;
    }
    tell(error);
  }
}

// Defaults of training and strategy do not depend on a model and data that are not complete yet.
void SpecText::State::fillRest() {
  spec::v1::RunSpec other;
  other.mutable_model()->mutable_input()->add_shape(1);
  other.mutable_model()->add_layers()->mutable_dense()->set_units(1);
  other.mutable_model()->set_loss("mse");
  other.mutable_data()->mutable_train()->set_table("t");
  other.mutable_data()->mutable_evaluate()->set_table("t");
  *other.mutable_training() = run->training();
  *other.mutable_strategy() = run->strategy();
  (void)specs::checkAndFill(other);
  *filled.mutable_training() = other.training();
  *filled.mutable_strategy() = other.strategy();
}

// `why` is a path, or "path: reason".
SpecProblem SpecText::State::at(const Error& error) const {
  std::string path = error.why, reason;
  if (const auto colon = path.find(": "); colon != std::string::npos) {
    reason = path.substr(colon + 2);
    path.resize(colon);
  }
  if (path.find(' ') != std::string::npos) {
    reason = error.why;
    path.clear();
  }
  SpecProblem problem{file, 0, 0, error.what, "", path};
  // The engine names the field by its last word: which one it is, the path says.
  const auto parts = splitPath(path);
  if (parts.size() > 1 && problem.what.starts_with(parts.back() + " ")) {
    problem.what.replace(0, parts.back().size(), path);
  }
  if (!reason.empty()) problem.what += ": " + reason;
  problem.remedies = error.remedies;
  problem.expected = error.next;
  // The engine says both in one: "kernel is 0; expected 1 to 26".
  if (const auto split = problem.what.find("; expected "); split != std::string::npos) {
    problem.expected = problem.what.substr(split + 2);
    problem.what.resize(split);
  }
  const Found found = walk(root, parts);
  const YamlNode& node = *found.node;
  problem.missing = found.depth < parts.size() || node.kind == YamlNode::Kind::kNull ||
                    (node.kind == YamlNode::Kind::kList && node.items.empty());
  problem.line = found.node->line;
  problem.column = found.node->column;
  if (found.entry != nullptr && found.node->kind != YamlNode::Kind::kScalar) {
    problem.line = found.entry->key.line;
    problem.column = found.entry->key.column;
  }
  return problem;
}

const std::string& SpecText::text() const { return state_->text; }
const std::string& SpecText::file() const { return state_->file; }
SpecKind SpecText::kind() const { return state_->kind; }
bool SpecText::readable() const { return state_->readable; }
bool SpecText::ok() const { return state_->readable && state_->problems.empty(); }
const std::vector<SpecProblem>& SpecText::problems() const { return state_->problems; }
std::shared_ptr<const spec::v1::RunSpec> SpecText::run() const { return state_->run; }
std::shared_ptr<const spec::v1::ClusterSpec> SpecText::cluster() const { return state_->cluster; }
std::shared_ptr<const spec::v1::ModelSpec> SpecText::model() const { return state_->model; }
SpecProblem SpecText::locate(const Error& error) const { return state_->at(error); }

std::optional<TextMark> SpecText::mark(std::string_view path) const {
  const auto parts = splitPath(path);
  const Found found = walk(state_->root, parts);
  if (!state_->readable || found.depth < parts.size()) return std::nullopt;
  return TextMark{found.node->line, found.node->column, found.node->offset,
                  found.node->end - found.node->offset};
}

TextMark SpecText::nearestMark(std::string_view path) const {
  const Found found = walk(state_->root, splitPath(path));
  return {found.node->line, found.node->column, found.node->offset,
          found.node->end - found.node->offset};
}

std::optional<std::string> SpecText::value(std::string_view path) const {
  const auto parts = splitPath(path);
  const Found found = walk(state_->root, parts);
  if (found.depth < parts.size()) return std::nullopt;
  if (found.node->kind == YamlNode::Kind::kScalar) return found.node->value;
  if (found.node->kind != YamlNode::Kind::kList || found.node->items.empty()) return std::nullopt;
  std::string out;
  for (const YamlNode& item : found.node->items) {
    if (item.kind != YamlNode::Kind::kScalar) return std::nullopt;
    out += (out.empty() ? "" : ", ") + item.value;
  }
  return out;
}

std::optional<std::string> SpecText::defaultOf(std::string_view path) const {
  const google::protobuf::Message* message = &state_->filled;
  std::string whole(path);
  if (kind() == SpecKind::kModel) whole.insert(0, "model.");
  const auto parts = splitPath(whole);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto* reflection = message->GetReflection();
    const auto* field = message->GetDescriptor()->FindFieldByName(parts[i]);
    if (field == nullptr || field->is_map()) return std::nullopt;
    if (field->message_type() == nullptr) {
      if (i + 1 < parts.size() || field->is_repeated() || !reflection->HasField(*message, field)) {
        return std::nullopt;
      }
      return specs::fieldText(*message, *field);
    }
    if (field->is_repeated()) {
      const int index = i + 1 < parts.size() ? indexOf(parts[++i]) : -1;
      if (index < 0 || index >= reflection->FieldSize(*message, field)) return std::nullopt;
      message = &reflection->GetRepeatedMessage(*message, field, index);
    } else {
      message = &reflection->GetMessage(*message, field);
    }
  }
  return std::nullopt;
}

std::vector<std::string> SpecText::layerNames() const {
  std::vector<std::string> names;
  for (const auto& layer : state_->filled.model().layers()) names.push_back(layer.name());
  return names;
}

std::vector<int> SpecText::layerStages() const {
  std::vector<int> stages;
  int stage = 0;
  for (const auto& layer : state_->filled.model().layers()) {
    for (const auto& pin : state_->filled.strategy().pins()) {
      if (pin.layer() == layer.name()) stage = pin.stage();
    }
    stages.push_back(stage);
  }
  return stages;
}

std::string SpecText::pins(const std::vector<std::string>& layers, const std::vector<int>& stages) {
  YamlNode list;
  list.kind = YamlNode::Kind::kList;
  for (std::size_t i = 0; i < layers.size() && i < stages.size(); ++i) {
    if (i > 0 && stages[i] == stages[i - 1]) continue;
    YamlNode pin;
    pin.kind = YamlNode::Kind::kMap;
    pin.entries = {{scalarNode("layer", true), scalarNode(layers[i], true)},
                   {scalarNode("stage", true), scalarNode(std::to_string(stages[i]), false)}};
    list.items.push_back(std::move(pin));
  }
  return yamlFlow(list);
}

int SpecText::count(std::string_view path) const {
  const auto parts = splitPath(path);
  const Found found = walk(state_->root, parts);
  if (found.depth < parts.size()) return 0;
  if (found.node->kind == YamlNode::Kind::kList) return static_cast<int>(found.node->items.size());
  return static_cast<int>(found.node->entries.size());
}

std::vector<std::string> SpecText::keys(std::string_view path) const {
  const auto parts = splitPath(path);
  const Found found = walk(state_->root, parts);
  std::vector<std::string> names;
  if (found.depth == parts.size()) {
    for (const auto& entry : found.node->entries) names.push_back(entry.key.value);
  }
  return names;
}

std::string SpecText::layerKind(std::string_view path) const {
  const auto parts = splitPath(path);
  const Found found = walk(state_->root, parts);
  if (found.depth < parts.size()) return {};
  if (found.node->kind == YamlNode::Kind::kScalar) return found.node->value;
  const auto* layer = spec::v1::LayerSpec::descriptor();
  for (const auto& entry : found.node->entries) {
    const auto* field = layer->FindFieldByName(entry.key.value);
    if (field != nullptr && field->containing_oneof() != nullptr) return entry.key.value;
  }
  return {};
}

namespace {

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

// What `value` is for the field, null for text: its scalars without quotes, messages in YAML.
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
  return TextEdit{key.end, found.node->end - key.end,
                  ":" + yamlValue(value, type, indent, indent + key.end - key.offset + 1)};
}

Result<TextEdit> SpecText::State::add(const Found& found, const std::vector<std::string>& parts,
                                      const YamlNode& value) const {
  // What is missing below the first part, innermost first.
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
  if (parent.kind != YamlNode::Kind::kMap) return invalidArgument("{} has no fields", key);
  if (parent.flow) {
    const std::string flow = key + ": " + yamlFlow(below);
    const std::size_t last = text.rfind('\n', parent.end - 1) + 1;  // 0 where there is none
    const bool fits = parent.end - last + flow.size() + 2 <= kYamlLine;
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
  if (old.kind == YamlNode::Kind::kNull) return TextEdit{old.offset, 0, " " + text};
  return TextEdit{old.offset, old.end - old.offset, text};
}

namespace {

// Block of lines of each item, with the comments before it; the last ends with its line.
std::vector<std::size_t> blockStarts(const std::string& text, const YamlNode& list) {
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    std::size_t start = lineStart(text, dashOf(text, list.items[i].offset));
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
  const std::size_t dash = dashOf(text, list.items.front().offset);
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
    const std::size_t dash = dashOf(state_->text, list.items.front().offset);
    return TextEdit{dash, list.items.front().end - dash, "[]"};
  }
  const std::size_t start = lineStart(state_->text, dashOf(state_->text, list.items[at].offset));
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

namespace {

FieldType typeOfField(const FieldDescriptor& field) {
  const bool list = field.is_repeated();
  if (field.is_map()) return FieldType::kMap;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return list ? FieldType::kMessageList : FieldType::kMessage;
    case FieldDescriptor::CPPTYPE_STRING:
      return list ? FieldType::kTextList : FieldType::kText;
    case FieldDescriptor::CPPTYPE_BOOL:
      return FieldType::kBoolean;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return list ? FieldType::kNumberList : FieldType::kNumber;
    default:
      return list ? FieldType::kIntegerList : FieldType::kInteger;
  }
}

// "learning_rate" → "Learning rate"
std::string labelOf(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  if (!name.empty() && name[0] >= 'a' && name[0] <= 'z') name[0] += 'A' - 'a';
  return name;
}

FieldInfo infoOf(const FieldDescriptor& field) {
  const auto& option = specs::optionOf(field);
  FieldInfo info;
  info.name = field.name();
  info.type = typeOfField(field);
  info.label = {option.label().empty() ? labelOf(field.name()) : option.label(), option.label_zh()};
  info.help = {option.help(), option.help_zh()};
  info.unset = {option.unset(), option.unset_zh()};
  if (!option.default_value().empty() && option.default_value() != "{}")
    info.unset = {option.default_value(), option.default_value()};
  info.choices.assign(option.values().begin(), option.values().end());
  info.unit = option.unit();
  if (option.has_min()) info.min = option.min();
  if (option.has_max()) info.max = option.max();
  if (option.has_below()) info.below = option.below();
  if (option.has_used_with())
    info.usedWith = fmt::format("{} {}", option.used_with().field(),
                                fmt::join(option.used_with().values(), " or "));
  info.needed = option.required();
  info.file = option.file();
  info.advanced = option.advanced();
  return info;
}

}  // namespace

std::vector<LayerKind> SpecText::layerKinds() {
  std::vector<LayerKind> kinds;
  const auto* kind = spec::v1::LayerSpec::descriptor()->FindOneofByName("kind");
  for (int i = 0; i < kind->field_count(); ++i) {
    const FieldDescriptor& field = *kind->field(i);
    YamlNode start;
    start.kind = YamlNode::Kind::kMap;
    for (int k = 0; k < field.message_type()->field_count(); ++k) {
      const FieldDescriptor& part = *field.message_type()->field(k);
      if (const std::string& value = specs::optionOf(part).start(); !value.empty()) {
        start.entries.push_back({scalarNode(part.name(), true), scalarNode(value, false)});
      }
    }
    kinds.push_back({infoOf(field), field.name() + ": " + yamlFlow(start)});
  }
  return kinds;
}

std::vector<FieldInfo> SpecText::fields(SpecKind kind, std::string_view path) {
  const google::protobuf::Descriptor* type = rootOf(kind);
  if (!splitPath(path).empty()) {
    const FieldDescriptor* field = findField(kind, path, nullptr);
    type = field == nullptr || field->is_map() ? nullptr : field->message_type();
  }
  std::vector<FieldInfo> infos;
  for (int i = 0; type != nullptr && i < type->field_count(); ++i) {
    const FieldDescriptor& field = *type->field(i);
    infos.push_back(infoOf(field));
  }
  return infos;
}

std::optional<FieldInfo> SpecText::field(SpecKind kind, std::string_view path) {
  const FieldDescriptor* field = findField(kind, path, nullptr);
  if (field == nullptr) return std::nullopt;
  return infoOf(*field);
}

bool SpecText::isUsed(SpecKind kind, std::string_view path, std::string_view name,
                      const std::vector<std::pair<std::string, std::string>>& values) {
  const FieldDescriptor* parent = findField(kind, path, nullptr);
  const Descriptor* type = parent == nullptr ? nullptr : parent->message_type();
  const FieldDescriptor* field =
      type == nullptr ? nullptr : type->FindFieldByName(std::string(name));
  if (field == nullptr) return false;
  const std::unique_ptr<google::protobuf::Message> message(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
  for (const auto& [other, value] : values)
    if (const FieldDescriptor* one = type->FindFieldByName(other); one != nullptr)
      specs::setField(*message, *one, value);
  return specs::isUsed(*message, *field);
}

}  // namespace lockstep::app
