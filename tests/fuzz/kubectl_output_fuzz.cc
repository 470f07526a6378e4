// What kubectl prints: names and addresses that are accepted are safe in a command.
#include "app/kubernetes/kubectl.h"

#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {

std::vector<std::string> seeds() {
  return {
      R"({"metadata":{"uid":"6f1c1a52-7f0b-4c11-9d3c-1c1f4c8f0a11"}})",
      R"({"items":[{"kind":"Job","spec":{"suspend":true},"status":{"conditions":[{"type":"Failed",)"
      R"("status":"True","reason":"DeadlineExceeded","message":"late"}]}},{"kind":"Pod","metadata":)"
      R"({"name":"lockstep-1-0-x","annotations":{"batch.kubernetes.io/job-completion-index":"0"}},)"
      R"("status":{"phase":"Running","podIP":"10.0.0.1","containerStatuses":[{"state":{"running":{}}}],)"
      R"("conditions":[{"type":"DisruptionTarget","status":"True"}]}}]})",
      R"({"items":[{"kind":"Job","status":{}},{"kind":"Pod","metadata":{"name":"p","annotations":)"
      R"({"batch.kubernetes.io/job-completion-index":"1"}},"status":{"phase":"Pending","conditions":)"
      R"([{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/3 nodes"}]}}]})",
      R"({"items":[{"reason":"FailedCreate","message":"exceeded quota"}]})"};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  const std::string_view text = fuzz::textOf(bytes, size);
  if (const auto uid = app::parseUid(text); uid.ok()) LOCKSTEP_CHECK(fuzz::isSafeWord("u" + *uid));
  if (const auto job = app::parsePods(text, 1); job.ok()) {
    for (const auto& pod : job->pods) {
      LOCKSTEP_CHECK(fuzz::isSafeWord(pod.name) && pod.index >= 0);
      LOCKSTEP_CHECK(pod.address.empty() || fuzz::isSafeWord(pod.address));
      LOCKSTEP_CHECK(!pod.ready || !pod.address.empty());
    }
    if (job->phase == app::JobState::Phase::kRunning) LOCKSTEP_CHECK(!job->pods.empty());
  }
  (void)app::parseLastEvent(text);
  return 0;
}
