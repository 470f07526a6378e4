// The file of a run's records on a node.
#include "agent/supervisor/spool.h"

#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/small_pages.h"

namespace lockstep::fuzz {

std::vector<std::string> seeds() {
  const std::string path = scratchFolder() + "/seed.db";
  {
    auto spool = agent::Spool::open(path, {});
    LOCKSTEP_CHECK(spool.ok());
    for (const char* line : {"one", "two", "three"}) {
      run::v1::Record record;
      record.mutable_log()->add_lines(line);
      (*spool)->append(record);
    }
    (*spool)->skip(5, "gap");
    run::v1::Record last;
    last.mutable_finished();
    (*spool)->append(last);
  }
  return {withSmallPages(path), ""};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  const std::string path = fuzz::scratchFile("spool.db", fuzz::textOf(bytes, size));
  for (const char* suffix : {"-wal", "-shm", "-journal"}) unlink((path + suffix).c_str());
  auto spool = agent::Spool::open(path, {});
  if (!spool.ok()) return 0;
  std::uint64_t after = 0;
  for (int rounds = 0; rounds < 8 && after < (*spool)->last(); ++rounds) {
    const auto batch = (*spool)->read(after, 16, 0);
    if (!batch.ok()) break;
    for (const auto& kept : *batch) {
      LOCKSTEP_CHECK(kept.sequence > after, "{} after {}", kept.sequence, after);
      after = kept.sequence;
      run::v1::Record record;
      (void)record.ParseFromString(kept.bytes);
    }
  }
  run::v1::Record record;
  record.mutable_log()->add_lines("more");
  const std::uint64_t before = (*spool)->last(), added = (*spool)->append(record);
  LOCKSTEP_CHECK(added == before + 1);
  (void)(*spool)->flush();
  return 0;
}
