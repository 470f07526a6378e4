#include "app/specs/spec_text.h"

#include <algorithm>
#include <charconv>

#include "app/specs/spec_state.h"
#include "app/specs/yaml_style.h"
#include "engine/models/model.h"
#include "engine/specs/links.h"
#include "engine/specs/node_names.h"
#include "engine/specs/options.h"
#include "engine/specs/placement.h"
#include "engine/specs/specs.h"

namespace lockstep::app {

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

Message SpecProblem::message() const {
  return expected.empty() ? what : lockstep::message("{}, {}", what, expected);
}

Error SpecProblem::error() const {
  Error out = line > 0 ? invalidArgument("{}:{}:{}: {}", file, line, column, message())
                       : invalidArgument("{}: {}", file, message());
  return withRemedies(std::move(out), remedies);
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
    if (!tell(specs::checkAndFill(filled))) fillRest();
    return;
  }
  if (cluster != nullptr) {
    const auto whole = specs::withExpectedNodes(*cluster);
    if (!tell(whole.status())) return;
    Status meant = specs::toCluster(*whole, {}, {}).status();
    if (meant.ok()) meant = specs::checkLinks(*whole);
    if (!meant.ok()) problems.push_back(atExpanded(meant.error()));
    return;
  }
  *filled.mutable_model() = *model;
  (void)specs::checkAndFill(filled);  // of a run with this model; its data are not of interest
  const auto built = specs::toModel(*model);
  if (built.ok()) return;
  Error error = built.error();
  if (error.field.starts_with("model.")) error.field.erase(0, 6);
  tell(error);
}

// Defaults of training, strategy and recovery do not depend on a model and data that are not
// complete yet.
void SpecText::State::fillRest() {
  if (run->has_workload()) return;
  spec::v1::RunSpec other;
  other.mutable_model()->mutable_input()->add_shape(1);
  other.mutable_model()->add_layers()->mutable_dense()->set_units(1);
  other.mutable_model()->set_loss("mse");
  other.mutable_data()->mutable_train()->set_table("t");
  other.mutable_data()->mutable_evaluate()->set_table("t");
  *other.mutable_training() = run->training();
  *other.mutable_strategy() = run->strategy();
  *other.mutable_recovery() = run->recovery();
  (void)specs::checkAndFill(other);
  *filled.mutable_training() = other.training();
  *filled.mutable_strategy() = other.strategy();
  *filled.mutable_recovery() = other.recovery();
}

SpecProblem SpecText::State::at(const Error& error) const {
  const std::string& path = error.field;
  const auto parts = splitPath(path);
  SpecProblem problem{file, 0, 0, error.what, {}, path};
  // The engine names some fields by their last word: the path says which one it is.
  if (parts.size() > 1 && error.what.text().starts_with(parts.back() + " "))
    problem.what = lockstep::message("{}: {}", path, error.what);
  if (!error.why.empty()) problem.what = lockstep::message("{}: {}", problem.what, error.why);
  problem.remedies = error.remedies;
  if (problem.remedies.empty()) problem.expected = error.next;
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

SpecProblem SpecText::State::atExpanded(Error error) const {
  if (cluster != nullptr) {
    error.field = specs::writtenField(*cluster, error.field);
    for (Remedy& remedy : error.remedies)
      for (Setting& setting : remedy) setting.field = specs::writtenField(*cluster, setting.field);
  }
  return at(error);
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
SpecProblem SpecText::locate(const Error& error) const { return state_->atExpanded(error); }

std::optional<TextMark> SpecText::mark(std::string_view path) const {
  const auto parts = splitPath(path);
  const Found found = walk(state_->root, parts);
  if (!state_->readable || found.depth < parts.size()) return std::nullopt;
  return TextMark{found.node->line, found.node->column, found.node->offset,
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

std::vector<std::string> SpecText::nodeNames(std::string_view path) const {
  const auto written = value(path);
  if (!written) return {};
  auto names = specs::expandRanges(*written);
  return names.ok() ? *std::move(names) : std::vector{*written};
}

std::vector<int> SpecText::linksOf(const std::vector<std::string>& nodes) const {
  std::vector<int> out;
  for (int i = 0; i < count("links"); ++i) {
    bool isOfNone = true, isOfThese = false;
    for (const char* end : {"from", "to", "inside"}) {
      const auto written = value(fmt::format("links[{}].{}", i, end));
      if (!written || written->empty()) continue;
      isOfNone = false;
      const auto pattern = specs::NamePattern::parse(*written);
      isOfThese = isOfThese || !pattern.ok() ||
                  std::any_of(nodes.begin(), nodes.end(),
                              [&](const auto& name) { return pattern->matches(name); });
    }
    if (isOfNone || isOfThese) out.push_back(i);
  }
  return out;
}

Result<std::string> SpecText::withoutNode(std::string_view path, std::size_t index) const {
  return specs::withoutText(value(path).value_or(""), index);
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

}  // namespace lockstep::app
