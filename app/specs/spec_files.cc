// Specs from files: models by path, data paths, --set, and clusters of this machine.
#include <google/protobuf/descriptor.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "app/core/home.h"
#include "app/specs/data_spec.h"
#include "app/specs/spec_decode.h"
#include "app/specs/spec_text.h"
#include "app/specs/yaml_tree.h"
#include "engine/base/file.h"
#include "engine/models/model.h"
#include "engine/specs/data_url.h"
#include "engine/specs/model_spec.h"
#include "engine/specs/node_names.h"
#include "engine/specs/options.h"
#include "engine/specs/placement.h"
#include "engine/specs/specs.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

std::string folderOf(const std::string& file) {
  const auto slash = file.rfind('/');
  return slash == std::string::npos ? "" : file.substr(0, slash == 0 ? 1 : slash);
}

Result<std::string> readSpec(const std::string& path, const char* what) {
  constexpr std::size_t kMostMiB = 2;
  auto text = readFile(path, kMostMiB << 20);
  if (!text.ok()) {
    Error error = text.error();
    if (error.why.empty()) error.why = message("it is larger than {} MiB", kMostMiB);
    error.what = message("cannot read the {} {}", what, path);
    if (error.code != Code::kNotFound) error.code = Code::kInvalidArgument;
    if (error.next.empty()) error.next = "check the path";
    return error;
  }
  return text;
}

// The error of a path that leaves the known fields.
Error unknownField(const std::string& assignment, const std::vector<std::string>& parts) {
  const auto* type = rootOf(SpecKind::kRun);
  std::string known;
  for (const auto& part : parts) {
    if (part[0] == '[') continue;
    const auto* next = type == nullptr ? nullptr : type->FindFieldByName(part);
    if (next == nullptr || part == "version") {
      std::vector<std::string> names;
      for (int i = 0; type != nullptr && i < type->field_count(); ++i) {
        if (specs::optionOf(*type->field(i)).former()) continue;
        if (known.empty() && type->field(i)->name() == "version") continue;
        names.push_back(type->field(i)->name());
      }
      Error error = invalidArgument("--set {}: unknown field '{}'{}", assignment, part,
                                    known.empty() ? Message() : message(" in {}", known));
      const std::string near = nearest(part, names);
      error.next = near.empty() ? message("expected one of {}", fmt::join(names, ", "))
                                : message("did you mean '{}'?", near);
      return error;
    }
    known += (known.empty() ? "" : ".") + part;
    type = next->message_type();
    if (!next->is_map()) continue;
    Error error = invalidArgument("--set {}: {} has no fields but keys", assignment, known);
    error.next = message("write --set {}[KEY]=VALUE", known);
    return error;
  }
  return invalidArgument("--set {}: unknown field", assignment);
}

// Text that YAML takes for a directive, a comment or the end of a document is no value.
Result<YamlNode> valueOf(const std::string& assignment, std::size_t equals) {
  const std::string text = assignment.substr(equals + 1);
  YamlNode value;
  YamlFailure failure;
  if (!parseYaml(text, value, failure))
    return invalidArgument("--set {}: {}, {}", assignment, failure.what, failure.expected);
  static constexpr std::string_view kNone[] = {"", "~", "null", "Null", "NULL"};
  if (value.kind == YamlNode::Kind::kNull &&
      std::find(std::begin(kNone), std::end(kNone), text) == std::end(kNone)) {
    Error error = invalidArgument("--set {}: there is no value", assignment);
    error.next = message("put it in quotes, or write --set {}= to leave the field out",
                         assignment.substr(0, equals));
    return error;
  }
  return value;
}

Result<YamlNode*> itemOf(YamlNode& list, const std::string& assignment, const std::string& part) {
  const std::string index = part.substr(1, part.size() - 2);
  if (list.kind == YamlNode::Kind::kList && !index.empty() &&
      index.find_first_not_of("0123456789") == std::string::npos && index.size() < 7) {
    const std::size_t i = std::stoul(index);
    if (i < list.items.size()) return &list.items[i];
  }
  Error error = invalidArgument("--set {}: there is no item {}", assignment, part);
  error.next = message("expected 0 to {}", list.items.empty() ? 0 : list.items.size() - 1);
  return error;
}

