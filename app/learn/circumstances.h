// The values that a lesson's state gives to options of the run spec and to circumstances.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "app/learn/scene.h"

namespace lockstep::app {

const CircumstanceInfo* circumstance(std::string_view name);  // null: none
// Checks the name and, of a circumstance, the value. Errors: kInvalidArgument.
Status checkSetting(const std::string& name, const std::string& value);

class Circumstances {
 public:
  // Errors: kInvalidArgument for a slider or value that the lesson does not have.
  static Result<Circumstances> of(const Lesson& lesson, const LessonState& state);

  // Preconditions: the circumstance exists; for number(), it is one.
  std::string text(std::string_view name) const;
  double number(std::string_view name) const;
  int whole(std::string_view name) const { return static_cast<int>(number(name)); }
  std::vector<std::string> sets() const;              // options of the run spec, as --set
  std::string option(const std::string& path) const;  // "" if the lesson does not set it
  const std::map<std::string, std::string>& values() const { return values_; }

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace lockstep::app
