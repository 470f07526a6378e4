// known_hosts files: a file that does not name the key never makes it known.
#include "app/ssh/known_hosts.h"

#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {
namespace {

const app::HostKey kKey{"ssh-ed25519",
                        "AAAAC3NzaC1lZDI1NTE5AAAAIHVzZWQgYnkgdGVzdHMgYWxvbmU=", "SHA256:x"};

}  // namespace

std::vector<std::string> seeds() {
  const std::string hashed = scratchFolder() + "/seed";
  for (const bool hash : {false, true})
    LOCKSTEP_CHECK(app::addHostKey(hashed, "[n1]:2222", kKey, hash).ok());
  const std::string line = kKey.type + " " + kKey.base64;
  return {fileBytes(hashed), "# comment\n@revoked n*,!n2 " + line + "\nN1,*.lab " + line + " me\n",
          "@cert-authority * " + line + "\nn1 ssh-rsa AAAA\n\n|1|x|y ssh-rsa AAAA\n"};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  const std::string_view text = fuzz::textOf(bytes, size);
  const std::string file = fuzz::scratchFile("known_hosts", text);
  for (const char* name : {"n1", "[n1]:2222"}) {
    const auto answer = app::lookUpHostKey({file}, name, fuzz::kKey);
    if (answer.ok() && answer->verdict == app::HostKeyVerdict::kKnown)
      LOCKSTEP_CHECK(text.find(fuzz::kKey.base64) != std::string_view::npos);
    (void)app::knownKeyTypes({file}, name);
  }
  LOCKSTEP_CHECK(app::addHostKey(file, "n9", fuzz::kKey, false).ok());
  const auto added = app::lookUpHostKey({file}, "n9", fuzz::kKey);
  LOCKSTEP_CHECK(added.ok() && added->verdict != app::HostKeyVerdict::kUnknown);
  return 0;
}
