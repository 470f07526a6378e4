#include "engine/specs/freeze.h"

#include <algorithm>

#include "engine/models/model.h"
#include "engine/specs/field.h"
#include "engine/specs/node_names.h"
#include "engine/specs/specs.h"

namespace lockstep::specs {
namespace {

constexpr std::size_t kShownNames = 20;

// "block0.qkv.weight" is matched by itself, by "block0", by "block*.qkv" and by "block[0-3]".
struct FrozenNames {
  NamePattern whole, ofLayer;
  bool matches(const std::string& name) const {
    return whole.matches(name) || ofLayer.matches(name);
  }
};

Result<FrozenNames> frozenNames(const std::string& text) {
  FrozenNames out;
  LOCKSTEP_ASSIGN(out.whole, NamePattern::parse(text));
  LOCKSTEP_ASSIGN(out.ofLayer, NamePattern::parse(text + ".*"));
  return out;
}

std::string someOf(const std::vector<ir::Parameter>& parameters) {
  std::vector<std::string> names;
  for (const ir::Parameter& parameter : parameters)
    if (names.size() < kShownNames) names.push_back(parameter.name);
  return fmt::format("{}{}", fmt::join(names, ", "), names.size() < parameters.size() ? ", …" : "");
}

}  // namespace

void markFrozen(const spec::v1::TrainingSpec& training, std::vector<ir::Parameter>& parameters) {
  for (const std::string& text : training.freeze()) {
    const auto names = frozenNames(text);
    if (!names.ok()) continue;  // see checkFreeze()
    for (ir::Parameter& parameter : parameters)
      parameter.frozen = parameter.frozen || names->matches(parameter.name);
  }
}

Status checkFreeze(const spec::v1::RunSpec& run) {
  const auto& training = run.training();
  if (training.freeze().empty()) return {};
  LOCKSTEP_ASSIGN(const models::Model model, toModel(run.model()));
  auto built = models::build(model, training.batch(), DType::kF32, models::Use::kTraining, 1);
  if (!built.ok()) return {};  // the plan says why
  std::vector<ir::Parameter>& parameters = built->parameters;
  for (int i = 0; i < training.freeze_size(); ++i) {
    const std::string path = fmt::format("training.freeze[{}]", i);
    const auto names = frozenNames(training.freeze(i));
    if (!names.ok()) return wrongField(path, names.error().what);
    if (std::ranges::none_of(parameters, [&](const ir::Parameter& parameter) {
          return names->matches(parameter.name);
        }))
      return wrongField(path, message("\"{}\" matches no parameter; expected one of {}, or a "
                                      "pattern, as block* or block[0-3]",
                                      training.freeze(i), someOf(parameters)));
  }
  markFrozen(training, parameters);
  if (std::ranges::any_of(parameters, [](const auto& one) { return !one.frozen; })) return {};
  return wrongField("training.freeze",
                    "training.freeze names all parameters; expected some to be left to train",
                    {{{"training.freeze", ""}}});
}

}  // namespace lockstep::specs
