// What `lockstep cluster preflight` prints: tables, links as a matrix, versions; JSON.
#include <QJsonDocument>
#include <QJsonObject>
#include <QRegularExpression>
#include <QTest>

#include "app/cli/preflight_text.h"
#include "tests/support/made_up_links.h"

using namespace lockstep;
using namespace lockstep::app;
using namespace lockstep::app::cli;
using Kind = PreflightValue::Kind;

namespace {

// The cells of each line; columns are two spaces apart.
QList<QStringList> cellsOf(const PreflightResult& result) {
  static const QRegularExpression kGap("\\s{2,}");
  QList<QStringList> out;
  for (const QString& line :
       QString::fromStdString(preflightTables(result, Style(false))).split('\n'))
    out << line.split(kGap, Qt::SkipEmptyParts);
  return out;
}

// The cells of the lines from the one that begins with `first` up to an empty one.
QList<QStringList> tableOf(const PreflightResult& result, const QString& first) {
  QList<QStringList> out;
  for (const QStringList& line : cellsOf(result)) {
    if (!out.isEmpty() && line.isEmpty()) break;
    if (!out.isEmpty() || (!line.isEmpty() && line[0] == first)) out << line;
  }
  return out;
}

const QString kFast = QString::fromStdString(rateText(100e6));
const QString kSlow = QString::fromStdString(rateText(20e6));

}  // namespace

class CliPreflightTextTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void linksOfTwoNodes() {
    const PreflightResult result = tests::madeUpLinks(2);
    QCOMPARE(tableOf(result, "bandwidth to"),
             (QList<QStringList>{{"bandwidth to", "n1", "n2"},
                                 {"from n1", kSlow},  // nothing to itself
                                 {"from n2", kFast}}));
    QCOMPARE(tableOf(result, "round trip to").size(), 3);
  }

  void aLinkThatWasNotMeasuredIsADash() {
    PreflightResult result = tests::madeUpLinks(3);
    tests::forgetLink(result, "n3", "n1");
    QCOMPARE(tableOf(result, "bandwidth to"),
             (QList<QStringList>{{"bandwidth to", "n1", "n2", "n3"},
                                 {"from n1", kSlow, kFast},
                                 {"from n2", kFast, kFast},
                                 {"from n3", "–", kFast}}));
    const std::string coloured = preflightTables(result, Style(true));
    QVERIFY(coloured.find(Style(true).red(rateText(20e6))) != std::string::npos);
    QVERIFY(coloured.find(Style(true).red(rateText(100e6))) == std::string::npos);
  }

  // A matrix of more would not fit a terminal.
  void ofManyNodesTheSlowestLinksAreTold() {
    QCOMPARE(tableOf(tests::madeUpLinks(16), "bandwidth to").size(), 17);
    for (const int nodes : {17, 20}) {
      const PreflightResult result = tests::madeUpLinks(nodes);
      QVERIFY(tableOf(result, "bandwidth to").isEmpty());
      const QString title = QString("slowest of %1 links").arg(nodes * (nodes - 1));
      const QList<QStringList> slowest = tableOf(result, title);
      QCOMPARE(slowest.size(), 12);
      QCOMPARE(slowest[0], (QStringList{title, "bandwidth"}));
      QCOMPARE(slowest[1], (QStringList{"n1 → n2", kSlow}));
      QCOMPARE(slowest[2][1], kFast);
      QCOMPARE(slowest[11], (QStringList{"median", kFast}));
    }
  }

  void nothingMeasuredIsNothingPrinted() {
    PreflightResult result;
    result.nodes = {"n1", "n2"};
    QCOMPARE(preflightTables(result, Style(false)), std::string());
  }

  // A column for each kind that some node has.
  void versionsAreATable() {
    PreflightResult result;
    result.nodes = {"n1", "n2", "n3"};
    const std::string long1(64, 'a');
    for (const auto& [kind, versions] :
         {std::pair{NodeVersion::Kind::kAgent, std::vector<std::string>{long1, long1, ""}},
          {NodeVersion::Kind::kKernel, {"6.1", "6.6", "6.1"}}})
      for (const NodeVersion& one : tests::madeUpVersions(kind, versions))
        result.versions.push_back(one);
    QCOMPARE(tableOf(result, "versions"), (QList<QStringList>{{"versions", "agent", "kernel"},
                                                              {"n1", "aaaaaaaaaaaa", "6.1"},
                                                              {"n2", "aaaaaaaaaaaa", "6.6"},
                                                              {"n3", "unknown", "6.1"}}));
    const std::string coloured = preflightTables(result, Style(true));
    QVERIFY(coloured.find(Style(true).yellow("6.6")) != std::string::npos);
    QVERIFY(coloured.find(Style(true).yellow("6.1")) == std::string::npos);
    result.versions.push_back({NodeVersion::Kind::kNccl, "n2", "2.27.3"});
    QCOMPARE(tableOf(result, "versions")[0].last(), QString("NCCL"));
    QCOMPARE(tableOf(result, "versions")[1].last(), QString("–"));
    QCOMPARE(tableOf(result, "versions")[2].last(), QString("2.27.3"));
  }

  void jsonHasValuesAndVersions() {
    PreflightResult result = tests::madeUpLinks(3);
    result.versions =
        tests::madeUpVersions(NodeVersion::Kind::kGpuDriver, {"580.1", "", "580.1", "570.2"});
    QList<QJsonObject> values, versions;
    for (const JsonLine& line : preflightLines("preflight", result)) {
      const auto json = QJsonDocument::fromJson(QByteArray::fromStdString(line.text())).object();
      (json["event"] == "preflight" ? values : versions) << json;
    }
    QCOMPARE(values.size(), 12);
    QCOMPARE(versions.size(), 4);
    const QStringList grades{"same", "ungraded", "same", "different"};
    for (qsizetype i = 0; i < versions.size(); ++i) {
      QCOMPARE(versions[i]["event"].toString(), QString("preflight_version"));
      QCOMPARE(versions[i]["kind"].toString(), QString("gpu-driver"));
      QCOMPARE(versions[i]["node"].toString(), QString("n%1").arg(i + 1));
      QCOMPARE(versions[i]["grade"].toString(), grades[i]);
      QCOMPARE(versions[i].contains("text"), i == 3);
    }
    QCOMPARE(versions[3]["version"].toString(), QString("570.2"));
    QCOMPARE(versions[3]["usual"].toString(), QString("580.1"));
    QCOMPARE(versions[3]["text"].toString(),
             QString("node n4 has GPU driver 570.2, unlike the 580.1 of n1, n3"));
    QCOMPARE(versions[1]["version"].toString(), QString());
  }
};

QTEST_GUILESS_MAIN(CliPreflightTextTest)
#include "cli_preflight_text_test.moc"
