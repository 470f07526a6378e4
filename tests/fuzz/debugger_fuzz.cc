// What passes between a debugger and the gdbserver of a rank: which breakpoints it leaves behind
// depends neither on the pieces in which the packets come nor on what is no packet. The debugger
// and the server speak in turn, with a zero byte between.
#include "agent/host/debugger.h"

#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {
namespace {

agent::DebuggerWatch watch(std::string_view bytes, std::size_t piece) {
  agent::DebuggerWatch out;
  bool fromServer = false;
  while (!bytes.empty()) {
    std::string_view said = takeUntil(bytes, '\0');
    while (!said.empty()) {
      const std::string_view part = said.substr(0, piece);
      fromServer ? out.fromServer(part) : out.fromDebugger(part);
      said.remove_prefix(part.size());
    }
    fromServer = !fromServer;
  }
  return out;
}

std::string turns(std::initializer_list<std::string_view> bodies) {
  std::string out;
  for (const std::string_view body : bodies) {
    if (!out.empty()) out += '\0';
    out += fmt::format("+${}#00", body);
  }
  return out;
}

}  // namespace

std::vector<std::string> seeds() {
  return {turns({"qSupported:multiprocess+;swbreak+", "PacketSize=47ff", "Z0,401136,1", "OK",
                 "vCont;c", "T05swbreak:;thread:p1.1;", "z0,401136,1", "OK", "D;1", "OK"}),
          turns({"Z0,401136,1;cond", "OK", "Z1,401140,1", "E01", "c", "W00"}),
          turns({"Z0,1,1", "OK"}) + std::string("\0%Stop:T05#00+-\x03$k#6b", 22)};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  const std::string_view text = fuzz::textOf(bytes, size);
  const agent::DebuggerWatch whole = fuzz::watch(text, std::string_view::npos);
  const agent::DebuggerWatch single = fuzz::watch(text, 1);
  LOCKSTEP_CHECK(whole.breakpoints() == single.breakpoints());
  LOCKSTEP_CHECK(whole.isRunning() == single.isRunning() &&
                 whole.isDetached() == single.isDetached() &&
                 whole.awaitsReply() == single.awaitsReply());
  for (const std::string& breakpoint : whole.breakpoints())
    LOCKSTEP_CHECK(breakpoint.find_first_of("#;") == std::string::npos, "{}", breakpoint);
  return 0;
}
