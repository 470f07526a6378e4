// Tags, notes, filters and exports of the history by `lockstep history`.
#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QTest>
#include <QXmlStreamReader>

#include "app/history/history.h"
#include "tests/app/cli/cli_runner.h"

using namespace lockstep;
using namespace lockstep::app;
using namespace lockstep::test;

namespace {

QByteArray readAll(const QString& path) {
  QFile file(path);
  return file.open(QFile::ReadOnly) ? file.readAll() : QByteArray();
}

QStringList runsOf(const CliResult& result) {
  QStringList out;
  for (const QJsonObject& run : result.all("run")) out << run["run"].toString();
  return out;
}

bool isXml(const QByteArray& text) {
  QXmlStreamReader reader(text);
  while (!reader.atEnd()) reader.readNext();
  if (reader.hasError()) qWarning() << reader.errorString();
  return !reader.hasError();
}

}  // namespace

class CliHistoryKeepTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  // Three runs that were recorded, of which one failed.
  void init() {
    cli_ = std::make_unique<Cli>();
    auto history = History::open(cli_->home().toStdString() + "/history");
    QVERIFY(history.ok());
    const QByteArray spec = readAll(example("fashion-mlp"));
    int index = 0;
    for (const char* id : {"20260101-a", "20260102-b", "20260103-c"}) {
      RunRow row;
      row.run = id;
      row.name = index == 2 ? "gpt-tiny" : "fashion-mlp";
      row.strategy = "mirrored";
      row.phase = index == 1 ? RunState::FAILED : RunState::SUCCEEDED;
      row.createdNs = 1'767'225'600'000'000'000 + index * 86'400'000'000'000;
      row.startedNs = row.createdNs;
      row.finishedNs = row.createdNs + 35'000'000'000;
      row.figures.trainLoss = 0.25 + index;
      row.figures.lostSeconds = index == 1 ? 3.5 : 0;
      RunDocuments documents;
      documents.specYaml = documents.specResolved = spec.toStdString();
      documents.clusterYaml = "version: 1\nname: c\nnodes: [{name: n1}]\n";
      auto store = (*history)->begin(row, documents);
      QVERIFY(store.ok());
      RunBatch batch;
      RunBatch::Series loss{"loss", {}}, began{"rank/0/began", {}};
      for (int step = 1; step <= 20; ++step) {
        loss.points.push_back({double(step), 1.0 / step + index});
        began.points.push_back({double(step), 1.7e9 + step * (0.5 + index)});
      }
      batch.series = {loss, began};
      StragglerRow slow;
      slow.rank = 1;
      slow.node = "n2";
      slow.wallNs = row.createdNs + 1'000'000'000;
      slow.sinceStep = 4;
      slow.text = "rank 1 (n2) is slow: 2.0 times the others' time in backward since step 4";
      if (index == 1) {
        batch.stragglers.push_back(slow);
        slow.endNs = slow.wallNs + 1;
        slow.untilStep = 9;
        slow.lostSeconds = 1.25;
        slow.text = "rank 1 (n2) was slow in steps 4 to 9: it cost 1.2 s";
        batch.stragglers.push_back(slow);
        Error error = makeError(Code::kAborted, "the worker of rank {} died", 1);
        batch.restarts.push_back({2, row.createdNs + 2'000'000'000, 0, error, 0, 0});
        batch.restarts.push_back({2, 0, row.createdNs + 5'000'000'000, {}, 3, 3.0});
      }
      QVERIFY((*store)->append(batch).ok());
      ++index;
    }
  }
  void cleanup() { cli_.reset(); }

  void tagsAndFilters() {
    const auto tags =
        cli_->run({"history", "tag", "20260101", "20260102", "+good", "+基线", "--json"});
    QVERIFY2(tags.exit == 0 && tags.onlyJson, tags.text());
    QCOMPARE(tags.all("tags").size(), 2);
    QVERIFY(cli_->run({"history", "tag", "20260102-b", "-GOOD", "+bad"}).exit == 0);
    const auto list = [&](const QStringList& words) {
      const auto result = cli_->run(QStringList{"history", "list", "--json"} + words);
      if (result.exit != 0) qWarning() << result.text();
      return runsOf(result);
    };
    QCOMPARE(list({"tag:good"}), QStringList{"20260101-a"});
    QCOMPARE(list({"-tag:good"}), (QStringList{"20260103-c", "20260102-b"}));
    QCOMPARE(list({"tag:基线", "state:failed"}), QStringList{"20260102-b"});
    QCOMPARE(list({"since:2026-01-02", "before:2026-01-04T12:00", "model:gpt*"}),
             QStringList{"20260103-c"});
    QCOMPARE(list({"mlp"}).size(), 2);
    QCOMPARE(list({"--contains", "tag:good"}), QStringList());
    // Saved, and used with more words.
    QVERIFY(cli_->run({"history", "filter", "mine", "tag:good,bad", "model:fashion*"}).exit == 0);
    QCOMPARE(list({"--filter", "MINE"}).size(), 2);
    QCOMPARE(list({"--filter", "mine", "state:failed"}), QStringList{"20260102-b"});
    const auto filters = cli_->run({"history", "filter", "--json"});
    QCOMPARE(filters.first("filter")["name"].toString(), QString("mine"));
    QCOMPARE(filters.first("filter")["filter"].toString(), QString("tag:good,bad model:fashion*"));
    const auto text = cli_->run({"history", "filter"});
    QVERIFY2(text.out.contains("tag:good,bad model:fashion*"), text.text());
    QVERIFY(cli_->run({"history", "filter", "mine", "--delete"}).exit == 0);
    const auto gone = cli_->run({"history", "list", "--filter", "mine"});
    QVERIFY2(gone.exit == 2 && gone.err.contains("there is no saved filter \"mine\""), gone.text());
    // All tags; the table of runs shows them.
    const auto all = cli_->run({"history", "tag"});
    QVERIFY2(all.out.contains("good") && all.out.contains("bad"), all.text());
    const auto table = cli_->run({"history", "list"});
    QVERIFY2(table.out.contains("tags") && table.out.contains("good"), table.text());
  }

  void whatIsWrongIsSaid_data() {
    QTest::addColumn<QStringList>("words");
    QTest::addColumn<QByteArray>("says");
    const auto add = [](const char* name, const QStringList& words, const char* says) {
      QTest::newRow(name) << words << QByteArray(says);
    };
    add("key", {"list", "tga:x"}, "did you mean tag?");
    add("state", {"list", "state:lost"}, "there is no state \"lost\"");
    add("date", {"list", "since:monday"}, "is not a date or an age");
    add("quote", {"list", "\"x"}, "a quote is not closed");
    add("saved", {"filter", "x", "tag:"}, "\"tag:\" has no value");
    add("no run", {"tag", "+good"}, "RUN is missing");
    add("unknown run", {"tag", "2027", "+good"}, "there is no run \"2027\"");
    add("no tag", {"tag", "20260101", "+a b"}, "it has a space or a comma");
    add("empty tag", {"tag", "20260101", "+"}, "it is empty");
    add("note of none", {"note", "2027", "x"}, "there is no run");
    add("delete what", {"filter", "--delete"}, "needs the name of one filter");
    add("format", {"export", "20260101", "--format", "cvs"}, "did you mean csv?");
    add("png", {"export", "20260101", "--format", "png"}, "--format svg");
    add("pdf by name", {"export", "20260101", "--out", "/nowhere/x.pdf"}, "the studio saves pdf");
    add("curve", {"export", "20260101", "--curve", "los"}, "did you mean loss?");
    add("axis", {"export", "20260101", "--curve", "loss", "--axis", "tim"}, "did you mean time?");
    add("axis of all", {"export", "20260101", "--axis", "time"}, "add --curve loss");
    add("several", {"export", "20260101", "20260102", "--format", "html"}, "takes one run");
    add("tokens", {"export", "20260101", "--curve", "loss", "--axis", "tokens"},
        "its data is not text");
  }
  void whatIsWrongIsSaid() {
    QFETCH(QStringList, words);
    QFETCH(QByteArray, says);
    const auto result = cli_->run(QStringList{"history"} + words);
    QVERIFY2(result.exit == 2 || result.exit == 3, result.text());
    QVERIFY2(result.err.contains(says), result.text());
    QVERIFY2(result.out.isEmpty(), result.text());
  }

  void notes() {
    const QString note = QString::fromUtf8("看损失; it's \"fine\" <b>");
    QVERIFY(cli_->run({"history", "note", "20260101", note}).exit == 0);
    QCOMPARE(cli_->run({"history", "note", "20260101"}).out, note.toUtf8() + "\n");
    QCOMPARE(runsOf(cli_->run({"history", "list", "--json", "notes:*fine*"})),
             QStringList{"20260101-a"});
    QVERIFY(cli_->run({"history", "note", "20260101", ""}).exit == 0);
    QVERIFY(cli_->run({"history", "note", "20260101"}).out.isEmpty());
  }

  void showTellsOfStragglersAndRestarts() {
    const auto text = cli_->run({"history", "show", "20260102"});
    QVERIFY2(text.out.contains("it cost 1.2 s") && text.out.contains("trained again after 3.0 s") &&
                 text.out.contains("the worker of rank 1 died") &&
                 text.out.contains("3.5 s to failures"),
             text.text());
    QVERIFY(!text.out.contains("is slow"));  // one straggler, as it ended
    const auto json = cli_->run({"history", "show", "20260102", "--json"}).first("run");
    QCOMPARE(json["stragglers"].toArray().size(), 1);
    const QJsonObject slow = json["stragglers"].toArray()[0].toObject();
    QCOMPARE(slow["since_step"].toInt(), 4);
    QCOMPARE(slow["until_step"].toInt(), 9);
    QCOMPARE(slow["lost_seconds"].toDouble(), 1.25);
    const QJsonObject restart = json["restarts"].toArray()[0].toObject();
    QCOMPARE(restart["lost_steps"].toInt(), 3);
    QVERIFY(restart["cause"].toString().contains("rank 1 died"));
    QVERIFY(!cli_->run({"history", "show", "20260101"}).out.contains("stragglers"));
    // Lost and effective time are figures of every run.
    for (const auto& [run, lost, effective] :
         {std::tuple("20260101", 0.0, 1.0), {"20260102", 3.5, 0.9}}) {
      const auto shown = cli_->run({"history", "show", run, "--json"}).first("run");
      QCOMPARE(shown["lost_seconds"].toDouble(-1), lost);
      QCOMPARE(shown["effective_time"].toDouble(), effective);
      const QByteArray words = QByteArray::number(100 * effective, 'f', 1) + " %\n";
      const CliResult told = cli_->run({"history", "show", run});
      QVERIFY2(told.out.contains("effective time") && told.out.contains(words), told.text());
    }
  }

  void exports() {
    const auto out = [&](const QStringList& words, const QString& file) {
      const QString path = cli_->path(file);
      const auto result =
          cli_->run(QStringList{"history", "export"} + words + QStringList{"--out", path});
      if (result.exit != 0) qWarning() << result.text();
      return readAll(path);
    };
    const QByteArray page = out({"20260102"}, "run.html");
    QVERIFY(page.startsWith("<!DOCTYPE html>") && isXml(page));
    QVERIFY(page.contains("it cost 1.2 s") && page.contains("data-value=\"1.25\""));
    const QByteArray picture = out({"20260102"}, "run.svg");
    QVERIFY(picture.startsWith("<svg ") && isXml(picture));
    const QByteArray both =
        out({"20260101", "20260103", "--curve", "loss", "--axis", "time"}, "both.svg");
    QVERIFY(isXml(both) && both.contains("gpt-tiny 20260103-c") && both.contains(">time<"));
    const QByteArray table =
        out({"20260101", "20260103", "--curve", "loss", "--axis", "time"}, "both.csv");
    QVERIFY2(table.startsWith("time,fashion-mlp 20260101-a,gpt-tiny 20260103-c\n0,1,3\n"), table);
    QCOMPARE(table.count('\n'), 1 + 20 + 20 - 4);  // both have points at 0, 2.5, 5 and 7.5 s
    const QByteArray samples =
        out({"20260101", "--curve", "loss", "--axis", "samples"}, "samples.csv");
    QVERIFY2(samples.startsWith("samples,loss\n32,1\n64,0.5\n"), samples.left(200));
    const QJsonObject json = QJsonDocument::fromJson(out({"20260101"}, "run.json")).object();
    QCOMPARE(json["points"].toObject()["loss"].toArray().size(), 20);
    QCOMPARE(json["points"].toObject()["loss"].toArray()[2].toArray()[1].toDouble(), 1.0 / 3);
    QCOMPARE(out({"20260101"}, "copy.yaml"), readAll(example("fashion-mlp")));
    QVERIFY(out({"20260101"}, "run.csv").startsWith("step,loss,rank/0/began\n1,1,"));
    // To the terminal, as before.
    QVERIFY(cli_->run({"history", "export", "20260101"}).out.startsWith("step,loss"));
    const auto nowhere = cli_->run({"history", "export", "20260101", "--out", "/nowhere/x.html"});
    QVERIFY2(nowhere.exit != 0 && nowhere.err.contains("/nowhere"), nowhere.text());
  }

 private:
  std::unique_ptr<Cli> cli_;
};

QTEST_GUILESS_MAIN(CliHistoryKeepTest)
#include "cli_history_keep_test.moc"