// Refuses what splitPath() passes over: empty parts, brackets that are not closed.
Status checkPath(const std::string& assignment, const std::string& path,
                 const std::vector<std::string>& parts) {
  std::string meant;
  bool closed = true;
  for (const std::string& part : parts) {
    meant += (meant.empty() || part[0] == '[' ? "" : ".") + part;
    closed = closed && (part[0] != '[' || part.back() == ']');
  }
  if (closed && meant == path) return {};
  Error error = invalidArgument("--set {}: '{}' is not the path of a field", assignment, path);
  error.next =
      closed ? message("did you mean '{}'?", meant) : Message("write --set training.batch=96");
  return error;
}

// Merges the assignment into the document; without a value the field is left out.
Status merge(YamlNode& root, const std::string& assignment) {
  const auto equals = assignment.find('=');
  const std::string path = assignment.substr(0, equals);
  const auto parts = splitPath(path);
  if (equals == std::string::npos || parts.empty()) {
    Error error = invalidArgument("--set {}: not an assignment", assignment);
    error.next = "write --set training.batch=96";
    return error;
  }
  LOCKSTEP_TRY(checkPath(assignment, path, parts));
  const auto* field = findField(SpecKind::kRun, path, nullptr);
  if (field == nullptr || parts[0] == "version") return unknownField(assignment, parts);
  LOCKSTEP_ASSIGN(YamlNode value, valueOf(assignment, equals));
  const auto isKey = [&](const std::string& part) { return part[0] == '[' && field->is_map(); };
  const bool leaveOut =
      equals + 1 == assignment.size() && (parts.back()[0] != '[' || isKey(parts.back()));
  YamlNode* at = &root;
  for (const auto& part : parts) {
    if (part[0] == '[' && !isKey(part)) {
      LOCKSTEP_ASSIGN(at, itemOf(*at, assignment, part));
      continue;
    }
    const std::string name = isKey(part) ? part.substr(1, part.size() - 2) : part;
    if (at->kind == YamlNode::Kind::kNull && !leaveOut) {
      at->kind = YamlNode::Kind::kMap;
    }
    if (at->kind == YamlNode::Kind::kNull) return {};
    if (at->kind != YamlNode::Kind::kMap) {
      return invalidArgument("--set {}: '{}' is not a group of fields here", assignment, part);
    }
    YamlNode::Entry* entry = nullptr;
    for (auto& candidate : at->entries) {
      if (candidate.key.value == name) entry = &candidate;
    }
    if (leaveOut && entry == nullptr) return {};
    if (leaveOut && &part == &parts.back()) {
      at->entries.erase(at->entries.begin() + (entry - at->entries.data()));
      return {};
    }
    if (entry == nullptr) {
      YamlNode key;
      key.kind = YamlNode::Kind::kScalar;
      key.value = name;
      at->entries.push_back({std::move(key), YamlNode()});
      entry = &at->entries.back();
    }
    at = &entry->node;
  }
  *at = std::move(value);
  return {};
}

// A data file's path; a URL stays as it is.
std::string absoluteFile(const std::string& path, const std::string& folder) {
  return specs::isUrl(path) ? path : absolutePath(path, folder);
}

void absoluteFiles(spec::v1::DataFiles* files, const std::string& folder) {
  files->set_images(absoluteFile(files->images(), folder));
  files->set_labels(absoluteFile(files->labels(), folder));
  files->set_text(absoluteFile(files->text(), folder));
  files->set_table(absoluteFile(files->table(), folder));
  files->set_tokens(absoluteFile(files->tokens(), folder));
}

