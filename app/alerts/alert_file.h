// The file of the alert rules, alert-rules.yaml in the home folder. Fields that are left out have
// their defaults.
#pragma once

#include <string>

#include "app/alerts/alert_rules.h"
#include "app/core/home.h"

namespace lockstep::app {

std::string alertFile(const Home& home);
// Returns the defaults if there is no file. Errors: kInvalidArgument with file, line and field.
Result<AlertSettings> loadAlertSettings(const std::string& file);
// Replaces the file atomically; readable by its owner only, since it may contain secrets.
Status saveAlertSettings(const std::string& file, const AlertSettings& settings);

Result<AlertSettings> parseAlertSettings(const std::string& text, const std::string& file);
std::string alertYaml(const AlertSettings& settings);

}  // namespace lockstep::app
