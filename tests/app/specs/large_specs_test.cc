// Texts of almost a mebibyte that are made to be slow or large: whatever stands in them, they are
// read, or refused with a place, in the time and memory of their size.
#include <sys/resource.h>

#include <QElapsedTimer>
#include <QTest>
#include <functional>

#include "app/specs/spec_text.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

constexpr std::size_t kAlmostAll = 1'000'000;  // bytes of a text; 1 MiB is the most

// As many as a text has room for.
std::string repeated(const std::function<std::string(int)>& one, int most = 1 << 30) {
  std::string out;
  for (int i = 0; i < most && out.size() < kAlmostAll; ++i) out += one(i);
  return out;
}

std::string always(const std::string& text) {
  return repeated([&](int) { return text; });
}

const std::string kHead = "version: 1\nname: x\nnodes:\n";

}  // namespace

class LargeSpecsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void clustersAreRead_data() {
    QTest::addColumn<QString>("text");
    QTest::addColumn<QString>("problem");  // its beginning, without the file
    const auto row = [](const char* name, const std::string& text, const char* problem) {
      QTest::addRow("%s", name) << QString::fromStdString(text) << problem;
    };
    row("ranges", kHead + "  - name: \"" + always("[1]") + "\"\n",
        "4:11: a name with ranges has 1000002 characters; expected 256 at most");
    row("a range behind much", kHead + "  - name: \"" + always("a") + "[1-4096]\"\n",
        "4:11: a name with ranges has 1000008 characters; expected 256 at most");
    row("a long name", kHead + "  - name: " + always("a") + "\n",
        "4:11: nodes[0].name: name has 1000000 characters; expected 128 at most");
    row("a long host for many",
        kHead + "  - name: n[1-4096]\n    ssh: {host: " + always("a") + "}\n",
        "4:5: 4096 nodes of ");
    row("many devices for many",
        kHead + "  - name: n[1-4096]\n    devices: [" + always("{}, ") + "]\n",
        "4:5: 4096 nodes of ");
    row("many devices", kHead + "  - name: n\n    devices: [" + always("{}, ") + "]\n",
        "3:1: there are more than 4096 ranks");
    row("many entries of ranges", kHead + always("  - name: n[1-4096]\n"),
        "5:11: there are more than 4096 nodes");
    row("many nodes", kHead + repeated([](int i) { return fmt::format("  - {{name: n{}}}\n", i); }),
        "4100:12: there are more than 4096 nodes");
    row("nodes without names", kHead + always("  - {}\n"),
        "4100:5: there are more than 4096 nodes");
    row("loopback addresses",
        kHead +
            repeated(
                [](int i) { return fmt::format("  - {{name: n{}, address: 127.0.0.1}}\n", i); },
                4096) +
            "training: 3\n",
        "4100:1: unknown field 'training'");
    row("many links", kHead + "  - name: n[1-4096]\nlinks:\n" + always("  - {inside: n1}\n"),
        "5:1: there are more than 4096 links");
    row("a link for each node",
        kHead + "  - name: n[1-4096]\nlinks:\n" +
            repeated([](int i) { return fmt::format("  - {{inside: n{}}}\n", i + 1); }, 4096),
        "");
    row("links of ranges",
        kHead + "  - name: n[1-4096]\nlinks:\n" +
            repeated(
                [](int i) {
                  return fmt::format("  - {{from: \"n[1-{}]\", to: \"n[{}-4096]\"}}\n", i + 1,
                                     i + 1);
                },
                4095),
        "");
    row("fields that are unknown", repeated([](int i) { return fmt::format("a{}: 1\n", i); }),
        "1:1: unknown field 'a0'");
    row("keys of a map", kHead + "  - name: n\n    data: {" + repeated([](int i) {
                           return fmt::format("a{}: b, ", i);
                         }) + "}\n",
        "");
    row("quoted texts in a line",
        kHead + "  - name: n\n    roles: [" + always("\"worker\", ") + "]\n", "");
    row("one line of brackets", always("[]"), "");
    row("words over lines", "name: " + always("a\n "), "");
  }
  void clustersAreRead() {
    QFETCH(QString, text);
    QFETCH(QString, problem);
    struct rusage before {
    }, after{};
    getrusage(RUSAGE_SELF, &before);
    QElapsedTimer time;
    time.start();
    const SpecText spec = SpecText::parse(text.toStdString(), "f", SpecKind::kCluster);
    const QString first = spec.problems().empty()
                              ? QString()
                              : QString::fromStdString(spec.problems().front().error().text());
    (void)spec.nodeNames("nodes[0].name");
    getrusage(RUSAGE_SELF, &after);
    qInfo("%lld ms, %ld MiB more, %zu problems: %s", time.elapsed(),
          (after.ru_maxrss - before.ru_maxrss) >> 10, spec.problems().size(),
          qPrintable(first.left(120)));
    QVERIFY(spec.problems().size() <= 1000);
    QVERIFY2(problem.isEmpty() || first.startsWith("f:" + problem), qPrintable(first.left(300)));
    QVERIFY2(after.ru_maxrss - before.ru_maxrss < 1 << 20, "more than 1 GiB");  // in KiB
    QVERIFY2(time.elapsed() < 120'000, "no time that a person waits");
  }
};

QTEST_GUILESS_MAIN(LargeSpecsTest)
#include "large_specs_test.moc"
