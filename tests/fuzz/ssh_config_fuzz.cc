// The effective SSH configuration, as `ssh -G` prints it.
#include "app/ssh/ssh_config.h"
#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {

std::vector<std::string> seeds() {
  return {
      "host n1\nuser anna\nhostname 10.1.2.3\nport 2200\nhashknownhosts yes\nbatchmode no\n"
      "identityfile ~/.ssh/id_ed25519\nidentityfile /keys/%h-%r-%p-%i-%u-%d-%n-%%\n"
      "identityagent ${SSH_AUTH_SOCK}\nidentitiesonly yes\nproxyjump bob@a:2222,[::1]:22\n"
      "userknownhostsfile /k/a ~/b\nglobalknownhostsfile none\nhostkeyalias n1.lab\n"
      "stricthostkeychecking accept-new\nconnecttimeout 7\nciphers a,b,c\n"
      "hostkeyalgorithms ssh-ed25519,rsa-sha2-512\npubkeyauthentication true\n"
      "passwordauthentication yes\nkbdinteractiveauthentication no\n"
      "certificatefile ~/c-%r-%k\ncertificatefile none\ngssapiauthentication yes\n"
      "gssapidelegatecredentials no\n",
      "hostname h\nuser u\nproxycommand nc %h %p\n",
      "hostname h\nuser u\nproxyusefdpass no\nproxycommand a %n %r %k %% b\nhostkeyalias x\n",
      "hostname h\nuser u\nproxycommand a %x\n"};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  const std::string text(fuzz::textOf(bytes, size));
  const auto config = app::parseEffectiveConfig(text, {.host = "n1", .identityFile = "~/%h/key"});
  if (!config.ok()) return 0;
  LOCKSTEP_CHECK(config->port >= 1 && config->port <= 65535, "{}", config->port);
  LOCKSTEP_CHECK(config->proxyJump.empty() || config->proxyCommand.empty(), "both");
  (void)config->knownHostsName();
  (void)config->account();
  return 0;
}