// Makes the paths of files of this machine absolute.
void absoluteData(spec::v1::RunSpec& spec, const std::string& folder) {
  if (spec.has_workload()) {
    spec::v1::CodeSpec& code = *spec.mutable_workload()->mutable_code();
    const std::string from = code.from().empty() ? "." : code.from();
    std::string path = std::filesystem::path(absolutePath(from, folder)).lexically_normal();
    if (path.size() > 1 && path.back() == '/') path.pop_back();
    code.set_from(path);
  }
  if (spec.model().has_init_from() && !spec.model().init_from().file().empty()) {
    auto& init = *spec.mutable_model()->mutable_init_from();
    init.set_file(absoluteFile(init.file(), folder));
  }
  if (spec.has_sinks()) {
    spec::v1::SinksSpec& sinks = *spec.mutable_sinks();
    for (std::string* const path :
         {sinks.mutable_tensorboard(), sinks.mutable_csv(), sinks.mutable_json()})
      if (!path->empty()) *path = absolutePath(*path, folder);
  }
  if (!spec.has_data()) return;
  if (spec.data().has_train()) absoluteFiles(spec.mutable_data()->mutable_train(), folder);
  if (spec.data().has_evaluate()) absoluteFiles(spec.mutable_data()->mutable_evaluate(), folder);
}

// The weights that a model in a file of its own starts from lie beside that file.
void absoluteInit(YamlNode& model, const std::string& folder) {
  const auto child = [](YamlNode* node, std::string_view key) -> YamlNode* {
    if (node == nullptr) return nullptr;
    const auto at = std::find_if(node->entries.begin(), node->entries.end(),
                                 [&](const auto& one) { return one.key.value == key; });
    return at == node->entries.end() ? nullptr : &at->node;
  };
  if (YamlNode* const file = child(child(&model, "init_from"), "file"))
    file->value = absoluteFile(file->value, folder);
}

// Replaces the path of a model by what its file holds; returns its text, which has no problems.
Result<std::optional<SpecText>> insertModel(YamlNode& root, const std::string& file,
                                            const std::string& modelPath) {
  const auto entry = std::find_if(root.entries.begin(), root.entries.end(),
                                  [](const auto& one) { return one.key.value == "model"; });
  if (entry == root.entries.end()) return std::optional<SpecText>();
  const std::string path = absolutePath(modelPath, folderOf(file));
  const auto content = readSpec(path, "model");
  if (!content.ok())
    return SpecProblem{file,
                       entry->node.line,
                       entry->node.column,
                       message("cannot read the model '{}' ({})", modelPath, content.error().why),
                       "expected a model's fields or the path of a file with them",
                       "model"}
        .error();
  SpecText model = SpecText::parse(*content, path, SpecKind::kModel);
  if (!model.ok()) return model.problems().front().error();
  YamlFailure failure;
  entry->node = {};
  parseYaml(*content, entry->node, failure);
  absoluteInit(entry->node, folderOf(path));
  return std::optional(std::move(model));
}

// Locates an error, in the model's own file if it has one.
SpecProblem locate(Error error, const SpecText& run, const std::optional<SpecText>& model) {
  if (!model || !error.field.starts_with("model")) return run.locate(error);
  if (error.field.starts_with("model.")) error.field.erase(0, 6);
  return model->locate(error);
}

}  // namespace

Result<RunSpecFile> completeRunSpec(const std::string& yaml, const std::string& file,
                                    const std::vector<std::string>& sets) {
  YamlNode root;
  YamlFailure failure;
  if (!parseYaml(yaml, root, failure)) {
    return SpecProblem{file, failure.line, failure.column, failure.what, failure.expected, ""}
        .error();
  }
  // Mistakes of the file are told before what --set adds.
  auto spec = std::make_shared<spec::v1::RunSpec>();
  std::string modelPath;
  std::vector<SpecProblem> problems;
  decode(root, file, *spec, &modelPath, problems);
  if (!problems.empty()) return problems.front().error();

  const SpecText text = SpecText::parse(yaml, file, SpecKind::kRun);
  std::optional<SpecText> model;
  if (!modelPath.empty()) {
    LOCKSTEP_ASSIGN(model, insertModel(root, file, modelPath));
  }
  for (const auto& assignment : sets) {
    LOCKSTEP_TRY(merge(root, assignment));
    auto with = std::make_shared<spec::v1::RunSpec>();
    std::vector<SpecProblem> wrong;
    decode(root, file, *with, nullptr, wrong);
    if (!wrong.empty()) {
      return invalidArgument("--set {}: {}", assignment, wrong.front().message());
    }
    spec = std::move(with);
  }
  if (sets.empty() && model) {
    spec->Clear();
    decode(root, file, *spec, nullptr, problems);
  }
  absoluteData(*spec, folderOf(file));
  if (const Status status = specs::checkAndFill(*spec); !status.ok())
    return errorOf(locate(status.error(), text, model), status.error().field, sets);
  return RunSpecFile{std::move(spec), yaml, file, sets};
}

