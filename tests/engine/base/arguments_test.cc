// Command-line arguments against a grammar.
#include <QTest>

#include "engine/base/arguments.h"

using namespace lockstep;

class ArgumentsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void words() {
    const Grammar grammar{{"cluster=", "set=", "json", "every="}, 1, 1, "run SPEC"};
    const auto good = Arguments::parse(
        {"--json", "a.yaml", "--set=x=1", "--set", "y=2", "--every", "3"}, grammar);
    QVERIFY(good.ok());
    QCOMPARE(good->words(), std::vector<std::string>{"a.yaml"});
    QVERIFY(good->has("json"));
    QCOMPARE(good->all("set"), (std::vector<std::string>{"x=1", "y=2"}));
    QCOMPARE(*good->integer("every", 0, 1, 10), 3);
    QVERIFY(!good->integer("every", 0, 1, 2).ok());
    QVERIFY(!Arguments::parse({"a", "b"}, grammar).ok());
    QCOMPARE(Arguments::parse({}, grammar).error().what, std::string("SPEC is missing"));
    QCOMPARE(Arguments::parse({}, {{}, 1, 1, "history show RUN [--json]"}).error().what,
             std::string("RUN is missing"));
    QCOMPARE(Arguments::parse({"a"}, {{}, 2, 2, "copy FILE FOLDER --to N [SPEC]"}).error().what,
             std::string("FOLDER is missing"));
    const auto missing = [](const std::vector<std::string>& given, std::string_view usage) {
      return Arguments::parse(given, {{"local="}, given.size() + 1, 9, usage}).error().what.text();
    };
    // The value of an option is no word, and neither is a command's name.
    QCOMPARE(missing({}, "debug terminal RUN|FILE|--local N NODE [--json]"),
             std::string("NODE is missing"));
    QCOMPARE(missing({}, "tokenize FILE… --to FILE.npy"), std::string("FILE is missing"));
    QCOMPARE(missing({}, "make-data ctr --to N FILE…"), std::string("FILE is missing"));
    QCOMPARE(missing({}, "predict RUN|FILE [--json]"), std::string("RUN|FILE is missing"));
    QCOMPARE(missing({"a"}, "history diff RUN RUN…"), std::string("RUN is missing"));
    QVERIFY(!Arguments::parse({"a", "--json=1"}, grammar).ok());
    QVERIFY(!Arguments::parse({"a", "--set"}, grammar).ok());
    const auto wrong = Arguments::parse({"a", "--cluser", "x"}, grammar);
    QVERIFY(!wrong.ok());
    QVERIFY(wrong.error().what.text().find("did you mean --cluster?") != std::string::npos);
    QVERIFY(Arguments::parse({"--", "--json"}, grammar)->words()[0] == "--json");
    for (const std::vector<std::string>& empty :
         {std::vector<std::string>{"a", "--cluster", ""}, {"a", "--cluster="}})
      QCOMPARE(Arguments::parse(empty, grammar).error().what, std::string("--cluster is empty"));
  }

  void numbersAreRead() {
    const Grammar grammar{{"seconds=", "ranks="}, 0, 0, "wait [--seconds S] [--ranks N]"};
    const auto given = Arguments::parse({"--seconds", "0.5", "--ranks=2"}, grammar);
    QVERIFY(given.ok());
    QCOMPARE(*given->number("seconds", 1, 0, 10), 0.5);
    QCOMPARE(*given->integer("ranks", 1, 1, 8), 2);
    QCOMPARE(*Arguments::parse({}, grammar)->number("seconds", 1, 0, 10), 1.0);
    for (const char* text : {"x", "1s", "nan", "-1", "11", "1e999"}) {
      const auto wrong = Arguments::parse({"--seconds", text}, grammar);
      const auto number = wrong->number("seconds", 1, 0, 10);
      QVERIFY2(!number.ok() && number.error().code == Code::kInvalidArgument, text);
      QCOMPARE(number.error().what,
               fmt::format("--seconds {}: a number from 0 to 10 was expected", text));
    }
    QVERIFY(!Arguments::parse({"--ranks", "1.5"}, grammar)->integer("ranks", 1, 1, 8).ok());
  }

  void requiredFlags() {
    const Grammar grammar{{"socket=", "json"}, 0, 0, "bridge --socket PATH", {"socket"}};
    QVERIFY(Arguments::parse({"--socket", "x"}, grammar).ok());
    const auto missing = Arguments::parse({"--json"}, grammar, "lockstep-agent");
    QCOMPARE(missing.error().what, std::string("--socket is missing"));
    QCOMPARE(missing.error().next, std::string("usage: lockstep-agent bridge --socket PATH"));
  }
};

QTEST_GUILESS_MAIN(ArgumentsTest)
#include "arguments_test.moc"
