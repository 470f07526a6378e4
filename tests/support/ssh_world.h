// The world of one SSH test: a folder, a client key, servers on loopback, a client configuration
// and a prompter.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "app/ssh/ssh_connection.h"
#include "tests/support/prompter.h"
#include "tests/support/sshd.h"

namespace lockstep::test {

struct SshWorld {
  TempFolder folder;
  std::vector<std::unique_ptr<Sshd>> servers;
  std::shared_ptr<ScriptedPrompter> prompter = std::make_shared<ScriptedPrompter>();
  std::string extraClientConfig;  // before the hosts n1, n2, …: the first of a keyword counts
  std::string identity;
  std::string user;
  std::string why;

  explicit SshWorld(const std::string& passphrase = "") {
    makeKey(folder / "id", passphrase);
    identity = folder / "id";
  }
  bool serve(const std::string& extra = "", const std::string& program = "/usr/sbin/sshd") {
    SshdOptions options;
    options.extraConfig = extra;
    options.program = program;
    auto server = Sshd::start(folder / ("sshd" + std::to_string(servers.size())), folder / "id",
                              options, &why);
    if (!server) return false;
    servers.push_back(std::move(server));
    return true;
  }
  std::string known() const { return folder / "known_hosts"; }
  void trustAll() const {
    std::string lines;
    for (const auto& server : servers) lines += server->knownHostsLine() + "\n";
    writeText(known(), lines, 0600);
  }
  app::SshConnectionOptions options(const std::string& node = "node-1") const {
    std::vector<const Sshd*> list;
    for (const auto& server : servers) list.push_back(server.get());
    const std::string note = "Match exec \"echo >>" + (folder / "reads") + "\"\n";
    writeText(folder / "config",
              extraClientConfig + sshConfigFor(list, known(), identity, user) + note, 0600);
    app::SshConnectionOptions options;
    options.node = node;
    options.configFile = folder / "config";
    options.prompter = prompter;
    options.runtimeFolder = folder.path();
    return options;
  }
  // How often the configuration was read: by a connection once for each hop, before the first.
  std::size_t configReads() const {
    const std::string reads = readText(folder / "reads");
    return static_cast<std::size_t>(std::count(reads.begin(), reads.end(), '\n'));
  }
};

}  // namespace lockstep::test

#define WORLD(name, ...)                      \
  lockstep::test::SshWorld name{__VA_ARGS__}; \
  if (!name.serve()) QSKIP(name.why.c_str())

#define VERIFY_OK(expression)                                                   \
  do {                                                                          \
    const auto& checked = (expression);                                         \
    QVERIFY2(checked.ok(), checked.ok() ? "" : checked.error().text().c_str()); \
  } while (false)
