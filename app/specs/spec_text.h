// SpecText: the YAML of a spec, its parsed form, and the location of each field. The text is
// authoritative: edits are small replacements in it, so comments and layout survive.
//
// Paths name the fields of proto/lockstep/spec/v1/spec.proto: "training.optimizer.learning_rate",
// "model.layers[1].conv2d.kernel", "nodes[0].ssh.host", "nodes[0].data[train/x.gz]" (map entry).
//
// The YAML has the fields' names, with layers in a compact form:  - conv2d: {filters: 32, kernel:
// 3} No anchors, aliases, tags, second documents or duplicate keys; at most 1 MiB and 32 levels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/status.h"

namespace lockstep::spec::v1 {
class RunSpec;
class ClusterSpec;
class ModelSpec;
}  // namespace lockstep::spec::v1

namespace lockstep::app {

enum class SpecKind : std::uint8_t { kRun, kCluster, kModel };

struct SpecProblem {
  std::string file;
  int line = 0, column = 0;  // from 1; 0: of the whole file
  Message what;              // "unknown field 'optimiser' in training"
  Message expected;          // "did you mean 'optimizer'?", "expected a whole number"
  std::string path;          // of the field, as far as it is known
  std::vector<Remedy> remedies;
  bool missing = false;     // it is not in the text yet, or an empty list: not a mistake but a gap
  Message message() const;  // "what, expected"
  Error error() const;  // kInvalidArgument: "file:line:column: what, expected", with the remedies
};

struct TextMark {
  int line = 0, column = 0;            // from 1
  std::size_t offset = 0, length = 0;  // bytes in the text
};

struct TextEdit {
  std::size_t offset = 0, length = 0;  // bytes replaced
  std::string replacement;
  std::string applied(std::string_view text) const;
};

enum class FieldType : std::uint8_t {
  kText,
  kInteger,
  kNumber,
  kBoolean,
  kMessage,
  kTextList,
  kIntegerList,
  kNumberList,
  kMessageList,
  kMap,
};
// A text of the option table in the studio's languages.
struct OptionText {
  std::string english, chinese;
  bool empty() const { return english.empty(); }
};
// Properties of a field, from the option table.
struct FieldInfo {
  std::string name;
  FieldType type = FieldType::kText;
  OptionText label;
  OptionText help;                   // one line
  OptionText unset;                  // what leaving it out means: "automatic", "64"; "": required
  std::vector<std::string> choices;  // of a text field with a closed set; empty: any text
  std::string unit;
  std::optional<double> min, max, below;  // of a number; `below` is exclusive
  std::string usedWith;   // "kind sgd": else the field is refused; "": always allowed
  bool needed = false;    // has no default
  bool file = false;      // names a file of this machine
  bool advanced = false;  // forms show it on request
};
struct LayerKind {
  FieldInfo field;   // name "conv2d", label, help
  std::string yaml;  // a new layer of this kind: "conv2d: {filters: 32, kernel: 3}"
};

class SpecText {
 public:
  // Never fails: what is wrong is in problems(). The empty text is an empty spec.
  static SpecText parse(std::string text, std::string file, SpecKind kind);

  const std::string& text() const;
  const std::string& file() const;
  SpecKind kind() const;
  bool readable() const;  // YAML that parses: values, marks and edits work even if fields are wrong
  bool ok() const;        // readable, and no problem
  // YAML and field problems, in order of place; where there are none, what checkAndFill, the
  // model builder and the cluster's rules say, placed at the field they name.
  const std::vector<SpecProblem>& problems() const;

  // Return the spec as written, without defaults; null for another kind, or if fields are invalid.
  // Only loadRunSpec reads a run's model that is in a file of its own.
  std::shared_ptr<const spec::v1::RunSpec> run() const;
  std::shared_ptr<const spec::v1::ClusterSpec> cluster() const;
  std::shared_ptr<const spec::v1::ModelSpec> model() const;  // kModel, or a run's inline model

  std::optional<TextMark> mark(std::string_view path) const;  // of the value
  // Returns a scalar, unquoted; a list of scalars as "28, 28, 1".
  std::optional<std::string> value(std::string_view path) const;
  // Returns the default of a scalar that is left out; nullopt if it has none.
  std::optional<std::string> defaultOf(std::string_view path) const;
  int count(std::string_view path) const;                      // items of a list, keys of a map
  std::vector<std::string> keys(std::string_view path) const;  // of a map as written, in order
  // Returns the kind of a layer: "conv2d" of "model.layers[1]"; "" if there is none.
  std::string layerKind(std::string_view path) const;
  // Returns the names of nodes, or of their hosts, that a value stands for: of "n[1-3]" three. Of
  // ranges that are wrong, as they are written. Empty: there is no value.
  std::vector<std::string> nodeNames(std::string_view path) const;
  // Returns the entries of a cluster's links that are of one of these nodes, or of none yet.
  std::vector<int> linksOf(const std::vector<std::string>& nodes) const;
  // Returns the value with one of those left out. A value without ranges stays as it is; "": there
  // is none. Errors: kInvalidArgument for several ranges.
  Result<std::string> withoutNode(std::string_view path, std::size_t index) const;
  // Returns the names of the model's layers, including generated names.
  std::vector<std::string> layerNames() const;
  // Returns the stage of each layer by strategy.pins.
  std::vector<int> layerStages() const;
  // Returns the YAML of strategy.pins for these stages, in one line.
  static std::string pins(const std::vector<std::string>& layers, const std::vector<int>& stages);

