#include "engine/specs/freeze.h"

#include <fnmatch.h>

#include <algorithm>

#include "engine/models/model.h"
#include "engine/specs/field.h"
#include "engine/specs/specs.h"

namespace lockstep::specs {
namespace {

constexpr std::size_t kShownNames = 20;

// "block0.qkv.weight" is matched by itself, by "block0" and by "block*.qkv".
bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0 ||
         fnmatch((pattern + ".*").c_str(), name.c_str(), 0) == 0;
}

std::string someOf(const std::vector<ir::Parameter>& parameters) {
  std::vector<std::string> names;
  for (const ir::Parameter& parameter : parameters)
    if (names.size() < kShownNames) names.push_back(parameter.name);
  return fmt::format("{}{}", fmt::join(names, ", "), names.size() < parameters.size() ? ", …" : "");
}

}  // namespace

void markFrozen(const spec::v1::TrainingSpec& training, std::vector<ir::Parameter>& parameters) {
  for (ir::Parameter& parameter : parameters)
    parameter.frozen = std::ranges::any_of(training.freeze(), [&](const std::string& pattern) {
      return matches(pattern, parameter.name);
    });
}

Status checkFreeze(const spec::v1::RunSpec& run) {
  const auto& training = run.training();
  if (training.freeze().empty()) return {};
  LOCKSTEP_ASSIGN(const models::Model model, toModel(run.model()));
  auto built = models::build(model, training.batch(), DType::kF32, models::Use::kTraining, 1);
  if (!built.ok()) return {};  // the plan says why
  std::vector<ir::Parameter>& parameters = built->parameters;
  for (int i = 0; i < training.freeze_size(); ++i)
    if (std::ranges::none_of(parameters, [&](const ir::Parameter& parameter) {
          return matches(training.freeze(i), parameter.name);
        })) {
      const std::string path = fmt::format("training.freeze[{}]", i);
      return wrongField(path, message("\"{}\" is the name of no layer or parameter; expected one "
                                      "of {}, or a pattern with *",
                                      training.freeze(i), someOf(parameters)));
    }
  markFrozen(training, parameters);
  if (std::ranges::any_of(parameters, [](const auto& one) { return !one.frozen; })) return {};
  return wrongField("training.freeze",
                    "training.freeze names all parameters; expected some to be left to train",
                    {{{"training.freeze", ""}}});
}

}  // namespace lockstep::specs
