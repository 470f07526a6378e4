// The file of the alert rules.
#include "app/alerts/alert_file.h"
#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {

std::vector<std::string> seeds() {
  app::AlertSettings settings;
  settings.command = "notify 'a b' \"c\"";
  settings.webhook = "https://h.example/T0/x?y=z";
  settings.of(app::AlertRule::kStall).actions = {};
  return {app::alertYaml(settings), "rules: {loss-spike: {threshold: 6, actions: [command]}}\n"};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  const auto read = app::parseAlertSettings(std::string(fuzz::textOf(bytes, size)), "f");
  if (!read.ok()) return 0;
  const auto again = app::parseAlertSettings(app::alertYaml(*read), "f");
  LOCKSTEP_CHECK(again.ok() && *again == *read, "{}", app::alertYaml(*read));
  return 0;
}
