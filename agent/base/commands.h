// The subcommands of lockstep-agent. Each returns the exit code of the process.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::agent {

// Parses "--name value" pairs, "--flag"s and words.
class Arguments {
 public:
  explicit Arguments(std::vector<std::string> words) : words_(std::move(words)) {}
  bool flag(std::string_view name);
  std::optional<std::string> value(std::string_view name);
  double number(std::string_view name, double fallback);
  std::optional<std::string> word();  // the next plain word
  // Returns the arguments that were not read; empty if all were.
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
int stacksCommand(Arguments& arguments);

}  // namespace lockstep::agent
