// Run specs to start from: models of each kind, and a program of a person's own.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"

namespace lockstep::app {

struct ModelTemplate {
  const char* id;         // "gpt"
  const char* example;    // the example it is made from; null: an empty model
  const char* dataField;  // the file that a person brings: "text", "table"; null: none
  const char* data;       // what it is at first
  const char* title;      // English; the window has both in its languages
  const char* help;
};
const std::vector<ModelTemplate>& modelTemplates();
// Errors: kInvalidArgument, with the ids that there are.
Result<ModelTemplate> findModelTemplate(const std::string& id);

// Returns a run spec of the kind, called `name`. `example` is the text of its example, `data` its
// data file, if the kind needs one. Errors: kInvalidArgument for an example without a field of it.
Result<std::string> newRunSpec(const ModelTemplate& kind, std::string example,
                               const std::string& name, const std::string& data);

}  // namespace lockstep::app
