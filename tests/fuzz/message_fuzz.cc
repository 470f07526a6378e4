// Messages and errors in their forms on the wire and in the history, and lines of logs.
#include <nlohmann/json.hpp>

#include "agent/base/line_collector.h"
#include "app/runs/log_line.h"
#include "app/runs/preview.h"
#include "app/runs/rank_debug.h"
#include "app/runs/relaunch.h"
#include "app/runs/run_environment.h"
#include "app/runs/run_nodes.h"
#include "engine/base/utf8.h"
#include "engine/specs/error_info.h"
#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {

std::vector<std::string> seeds() {
  Error error = makeError(Code::kDataLoss, "data file {} has {} bytes", "a", 3);
  error.why = message("{}: {}", "it is", message("short by {}", 2));
  return {
      specs::toJson(error.message()),
      specs::toInfo(error).SerializeAsString(),
      specs::toText(error.message()).SerializeAsString(),
      R"({"step_seconds": 0.1, "measured": true, "comm": "shm", "remark_messages":
 [{"text": "t", "id": "%1", "arguments": []}], "ranks": [{"rank": 0, "node": "n1", "samples": 8,
 "threads": 1, "forward": 0.2, "parameter_bytes": 100}, {"rank": 1}]})",
      R"({"remark_messages": [)" + std::string(30'000, '[') + std::string(30'000, ']') + "]}",
      R"([{"node": "n0"}, {"node": "n1", "host": "h", "socket": "/s", "folder": "/f", "ranks": [0, 1]}])",
      R"([{"node": )" + std::string(30'000, '[') + std::string(30'000, ']') + "}]",
      "2024-05-01T12:00:00.123Z I text\n9999-99-99T99:99:99.999Z E \xff\n\n"};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  const std::string text(fuzz::textOf(bytes, size));
  (void)specs::toJson(specs::messageFromJson(text));
  run::v1::ErrorInfo info;
  if (info.ParseFromString(text)) {
    const Error error = specs::fromInfo(info);
    (void)error.text();
    run::v1::ErrorInfo again;
    LOCKSTEP_CHECK(again.ParseFromString(specs::toInfo(error).SerializeAsString()));
  }
  run::v1::Text nested;
  if (nested.ParseFromString(text)) (void)specs::toJson(specs::fromText(nested));
  if (const auto preview = app::parsePrediction(text); preview.ok())
    (void)app::previewText(*preview);
  LOCKSTEP_CHECK(app::launchedRanks(app::nodesFrom(text, "n1")).size() ==
                 app::launchedRanks(text).size());
  (void)app::environmentFields(app::nodeEnvironments(text));
  if (nlohmann::json::accept(text)) {  // else it only says so, after the check of an empty spec
    app::RunDocuments documents;
    documents.nodes = text;
    (void)app::checkpointFoldersOf("r", documents);
  }

  agent::LineCollector lines;
  std::uint64_t dropped = 0;
  lines.add(text, 1);
  lines.end(2);
  for (const std::string& line : lines.take(dropped)) {
    LOCKSTEP_CHECK(firstNotUtf8(line) == std::string::npos);
    LOCKSTEP_CHECK(app::parseLogLine(line).text.size() <= line.size());
  }
  return 0;
}
