// What a program's Python processes tell through their pipe: whatever it is, values have names and
// steps, steps have their order and lines a size, and it does not matter in which pieces it comes.
// The first byte is the length of the pieces.
#include "agent/workload/hook_messages.h"

#include "engine/base/utf8.h"
#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {
namespace {

using agent::HookMessages;

struct Heard {
  HookMessages::Told told;
  std::vector<std::string> stacks;
  std::vector<agent::RecordedCollective> recorded;
  std::set<int> processes;
};

Heard hear(std::string_view text, std::size_t piece) {
  Heard out;
  HookMessages messages;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, piece);
    messages.take(part, out.told);
    text.remove_prefix(part.size());
  }
  out.stacks = messages.takeStacks();
  out.recorded = messages.takeRecorded();
  out.processes = messages.processes();
  return out;
}

void check(const Heard& heard) {
  for (const auto& scalars : heard.told.values)
    for (const auto& value : scalars.scalars())
      LOCKSTEP_CHECK(!value.tag().empty() && value.step() >= 0 && !scalars.source().empty());
  for (const auto& step : heard.told.steps) {
    LOCKSTEP_CHECK(step.number >= 1 && step.begin >= 0 && step.duration >= 0);
    LOCKSTEP_CHECK(step.waiting * 1e9 <= static_cast<double>(step.duration) * (1 + 1e-9));
  }
  for (const std::string& line : heard.told.lines)
    LOCKSTEP_CHECK(firstNotUtf8(line) == std::string::npos);
  LOCKSTEP_CHECK(heard.recorded.size() <= 64);
  for (const agent::RecordedCollective& recorded : heard.recorded) {
    const std::string line = recordedLine(recorded);
    LOCKSTEP_CHECK(firstNotUtf8(line) == std::string::npos && line.size() < 2000);
    LOCKSTEP_CHECK(agent::recordedOf(line) == recorded, "{}", line);
  }
  constexpr std::size_t kLongestLine = 8192;
  for (const std::string& line : heard.stacks) {
    LOCKSTEP_CHECK(firstNotUtf8(line) == std::string::npos);
    // A byte that is not UTF-8 becomes three.
    LOCKSTEP_CHECK(line.size() <= 3 * kLongestLine, "{}", line.size());
  }
}

}  // namespace

std::vector<std::string> seeds() {
  return {
      "\x7f{\"hello\": 4711, \"stacks\": true, \"launched\": true}\n"
      "{\"source\": \"torch\", \"version\": \"2.3\", \"problem\": \"\"}\n"
      "{\"tag\": \"loss\", \"value\": 0.5, \"step\": 3, \"source\": \"log\"}\n"
      "{\"tag\": \"loss\", \"value\": \"nan\"}\n"
      "{\"line\": \"step 1\\u00e9\"}\n"
      "{\"recorded\": \"all_reduce\", \"group\": \"nccl/world\", \"number\": 41, "
      "\"scheduled\": 43, \"state\": \"started\", \"sizes\": \"Float [1000]\", "
      "\"between_two\": true}\n"
      "{\"steps\": [[1000, 50, 20, 10, 10, 5, 64], [2000, 60, 0, 1, 2, 3, 0]], \"first\": 1, "
      "\"pid\": 4711}\n",
      "\x05Thread 0x7f (most recent call first):\n  File \"train.py\", line 3 in step\n\n",
      "\xff" + std::string(500, '[') + "\n{\"tag\": " + std::string(300, '[') + "\n",
      "\xff" + std::string(9000, '\xff') + "\n"};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  if (size == 0) return 0;
  const std::string_view text = fuzz::textOf(bytes + 1, size - 1);
  const fuzz::Heard pieces = fuzz::hear(text, 1 + bytes[0]), whole = fuzz::hear(text, size);
  fuzz::check(whole);
  LOCKSTEP_CHECK(pieces.stacks == whole.stacks && pieces.processes == whole.processes);
  LOCKSTEP_CHECK(pieces.recorded == whole.recorded);
  LOCKSTEP_CHECK(pieces.told.steps.size() == whole.told.steps.size());
  LOCKSTEP_CHECK(pieces.told.sources.size() == whole.told.sources.size());
  LOCKSTEP_CHECK(pieces.told.values.size() == whole.told.values.size());
  return 0;
}
