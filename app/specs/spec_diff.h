// Differences between the specs of runs.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace lockstep::app {

using SpecFields = std::map<std::string, std::string>;
// All written fields of a run spec, "training.batch" → "64", and the kinds of its layers,
// "model.layers[1]" → "dense"; none of one that cannot be read.
SpecFields specFields(const std::string& yaml);

struct SpecDifference {
  std::string field;
  std::vector<std::string> values;  // of each spec; "": not written
};
// The fields that are not equal in all specs, by name.
std::vector<SpecDifference> specDifferences(const std::vector<SpecFields>& specs);

}  // namespace lockstep::app
