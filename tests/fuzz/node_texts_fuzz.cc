// What a node's kernel tells of itself: records and lines of its log, and /proc/PID/stat, whose
// names are those that programs give themselves. All texts go on in messages, as UTF-8.
#include "agent/host/kernel_log.h"
#include "agent/host/processes.h"
#include "engine/base/utf8.h"
#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {

std::vector<std::string> seeds() {
  return {"6,339,5140900,-;NET: Registered protocol family 10\\x0a\\xff\n SUBSYSTEM=net\n",
          "<4>[   12.345678] usb 1-1: device descriptor read/64, error -71", "<6>no time",
          "4711 (a b) c) S 1 4711 4711 0 -1 4194560 1 0 0 0 12 34 0 0 20 0 3 0 5678 1024 99\n"};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  const std::string_view text = fuzz::textOf(bytes, size);
  for (const auto& line : {agent::parseKernelRecord(text), agent::parseKernelLine(text)})
    if (line)
      LOCKSTEP_CHECK(line->level() >= 0 && line->level() < 8 && line->boot_ns() >= 0 &&
                     firstNotUtf8(line->text()) == std::string::npos);
  if (const auto stat = agent::parseProcessStat(text))
    LOCKSTEP_CHECK(firstNotUtf8(stat->name) == std::string::npos);
  return 0;
}
