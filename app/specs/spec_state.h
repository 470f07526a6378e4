// The state of a SpecText: private to its sources.
#pragma once

#include <google/protobuf/descriptor.h>

#include <memory>
#include <string>
#include <vector>

#include "app/specs/spec_decode.h"
#include "app/specs/spec_text.h"
#include "app/specs/yaml_tree.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {

// Where a path leads in a text.
struct Found {
  const YamlNode* node = nullptr;          // of the longest beginning that is there
  const YamlNode::Entry* entry = nullptr;  // where the node is a field's value
  const YamlNode* parent = nullptr;
  std::size_t depth = 0;  // how many parts are there
};

YamlNode scalarNode(std::string value, bool isText);
Found walk(const YamlNode& root, const std::vector<std::string>& parts);

int indexOf(const std::string& part);        // of "[3]"; -1: it is no index
std::string keyOf(const std::string& part);  // of "name" or "[name]"

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
  // Of an error about a cluster whose nodes are expanded.
  SpecProblem atExpanded(Error error) const;
  void checkMeaning();
  void fillRest();
  Result<TextEdit> add(const Found& found, const std::vector<std::string>& parts,
                       const YamlNode& value) const;
  // The whole value of a field, anew: in a block it may take several lines.
  TextEdit rewrite(const Found& found, const YamlNode& value,
                   const google::protobuf::Descriptor* type) const;
  TextEdit remove(const Found& found) const;
};

}  // namespace lockstep::app
