// The subcommands of lockstep-agent. Each returns the process's exit code.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::agent {

// "--name value" pairs, "--flag"s and plain words.
class Arguments {
 public:
  explicit Arguments(std::vector<std::string> words) : words_(std::move(words)) {}
  bool flag(std::string_view name);
  std::optional<std::string> value(std::string_view name);
  double number(std::string_view name, double fallback);
  std::optional<std::string> word();  // the next plain word
  // What nobody took; empty if all were understood.
  std::string rest() const { return words_.empty() ? "" : words_.front(); }

 private:
  std::vector<std::string> words_;
};

int serveCommand(Arguments& arguments);
int superviseCommand(Arguments& arguments);
int workerCommand(Arguments& arguments);
int bridgeCommand(Arguments& arguments);
int leaveCommand(Arguments& arguments);
int selftestCommand(Arguments& arguments);

}  // namespace lockstep::agent
