// Whose the lines are that torchrun passes on, in pieces of any size.
#include "agent/workload/teed_lines.h"

#include <QTest>
#include <random>
#include <utility>
#include <vector>

using namespace lockstep;
using agent::TeedLines;
using Lines = std::vector<std::pair<int, std::string>>;

namespace {

// Bytes of which it is not said whose they are are joined.
Lines linesOf(const std::string& role, const std::vector<std::string>& pieces) {
  Lines out;
  TeedLines lines(role, [&](int local, std::string_view bytes) {
    if (local < 0 && !out.empty() && out.back().first < 0)
      out.back().second += bytes;
    else
      out.emplace_back(local, bytes);
  });
  for (const std::string& piece : pieces) lines.add(piece);
  lines.end();
  return out;
}

}  // namespace

class TeedLinesTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void linesAreThoseOfTheirRanks() {
    QCOMPARE(linesOf("default", {"[default0]:step 1\n[default12]:[default1]:x\n[default3]:\n"}),
             (Lines{{0, "step 1"}, {12, "[default1]:x"}, {3, ""}}));
    QCOMPARE(linesOf("gpu1", {"[gpu12]:a\n[default1]:b\n"}),
             (Lines{{2, "a"}, {-1, "[default1]:b\n"}}));
    QCOMPARE(linesOf("default", {"[default1]:without an end"}), (Lines{{1, "without an end"}}));
    const std::string others =
        "a [default1]:\n\n[default]:\n[default1] :\n[default12345]:\n[defaul\n [default1]:\nx\r "
        "1/2";
    QCOMPARE(linesOf("default", {others}), (Lines{{-1, others}}));
    QCOMPARE(linesOf("default", {"[default1"}), (Lines{{-1, "[default1"}}));
  }

  // What begins no line of a rank is there at once, as a progress bar.
  void othersAreNotKept() {
    std::string said;
    TeedLines lines("default", [&](int local, std::string_view bytes) {
      if (local < 0) said += bytes;
    });
    lines.add("[def");
    QCOMPARE(said, std::string());
    lines.add("ine 1/2\r");
    QCOMPARE(said, std::string("[define 1/2\r"));
  }

  void anyPieces() {
    std::mt19937 random(5);
    const std::vector<std::string> words = {
        "[default", "[", "default", "1", "12", "]:", "]", ":", "\n", "x", " "};
    for (int round = 0; round < 500; ++round) {
      std::string text;
      for (unsigned word = 0; word < random() % 30; ++word) text += words[random() % words.size()];
      std::vector<std::string> pieces;
      for (std::size_t at = 0; at < text.size(); at += pieces.back().size())
        pieces.push_back(text.substr(at, 1 + random() % 5));
      const Lines whole = linesOf("default", {text});
      QCOMPARE(linesOf("default", pieces), whole);
      // Nothing is lost: the lines, with their ranks, are the text.
      std::string joined;
      for (const auto& [local, bytes] : whole)
        joined += local < 0 ? bytes : "[default" + std::to_string(local) + "]:" + bytes + "\n";
      if (!text.ends_with('\n') && joined.ends_with('\n')) joined.pop_back();
      QCOMPARE(joined, text);
    }
  }

  void theRoleIsThatOfTheCommand() {
    const auto roleOf = [](const std::vector<std::string>& words, const std::string& env = "") {
      spec::v1::WorkloadSpec workload;
      for (const std::string& word : words) workload.add_command(word);
      if (!env.empty()) (*workload.mutable_env())["PET_ROLE"] = env;
      return agent::torchrunRole(workload);
    };
    QCOMPARE(roleOf({"torchrun", "main.py", "--role", "a"}), std::string("default"));
    QCOMPARE(roleOf({"torchrun", "--role", "a", "main.py"}, "b"), std::string("a"));
    QCOMPARE(roleOf({"torchrun", "--role=a", "main.py"}), std::string("a"));
    QCOMPARE(roleOf({"torchrun", "main.py"}, "b"), std::string("b"));
  }
};

QTEST_GUILESS_MAIN(TeedLinesTest)
#include "teed_lines_test.moc"
