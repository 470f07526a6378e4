// Lines of output: whatever they are, values have the tags of groups, there are not too many, and
// neither the end of the line nor what it replaces on a terminal changes them. A line that ends
// with a carriage return is replaced itself: it may have fewer.
#include "agent/workload/output_metrics.h"
#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {
namespace {

agent::OutputMetrics metricsOf(const std::vector<std::string>& patterns) {
  auto out = agent::OutputMetrics::make(patterns);
  LOCKSTEP_CHECK(out.ok());
  return std::move(*out);
}

// Returns the values of a line, one a line.
std::string read(agent::OutputMetrics& metrics, std::string_view line) {
  const auto scalars = metrics.of(line);
  LOCKSTEP_CHECK(scalars.size() <= agent::OutputMetrics::kMostValues);
  std::string out;
  for (const auto& scalar : scalars) {
    LOCKSTEP_CHECK(scalar.step() >= 0 && scalar.tag() != "step" && !scalar.tag().empty());
    out += fmt::format("{} {}\n", scalar.tag(), scalar.value());
  }
  return out;
}

}  // namespace

std::vector<std::string> seeds() {
  return {"step 10 loss 0.5",
          "{'loss': 0.69, 'learning_rate': 1e-05, 'epoch': 0.01}",
          "10/938 [====>] - ETA: 3s - loss: 0.4 - accuracy: 0.9",
          "\r 10%|# | 1/10 [00:01<00:09, loss=nan]\r 20%|## | 2/10 [00:02<00:08, loss=inf]\r",
          "\x1b[1mIteration\x1b[0m [5/10] \x1b]0;title\x07train loss: -1.5e+3, val loss: 2.\r\n",
          "损失=0.5 \xff 3"};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  const std::string line(fuzz::textOf(bytes, size));
  static agent::OutputMetrics metrics[] = {
      fuzz::metricsOf({}),
      fuzz::metricsOf(
          {R"((?P<a>\S+)[ =:]+(?P<step>\d+)?)", R"([损失]+=(?P<loss>.*?)( |$))", "(?P<empty>x*)"}),
  };
  const std::string plain = line.substr(0, line.find_last_not_of("\r\n") + 1);
  for (agent::OutputMetrics& some : metrics) {
    const std::string values = fuzz::read(some, plain);
    LOCKSTEP_CHECK(fuzz::read(some, plain + "\r\n") == values);
    LOCKSTEP_CHECK(plain.empty() || fuzz::read(some, "step 7 loss 7\r" + plain) == values);
    const std::string replaced = fuzz::read(some, line);
    LOCKSTEP_CHECK(replaced == values || (replaced.empty() && line.ends_with('\r')));
  }
  return 0;
}
