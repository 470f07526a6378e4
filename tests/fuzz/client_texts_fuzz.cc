// What the client reads besides messages and specs: what a node says where its agent does not start
// ('a'; the exit status, and the text), JSON that was kept ('j'), and earlier pre-flights ('p').
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/cluster/preflight.h"
#include "app/core/shallow_json.h"
#include "app/deploy/agent_start.h"
#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {
namespace {

void notStarted(std::string_view text) {
  if (text.empty()) return;
  const int status = static_cast<unsigned char>(text.front());
  const std::string said(text.substr(1));
  if (const auto error = app::systemdError(status, said))
    LOCKSTEP_CHECK(error->text().size() < 5000);
  if (const auto start = app::parseAgentStart(said); start.ok())
    LOCKSTEP_CHECK(app::agentStartName(*start) == said);
}

int depthOf(const nlohmann::json& value) {
  int out = 0;
  if (value.is_structured())
    for (const auto& item : value) out = std::max(out, 1 + depthOf(item));
  return out;
}
void kept(const std::string& text) {
  const auto json = app::parseShallow(text);
  LOCKSTEP_CHECK(depthOf(json) <= 101);
  (void)app::textOf(json, "node");
  if (json.is_discarded()) return;
  const nlohmann::json copy = json;
  (void)copy.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

const app::Home& home() {
  static const app::Home made{scratchFolder()};
  return made;
}
app::PreflightResult result() {
  using Kind = app::PreflightValue::Kind;
  app::PreflightResult out;
  out.values = {{Kind::kMatmul, "n1", "", 1e9},
                {Kind::kBandwidth, "n1", "n2", 1e8},
                {Kind::kGpuMatmul, "n2", "", 1e12}};
  out.values.back().gpu = 1;
  return out;
}
// The file that has the results of the cluster.
const std::string& preflights() {
  static const std::string path = [] {
    LOCKSTEP_CHECK(app::addPreflight(home(), "c", result()).ok());
    return std::filesystem::directory_iterator(home().root + "/preflight")->path().string();
  }();
  return path;
}
void measuredBefore(std::string_view text) {
  scratchFile(preflights().substr(home().root.size() + 1), text);
  const auto earlier = app::readPreflights(home(), "c");
  if (!earlier.ok()) return;
  app::PreflightResult now = result();
  app::grade(now, *earlier, 1);
  for (const app::PreflightValue& value : now.values) LOCKSTEP_CHECK(!weakText(value).empty());
}

}  // namespace

std::vector<std::string> seeds() {
  return {std::string("a\x51") + "Failed to connect to bus: No medium found\n",
          "a\x52someone\n",
          "a\x53Job for lockstep-agent.service failed.\n",
          "aasystemd",
          R"(j[{"node": "n1", "ranks": [0, 1]}, {"node": 7}])",
          "j" + std::string(300, '[') + std::string(300, ']'),
          "j" + std::string(30'000, '[') + std::string(30'000, ']'),
          "p" + fileBytes(preflights())};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep::fuzz;
  if (size == 0) return 0;
  const std::string_view text = textOf(bytes + 1, size - 1);
  if (*bytes == 'a') notStarted(text);
  if (*bytes == 'j') kept(std::string(text));
  if (*bytes == 'p') measuredBefore(text);
  return 0;
}
