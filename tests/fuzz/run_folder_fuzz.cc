// The small files of a node: a run's request, state and supervisor ('r', 's', 'v'), and the facts
// about data files ('d'; FILE stands for the key of a file that is there).
#include "agent/base/run_folder.h"

#include <unistd.h>

#include "agent/worker/consistency.h"
#include "agent/worker/prepare.h"
#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {
namespace {

std::string folder() { return scratchFolder() + "/"; }

// The facts of a file, as the cache keeps them, and the key within.
struct KnownFile {
  std::string path = scratchFile("file", "text"), line, key;
  KnownFile() {
    agent::DataCache cache({scratchFolder(), scratchFolder()});
    LOCKSTEP_CHECK(cache.inspect(path, "text", [&] { return data::inspectText(path); }).ok());
    line = fileBytes(folder() + "data-files");
    key = line.substr(line.find(" text ") + 1);
    key.pop_back();
  }
};
const KnownFile& knownFile() {
  static const KnownFile file;
  return file;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

}  // namespace

std::vector<std::string> seeds() {
  const agent::RunFolder run{scratchFolder(), scratchFolder()};
  LOCKSTEP_CHECK(run.writeState(run::v1::RUNNING).ok());
  LOCKSTEP_CHECK(agent::writeSupervisor(run, {getpid(), "/no/socket", "10.0.0.1:99"}).ok());
  node::v1::PrepareRequest request;
  request.set_run("r");
  request.mutable_tls()->set_key_pem("key");
  agent::RankFacts facts;
  facts.rank = 1;
  facts.node = "n1";
  facts.things = {{"spec", "aa"}, {"library libz.so.1", "bb"}};
  facts.numbers = {{"loss", 0.25}};
  return {"r" + request.SerializeAsString(), "s" + fileBytes(run.state()),
          "v" + fileBytes(run.supervisor()),
          "d" + replaced(knownFile().line, knownFile().key, "FILE"), "c" + agent::factsText(facts)};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  if (size == 0) return 0;
  const std::string text(fuzz::textOf(bytes + 1, size - 1));
  const agent::RunFolder run{fuzz::scratchFolder(), fuzz::scratchFolder()};
  switch (*bytes) {
    case 'r':
      fuzz::scratchFile("request.pb", text);
      (void)run.readRequest();
      break;
    case 's':
      fuzz::scratchFile("state", text);
      LOCKSTEP_CHECK(run::v1::RunState_IsValid(run.readState()));
      break;
    case 'v': {
      fuzz::scratchFile("supervisor", text);
      static const int lock = agent::tryLock(run.lock());
      LOCKSTEP_CHECK(lock >= 0);
      (void)agent::findSupervisor(run);
      break;
    }
    case 'c':
      if (const auto facts = agent::parseFacts(text); facts.ok()) {
        std::vector<std::string> warnings;
        agent::RankFacts other = *facts;
        other.rank = other.rank == 0 ? 1 : 0;
        (void)agent::compareFacts({*facts, other}, "fp32", warnings);
      }
      break;
    case 'd': {
      const auto& file = fuzz::knownFile();
      fuzz::scratchFile("data-files", fuzz::replaced(text, "FILE", file.key));
      agent::DataCache cache({fuzz::scratchFolder(), fuzz::scratchFolder()});
      const auto facts =
          cache.inspect(file.path, "text", [&] { return data::inspectText(file.path); });
      LOCKSTEP_CHECK(facts.ok() && elementCount(facts->dimensions) >= 0);
      break;
    }
    default:
      break;
  }
  return 0;
}