Result<RunSpecFile> completeDataSpec(const std::string& yaml, const std::string& file) {
  auto whole = completeRunSpec(yaml, file);
  const SpecText text = SpecText::parse(yaml, file, SpecKind::kRun);
  if (whole.ok() || !text.readable() || text.value("model")) return whole;
  const spec::v1::ModelSpec& written = text.run()->model();
  auto spec = std::make_shared<spec::v1::RunSpec>();
  *spec->mutable_data() = text.run()->data();
  spec::v1::ModelSpec& model = *spec->mutable_model();
  *model.mutable_input() = written.input();
  model.set_loss(written.loss().empty() ? "cross-entropy" : written.loss());
  model.set_classes(written.classes());
  if (model.loss() == "binary-cross-entropy") model.set_classes(2);
  absoluteData(*spec, folderOf(file));
  const Status status = specs::fillData(*spec->mutable_data(), model);
  if (!status.ok()) return text.locate(status.error()).error();
  return RunSpecFile{std::move(spec), yaml, file, {}};
}

Status mustHaveModel(const RunSpecFile& file) {
  if (!file.spec->has_workload()) return {};
  Error error = invalidArgument("{} runs a program of its own", file.file);
  error.why = "what it computes and exchanges is not known, so it has no plan";
  error.next = "lockstep run, or name a run with a model";
  error.field = "workload";
  return error;
}

Error errorOf(const SpecProblem& problem, const std::string& field,
              const std::vector<std::string>& sets) {
  const auto assigns = [&field](const std::string& assignment) {
    const std::string path = assignment.substr(0, assignment.find('='));
    return field == path || field.starts_with(path + ".") || field.starts_with(path + "[");
  };
  const auto last = std::find_if(sets.rbegin(), sets.rend(), assigns);
  if (last == sets.rend()) return problem.error();
  return withRemedies(invalidArgument("--set {}: {}", *last, problem.message()), problem.remedies);
}

Result<RunSpecFile> loadRunSpec(const std::string& path, const std::vector<std::string>& sets) {
  LOCKSTEP_ASSIGN(const std::string text, readSpec(path, "spec"));
  return completeRunSpec(text, path, sets);
}

Result<RunSpecFile> loadDataSpec(const std::string& path) {
  LOCKSTEP_ASSIGN(const std::string text, readSpec(path, "spec"));
  return completeDataSpec(text, path);
}

Result<ClusterSpecFile> completeClusterSpec(const std::string& yaml, const std::string& file) {
  const SpecText text = SpecText::parse(yaml, file, SpecKind::kCluster);
  if (!text.ok()) return text.problems().front().error();
  LOCKSTEP_ASSIGN(spec::v1::ClusterSpec whole, specs::withExpectedNodes(*text.cluster()));
  auto spec = std::make_shared<spec::v1::ClusterSpec>(std::move(whole));
  for (auto& node : *spec->mutable_nodes()) {
    if (!node.has_ssh() && !spec->has_placement())
      node.set_workdir(absolutePath(node.workdir(), folderOf(file)));
  }
  return ClusterSpecFile{std::move(spec), yaml, file, yaml};
}

Result<ClusterSpecFile> loadClusterSpec(const std::string& path) {
  LOCKSTEP_ASSIGN(const std::string text, readSpec(path, "cluster"));
  return completeClusterSpec(text, path);
}

Status applySet(spec::v1::RunSpec& spec, std::string_view assignment) {
  YamlNode root;
  YamlFailure failure;
  if (!parseYaml(toYaml(spec), root, failure)) return invalidArgument("{}", failure.what);
  LOCKSTEP_TRY(merge(root, std::string(assignment)));
  spec::v1::RunSpec with;
  std::vector<SpecProblem> problems;
  decode(root, "--set", with, nullptr, problems);
  if (!problems.empty()) {
    return invalidArgument("--set {}: {}", assignment, problems.front().message());
  }
  spec = with;
  return {};
}