  // Edits: pure, to be applied to text() by the caller. `value` is text without quotes, quoted
  // where YAML needs it; of a list "28, 28, 1"; of messages YAML in one line. A field not there yet
  // is added to its (perhaps new) parent; an empty value removes the field. What is added is
  // written as toYaml() writes. Errors: kFailedPrecondition (not readable), kInvalidArgument
  // (path).
  Result<TextEdit> edit(std::string_view path, std::string_view value) const;
  // `yaml` is one item in one line: "conv2d: {filters: 32, kernel: 3}", "name: n4". index = count
  // appends.
  Result<TextEdit> insertItem(std::string_view listPath, int index, std::string_view yaml) const;
  Result<TextEdit> removeItem(std::string_view listPath, int index) const;
  Result<TextEdit> moveItem(std::string_view listPath, int from, int to) const;

  // The fields below a message: "training", "model.layers[].conv2d", "nodes[]"; "" is the whole.
  // Indices in brackets are ignored. Empty for what is no message.
  static std::vector<FieldInfo> fields(SpecKind kind, std::string_view path);
  // Returns the field at `path`: "strategy.stages", "nodes.ssh.host"; nullopt if there is none.
  static std::optional<FieldInfo> field(SpecKind kind, std::string_view path);
  // Returns whether the field `name` of the message at `path` has an effect where the message has
  // these values of its scalar fields.
  static bool isUsed(SpecKind kind, std::string_view path, std::string_view name,
                     const std::vector<std::pair<std::string, std::string>>& values);
  // Returns the kinds of layers, in the order of the spec's definition.
  static std::vector<LayerKind> layerKinds();
  // The place in this text of an error whose `why` is a path.
  SpecProblem locate(const Error& error) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

// Reads, parses, puts a model given by path in its place, makes relative data paths absolute (from
// the folder of the spec's file), and checks. Errors: the first problem; kNotFound. Defaults are
// filled in (specs::checkAndFill).
struct RunSpecFile {
  std::shared_ptr<const spec::v1::RunSpec> spec;
  std::string yaml;  // as written
  std::string file;
  std::vector<std::string> sets;  // what was assigned besides
};
struct ClusterSpecFile {
  std::shared_ptr<const spec::v1::ClusterSpec> spec;
  std::string yaml;  // of this spec
  std::string file;
  std::string written;  // the text of `file`: places in it are of this text, whatever changed since
};
// `sets` are "path=value" (value in YAML; none leaves the field out), applied before the checks.
Result<RunSpecFile> loadRunSpec(const std::string& path, const std::vector<std::string>& sets = {});
Result<ClusterSpecFile> loadClusterSpec(const std::string& path);
// The same for a text not saved yet; `file` gives the folder for relative paths.
Result<RunSpecFile> completeRunSpec(const std::string& yaml, const std::string& file,
                                    const std::vector<std::string>& sets = {});
Result<ClusterSpecFile> completeClusterSpec(const std::string& yaml, const std::string& file);
// Refuses a run of a program of the user's own: it has no model that could be planned or measured.
Status mustHaveModel(const RunSpecFile& file);
// The problem of a field as an error: it names the one of `sets` that assigned the field, or else
// the place in the file.
Error errorOf(const SpecProblem& problem, const std::string& field,
              const std::vector<std::string>& sets);
// "path=value" on a spec: paths start at model, training, strategy, data.
Status applySet(spec::v1::RunSpec& spec, std::string_view assignment);

std::string toYaml(const spec::v1::RunSpec& spec);
std::string toYaml(const spec::v1::ClusterSpec& spec);

// YAML of a cluster from what other tools use. TF_CONFIG is its JSON; a hostfile has lines
// "host slots=4" (MPI, DeepSpeed), '#' begins a comment. Errors: kInvalidArgument with the line.
Result<std::string> importTfConfig(std::string_view json, std::string_view name);
Result<std::string> importHostfile(std::string_view text, std::string_view name);
// N agents on this machine; `home` gives each its work folder. comm "shm": one node of N ranks,
// since two nodes cannot share memory.
ClusterSpecFile localCluster(int nodes, const std::string& localFolder, const std::string& comm);

// The same cluster with other numbers of ranks on some nodes: "NODE=N" each, where NODE may be a
// range or a pattern of names (engine/specs/node_names.h). Errors: kInvalidArgument where there is
// no such node, N is no number of at least 1, or the node has
// devices of several kinds.
Result<ClusterSpecFile> withRanks(ClusterSpecFile cluster, const std::vector<std::string>& ranks);
// The same cluster with this placement.requeue. Errors: kInvalidArgument where no scheduler
// provides its nodes, and as specs::checkPlacement().
Result<ClusterSpecFile> withRequeue(ClusterSpecFile cluster, bool requeue);

// Describes a model layer by layer, for one sample.
struct LayerRow {
  std::string name, kind;
  std::string output;  // "26x26x32"
  std::int64_t parameters = 0;
  double forwardFlops = 0;
  std::int64_t activationBytes = 0;
};
Result<std::vector<LayerRow>> describeModel(const spec::v1::ModelSpec& model);

}  // namespace lockstep::app
