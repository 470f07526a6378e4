// What others tell agent and worker: lines of a program's collectives ('r') and what its processes
// have counted ('c'), the text of NCCL's RAS ('n'), heads of HTTP ('h'; how many bytes come at a
// time, and the text), and AWS's credentials and settings ('s'; two files with a byte 1 between).
#include <nlohmann/json.hpp>

#include "agent/node/http_transfer.h"
#include "agent/node/s3.h"
#include "agent/workload/collective_counts.h"
#include "agent/workload/counts_file.h"
#include "agent/workload/nccl_ras.h"
#include "agent/workload/recorded_collectives.h"
#include "engine/base/utf8.h"
#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {
namespace {

bool isLine(std::string_view text) {
  return firstNotUtf8(text) == std::string::npos && text.find('\n') == std::string_view::npos;
}

// What a line tells is told by a line that means the same.
void recorded(std::string_view text) {
  if (const auto told = agent::recordedOf(text))
    LOCKSTEP_CHECK(agent::recordedOf(recordedLine(*told)) == told, "{}", recordedLine(*told));
  if (const auto told = agent::countOf(text)) {
    const auto again = agent::countOf(countLine(*told));
    LOCKSTEP_CHECK(again && countLine(*again) == countLine(*told), "{}", countLine(*told));
  }
  const auto message = nlohmann::json::parse(text, nullptr, false);
  if (!message.is_object()) return;
  if (const auto told = agent::recordedIn(message)) {
    LOCKSTEP_CHECK(isLine(recordedLine(*told)));
    LOCKSTEP_CHECK(agent::recordedOf(recordedLine(*told)) == told, "{}", recordedLine(*told));
  }
}

void counted(std::string_view table) {
  LOCKSTEP_CHECK(agent::countingProcess(table) >= 0);
  const auto counts = agent::countsIn(table);
  LOCKSTEP_CHECK(counts.size() <= std::size(agent::CountsTable().entries));
  for (const agent::CollectiveCount& one : counts) {
    const std::string line = countLine(one);
    LOCKSTEP_CHECK(one.begun >= 1 && isLine(line));
    const auto again = agent::countOf(line);
    LOCKSTEP_CHECK(again && countLine(*again) == line, "{}", line);
  }
}

void answered(std::string_view text) {
  const auto lines = agent::rasLines(text);
  LOCKSTEP_CHECK(lines.size() <= 200);
  for (const std::string& line : lines)
    LOCKSTEP_CHECK(agent::isRasLine(line) && isLine(line), "{}", line);
  LOCKSTEP_CHECK(isLine(agent::rasProblems(lines)));
}

agent::HttpHeadParser headOf(std::string_view text, std::size_t piece) {
  agent::HttpHeadParser out(true);
  for (; !text.empty(); text.remove_prefix(std::min(piece, text.size())))
    out.add(text.substr(0, piece));
  return out;
}
void received(std::string_view text) {
  if (text.empty()) return;
  const std::size_t piece = 1 + static_cast<unsigned char>(text.front());
  text.remove_prefix(1);
  const auto pieces = headOf(text, piece), whole = headOf(text, text.size());
  LOCKSTEP_CHECK(pieces.complete() == whole.complete());
  LOCKSTEP_CHECK(pieces.head().status == whole.head().status);
  LOCKSTEP_CHECK(pieces.head().fields == whole.head().fields);
  LOCKSTEP_CHECK(!whole.complete() || whole.head().status >= 200);
  for (const auto& [name, value] : whole.head().fields)
    LOCKSTEP_CHECK(whole.head().number(name) >= -1 && value == whole.head().field(name));
}

void signedRequest(std::string_view text) {
  const std::string credentials = scratchFile("credentials", takeUntil(text, '\1'));
  const std::string config = scratchFile("config", text);
  const auto access = agent::s3Access([&](const char* name) -> const char* {
    const std::string_view asked = name;
    return asked == "AWS_SHARED_CREDENTIALS_FILE" ? credentials.c_str()
           : asked == "AWS_CONFIG_FILE"           ? config.c_str()
                                                  : nullptr;
  });
  if (!access.ok()) return;
  const auto request = agent::s3Request(*access, {"s3", "bucket", "a key"}, 0);
  LOCKSTEP_CHECK(request.url.starts_with("http") && request.url.ends_with("/bucket/a%20key"), "{}",
                 request.url);
  LOCKSTEP_CHECK(access->keyId.empty() == request.headers.empty());
}

std::string tableOf() {
  agent::CountsTable table{};
  table.process = 4711;
  table.entries[0] = {41, 7, 1, "all_reduce", "world"};
  table.entries[1] = {3, 6, 0, "barrier", "nccl/27a079b8"};
  return {reinterpret_cast<const char*>(&table), sizeof table};
}

}  // namespace

std::vector<std::string> seeds() {
  return {
      "rRecorded collective 41 of 43 of group nccl/world: started all_reduce, Float [1000]",
      "rRecorded transfer 1 of 2 of group gloo/1: completed send",
      "rCollective 41 of group world: in all_reduce",
      R"(r{"recorded": "all_reduce", "group": "nccl/world", "number": 41, "scheduled": 43, )"
      R"("state": "started", "sizes": "Float [1000]", "between_two": true})",
      "c" + tableOf(),
      "nJob summary\n===========\n\n  2 1 4\nErrors\n======\n\n#0-0 (cf26) INCOMPLETE\n  Missing "
      "communicator data from 1 rank\nWarnings\n========\n",
      "h\x10HTTP/1.1 301 Moved\r\nLocation: /b\r\n\r\nHTTP/2 206\r\nContent-Length: 42\r\nETag: "
      "\"x\"\r\nContent-Range: bytes 3-44/45\r\n\r\n",
      "s[default]\naws_access_key_id = AKID\naws_secret_access_key = secret\n# none\n\1[default]\n"
      "region = eu-west-1\nendpoint_url = http://host:9000/s3/\ns3 =\n  addressing_style = path\n"};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep::fuzz;
  if (size == 0) return 0;
  const std::string_view text = textOf(bytes + 1, size - 1);
  switch (*bytes) {
    case 'r':
      recorded(text);
      break;
    case 'c':
      counted(text);
      break;
    case 'n':
      answered(text);
      break;
    case 'h':
      received(text);
      break;
    case 's':
      signedRequest(text);
      break;
    default:
      break;
  }
  return 0;
}