ClusterSpecFile localCluster(int nodes, const std::string& localFolder, const std::string& comm) {
  auto spec = std::make_shared<spec::v1::ClusterSpec>();
  spec->set_version(1);
  spec->set_comm(comm);
  const bool oneNode = comm == "shm" || comm == "nccl" || comm == "in-process" || nodes == 1;
  spec->set_name("local-" + std::to_string(nodes));
  const int count = oneNode ? 1 : nodes;
  for (int i = 1; i <= count; ++i) {
    auto* node = spec->add_nodes();
    node->set_name("local" + std::to_string(i));
    node->set_workdir(localFolder + "/" + std::to_string(i));
    if (!oneNode) node->set_address("127.0.0.1");
    auto* device = node->add_devices();
    device->set_kind("cpu");
    device->set_count(oneNode ? nodes : 1);
    device->set_threads(1);
  }
  const std::string yaml = toYaml(*spec);
  return {std::move(spec), yaml, "local", yaml};
}

Result<ClusterSpecFile> withRanks(ClusterSpecFile cluster, const std::vector<std::string>& ranks) {
  if (ranks.empty()) return cluster;
  if (specs::awaitsAllocation(*cluster.spec)) {
    Error error =
        invalidArgument("--ranks {}: the scheduler has not allocated the nodes yet", ranks.front());
    error.next = "give placement.devices in the cluster instead";
    return error;
  }
  auto spec = std::make_shared<spec::v1::ClusterSpec>(*cluster.spec);
  for (const std::string& assignment : ranks) {
    const std::size_t equals = assignment.rfind('=');
    const std::string name = assignment.substr(0, equals);
    const std::string number = equals == std::string::npos ? "" : assignment.substr(equals + 1);
    int count = 0;
    const auto [end, wrong] = std::from_chars(number.data(), number.data() + number.size(), count);
    if (wrong != std::errc() || end != number.data() + number.size() || count < 1 || count > 4096) {
      return invalidArgument("--ranks {}: NODE=N was expected, N from 1 to 4096", assignment);
    }
    const auto wanted = specs::NamePattern::parse(name);
    if (!wanted.ok()) return invalidArgument("--ranks {}: {}", assignment, wanted.error().what);
    bool isKnown = false;
    for (spec::v1::NodeSpec& node : *spec->mutable_nodes()) {
      if (!wanted->matches(node.name())) continue;
      isKnown = true;
      if (node.devices_size() > 1) {
        Error error = invalidArgument("--ranks {}: node {} has several kinds of devices",
                                      assignment, node.name());
        error.next = "change their counts in the cluster";
        return error;
      }
      auto* device = node.devices().empty() ? node.add_devices() : node.mutable_devices(0);
      if (device->kind().empty()) device->set_kind("cpu");
      device->set_count(count);
    }
    if (!isKnown)
      return invalidArgument("--ranks {}: the cluster has no node {}", assignment, name);
  }
  cluster.yaml = toYaml(*spec);
  cluster.spec = std::move(spec);
  return cluster;
}

Result<ClusterSpecFile> withRequeue(ClusterSpecFile cluster, bool requeue) {
  if (!cluster.spec->has_placement())
    return invalidArgument("{}: no scheduler provides its nodes, so none queues its runs again",
                           cluster.file);
  auto spec = std::make_shared<spec::v1::ClusterSpec>(*cluster.spec);
  spec->mutable_placement()->set_requeue(requeue);
  // Without the stand-ins of nodes that are not allocated yet.
  const spec::v1::ClusterSpec own =
      specs::awaitsAllocation(*spec) ? specs::withoutAllocation(*spec) : *spec;
  LOCKSTEP_TRY(specs::checkPlacement(own));
  cluster.yaml = toYaml(own);
  cluster.spec = std::move(spec);
  return cluster;
}

Result<std::vector<LayerRow>> describeModel(const spec::v1::ModelSpec& spec) {
  LOCKSTEP_ASSIGN(const models::Model model, specs::toModel(spec));
  LOCKSTEP_ASSIGN(const std::vector<models::LayerInfo> infos, models::describe(model));
  std::vector<LayerRow> rows;
  for (const auto& info : infos) {
    rows.push_back({info.name, info.kind, shapeText(info.output), info.parameters,
                    info.forwardFlops, info.activationBytes});
  }
  return rows;
}

}  // namespace lockstep::app
