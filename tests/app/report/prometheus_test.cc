// The values of runs in Prometheus' text format, and that the dashboard names no others.
#include "app/report/prometheus.h"

#include <QRegularExpression>
#include <QTemporaryDir>
#include <QTest>

#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include "app/history/history.h"
#include "engine/base/file.h"
#include "tests/support/paths.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

constexpr std::int64_t kNow = 1'780'000'000'000'000'000;
constexpr double kSeconds = 1'780'000'000;

using Labels = std::map<std::string, std::string>;

// A page as Prometheus reads it.
struct Page {
  QString problem;
  std::map<std::string, std::map<Labels, double>> values;  // by name

  double value(const std::string& name, const Labels& labels) const {
    const auto found = values.find(name);
    if (found == values.end() || !found->second.contains(labels)) return -12345;
    return found->second.at(labels);
  }
};

double numberOf(const QString& text, bool& fine) {
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "+Inf") return std::numeric_limits<double>::infinity();
  if (text == "-Inf") return -std::numeric_limits<double>::infinity();
  return text.toDouble(&fine);
}

// Returns the number of characters of `{name="value",…}`; -1: it is wrong.
qsizetype takeLabels(const QString& text, Labels& labels) {
  static const QRegularExpression one(
      R"re(\G([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"([,}]))re");
  qsizetype at = 1;
  for (;;) {
    const auto match = one.match(text, at, QRegularExpression::NormalMatch);
    if (!match.hasMatch()) return -1;
    QString value;
    const QString escaped = match.captured(2);
    for (qsizetype i = 0; i < escaped.size(); ++i) {
      if (escaped[i] != '\\')
        value += escaped[i];
      else
        value += escaped[++i] == 'n' ? QChar('\n') : escaped[i];
    }
    if (!labels.emplace(match.captured(1).toStdString(), value.toStdString()).second) return -1;
    at = match.capturedEnd();
    if (match.captured(3) == "}") return at;
  }
}

Page parsed(const std::string& text) {
  static const QRegularExpression help("^# HELP ([a-z_]+) .+\\.$");
  static const QRegularExpression type("^# TYPE ([a-z_]+) (gauge|counter)$");
  static const QRegularExpression name("^[a-z_]+");
  Page out;
  const QByteArray bytes = QByteArray::fromStdString(text);
  const QString all = QString::fromUtf8(bytes);
  if (all.toUtf8() != bytes || (!all.isEmpty() && !all.endsWith('\n'))) out.problem = "text";
  QString helped, typed;
  for (const QString& line : all.split('\n', Qt::SkipEmptyParts)) {
    if (const auto match = help.match(line); match.hasMatch()) {
      helped = match.captured(1);
      if (out.values.contains(helped.toStdString())) out.problem = line;
      continue;
    }
    if (const auto match = type.match(line); match.hasMatch()) {
      typed = match.captured(1);
      if (typed != helped || (match.captured(2) == "counter") != typed.endsWith("_total"))
        out.problem = line;
      continue;
    }
    const QString of = name.match(line).captured(0);
    Labels labels;
    const qsizetype end = takeLabels(line.mid(of.size()), labels);
    bool fine = true;
    const double value = end < 0 ? 0 : numberOf(line.mid(of.size() + end + 1), fine);
    if (of.isEmpty() || of != typed || end < 0 || !fine ||
        !out.values[of.toStdString()].emplace(labels, value).second)
      out.problem = line;
  }
  return out;
}

// All series that app/runs/run_update.h names.
RunBatch wholeBatch() {
  RunBatch out;
  const auto add = [&](const std::string& series, double x, double y) {
    out.series.push_back({series, {{x - 1, 0}, {x, y}}});
  };
  double y = 0.5;
  for (const char* name :
       {"loss", "accuracy", "samples_per_second", "tokens_per_second", "learning_rate",
        "gradient_norm", "update_ratio", "samples", "tokens", "loss_scale", "skipped"})
    add(name, 7, y += 0.25);
  for (const char* name : {"epoch/train_loss", "epoch/eval_loss", "epoch/eval_accuracy"})
    add(name, 2, y += 0.25);
  add("scalar/train/x", 7, y += 0.25);
  for (int rank = 0; rank < 3; ++rank) {
    for (const char* name : {"step", "data", "forward", "backward", "waiting", "transfer",
                             "optimizer", "stalled", "gpu_clock", "began"})
      add(fmt::format("rank/{}/{}", rank, name), 7, y += 0.25);
    for (const char* name : {"cpu", "memory"})
      add(fmt::format("rank/{}/{}", rank, name), kSeconds, y += 0.25);
  }
  for (const char* name :
       {"cpu", "memory", "memory_total", "disk_free", "net_in", "net_out", "loopback", "disk_read",
        "disk_write", "disk_busy", "clock_offset", "clock_uncertainty", "to/n2/sent", "to/n2/rate",
        "to/n2/sending", "to/n2/round_trip"})
    add(std::string("node/n1/") + name, kSeconds, y += 0.25);
  for (const char* name :
       {"utilisation", "memory_utilisation", "memory", "temperature", "power", "sm_clock",
        "memory_clock", "pcie_in", "pcie_out", "nvlink_in", "nvlink_out", "throttled", "slowed"})
    add(std::string("node/n1/gpu/3/") + name, kSeconds, y += 0.25);
  for (const char* name : {"ecc_corrected", "ecc_uncorrected", "xids"})
    add(std::string("node/n1/gpu/3/") + name, kSeconds - 1000, y += 0.25);
  out.stragglers.push_back({kNow, kNow, 0, "n1", "", 1, 2, 9, "data", "", false, 1, "over"});
  out.stragglers.push_back({kNow, 0, 1, "n1", "", 5, 0, 1.75, "backward", "", false, 0, "slow"});
  return out;
}

double lastOf(const RunBatch& batch, const std::string& series) {
  for (const auto& one : batch.series)
    if (one.name == series) return one.points.back().y;
  return -1;
}

}  // namespace

class PrometheusTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void init() {
    dir_ = std::make_unique<QTemporaryDir>();
    history_ = opened();
  }

  void allValuesAreThere() {
    const RunBatch batch = wholeBatch();
    add("a", "gpt", batch);
    const Page page = read("");
    QVERIFY2(page.problem.isEmpty(), qPrintable(page.problem));
    const Labels run{{"run", "a"}, {"name", "gpt"}};
    const auto with = [&](Labels more) {
      more.insert(run.begin(), run.end());
      return more;
    };
    QCOMPARE(page.value("lockstep_run_loss", run), lastOf(batch, "loss"));
    QCOMPARE(page.value("lockstep_run_step", run), 7.0);
    QCOMPARE(page.value("lockstep_run_samples_per_second", run),
             lastOf(batch, "samples_per_second"));
    QCOMPARE(page.value("lockstep_run_samples_total", run), lastOf(batch, "samples"));
    QCOMPARE(page.value("lockstep_run_quality", with({{"metric", "accuracy"}})),
             lastOf(batch, "accuracy"));
    QCOMPARE(page.value("lockstep_run_eval_quality", with({{"metric", "accuracy"}})),
             lastOf(batch, "epoch/eval_accuracy"));
    QCOMPARE(page.value("lockstep_run_value", with({{"tag", "train/x"}})),
             lastOf(batch, "scalar/train/x"));
    QCOMPARE(page.value("lockstep_run_state", with({{"state", "running"}})), 1.0);
    QCOMPARE(page.value("lockstep_run_updated_timestamp_seconds", run), kSeconds);
    QCOMPARE(page.value("lockstep_run_restarts_total", run), 2.0);
    for (const char* phase : {"data", "forward", "backward", "waiting", "transfer", "optimizer"})
      QCOMPARE(page.value("lockstep_rank_phase_seconds", with({{"rank", "1"}, {"phase", phase}})),
               lastOf(batch, std::string("rank/1/") + phase));
    QCOMPARE(page.value("lockstep_node_cpu_ratio", with({{"node", "n1"}})),
             lastOf(batch, "node/n1/cpu"));
    QCOMPARE(page.value("lockstep_gpu_sm_clock_hertz", with({{"node", "n1"}, {"gpu", "3"}})),
             1e6 * lastOf(batch, "node/n1/gpu/3/sm_clock"));
    QCOMPARE(page.value("lockstep_gpu_xid_errors_total", with({{"node", "n1"}, {"gpu", "3"}})),
             lastOf(batch, "node/n1/gpu/3/xids"));
    QCOMPARE(page.value("lockstep_link_round_trip_seconds", with({{"node", "n1"}, {"to", "n2"}})),
             lastOf(batch, "node/n1/to/n2/round_trip"));
    const Labels slow = with({{"rank", "1"}, {"node", "n1"}, {"to", ""}, {"phase", "backward"}});
    QCOMPARE(page.values.at("lockstep_straggler_factor").size(), std::size_t{1});
    QCOMPARE(page.value("lockstep_straggler_factor", slow), 1.75);
    QCOMPARE(page.value("lockstep_straggler_halted", slow), 0.0);
    // The run has two ranks now.
    QVERIFY(!page.values.at("lockstep_rank_step_seconds").contains(with({{"rank", "2"}})));
    QCOMPARE(page.values.at("lockstep_rank_cpu_cores").size(), std::size_t{2});
  }

  void linksAreStragglersToo() {
    RunBatch batch;
    batch.stragglers.push_back({kNow, 0, -1, "n1", "n2", 5, 0, 0, "transfer", "", true, 0, "slow"});
    add("a", "gpt", batch);
    RunBatch old;  // as of a file of an earlier version
    old.stragglers.push_back({kNow, 0, 1, "n1", "", 0, 0, 0, "", "", false, 0, "slow"});
    add("b", "gpt", old);
    const Page page = read("");
    const Labels link{{"run", "a"},   {"name", "gpt"}, {"rank", ""},
                      {"node", "n1"}, {"to", "n2"},    {"phase", "transfer"}};
    QCOMPARE(page.values.at("lockstep_straggler_factor").size(), std::size_t{1});
    QVERIFY(std::isnan(page.value("lockstep_straggler_factor", link)));
    QCOMPARE(page.value("lockstep_straggler_halted", link), 1.0);
  }

  void theDashboardNamesWhatIsThere() {
    add("a", "gpt", wholeBatch());
    const Page page = read("");
    const auto dashboard = readFile(test::sourcePath("resources/grafana/lockstep.json"));
    QVERIFY(dashboard.ok());
    static const QRegularExpression name("lockstep_[a-z0-9_]+");
    int found = 0;
    for (auto it = name.globalMatch(QString::fromStdString(*dashboard)); it.hasNext(); ++found) {
      const QString one = it.next().captured(0);
      QVERIFY2(page.values.contains(one.toStdString()), qPrintable(one));
    }
    QVERIFY(found > 30);
  }

  // Where no program follows a run, or a node has left it.
  void oldValuesAreLeftOut() {
    add("a", "gpt", wholeBatch());
    const Page before = parsed(*PrometheusText(*history_).read("", kNow + 59'000'000'000));
    QVERIFY(before.values.contains("lockstep_node_cpu_ratio"));
    const Page after = parsed(*PrometheusText(*history_).read("", kNow + 61'000'000'000));
    for (const auto& [name, values] : before.values) {
      const bool byClock = (name.starts_with("lockstep_node_") || name.ends_with("_cores") ||
                            name.starts_with("lockstep_gpu_") || name.ends_with("memory_bytes") ||
                            name.starts_with("lockstep_link_")) &&
                           !name.ends_with("_total");
      QVERIFY2(after.values.contains(name) != byClock, name.c_str());
    }
  }

  // As another program records it.
  void newValuesAreRead() {
    const auto store = add("a", "gpt", {});
    PrometheusText text(*history_);
    const Labels run{{"run", "a"}, {"name", "gpt"}};
    QCOMPARE(parsed(*text.read("", kNow)).value("lockstep_run_step", run), 0.0);
    for (int step = 1; step < 5000; step += 7) {
      RunBatch batch;
      batch.series = {{"loss", {{static_cast<double>(step), step * 0.5}}}};
      QVERIFY(store->append(batch).ok());
      const Page page = parsed(*text.read("", kNow));
      QCOMPARE(page.value("lockstep_run_step", run), static_cast<double>(step));
      QCOMPARE(page.value("lockstep_run_loss", run), step * 0.5);
    }
    const auto other = opened();
    const auto row = other->row("a");
    QVERIFY(row.ok());
    RunRow ended = *row;
    ended.phase = RunState::SUCCEEDED;
    QVERIFY(other->update(ended).ok());
    QVERIFY(parsed(*text.read("", kNow)).values.empty());
    const Page asked = parsed(*text.read("a", kNow));
    QVERIFY(asked.values.contains("lockstep_run_loss"));
    QVERIFY(!text.read("absent", kNow).ok());
  }

  void textsAreEscaped() {
    const std::vector<std::string> hostile{"a\nlockstep_run_loss{} 1",
                                           "quote\" back\\slash\\n",
                                           "}",
                                           "模型 🚀",
                                           "",
                                           "line\r\x1b[2J\x7f" + std::string(1, '\0') + "end",
                                           "\xff\xfe not utf-8",
                                           "? not utf-8"};
    for (std::size_t i = 0; i < hostile.size(); ++i) {
      RunBatch batch;
      for (const std::string& text : hostile) {
        batch.series.push_back({"scalar/" + text, {{1, 1}}});
        batch.series.push_back({"node/" + text + "/cpu", {{kSeconds, 1}}});
        batch.series.push_back({"node/n1/to/" + text + "/rate", {{kSeconds, 1}}});
        batch.stragglers.push_back(
            {kNow, 0, 1, text, text, 5, 0, INFINITY, text, text, false, 0, text});
      }
      add(fmt::format("r{}", i), hostile[i], batch);
    }
    const Page page = read("");
    QVERIFY2(page.problem.isEmpty(), qPrintable(page.problem));
    std::set<std::string> names;
    for (const auto& [labels, value] : page.values.at("lockstep_run_info"))
      names.insert(labels.at("name"));
    for (std::size_t i = 0; i < 5; ++i) QVERIFY2(names.contains(hostile[i]), hostile[i].c_str());
    QVERIFY(names.contains("line??[2J??end") && names.contains("?? not utf-8"));
  }

  void numbersThatAreNone() {
    RunBatch batch;
    batch.series = {{"loss", {{1, NAN}}},
                    {"gradient_norm", {{1, INFINITY}}},
                    {"update_ratio", {{1, -INFINITY}}},
                    {"learning_rate", {{1, 1e-310}}}};
    add("a", "gpt", batch);
    const Page page = read("");
    QVERIFY2(page.problem.isEmpty(), qPrintable(page.problem));
    const Labels run{{"run", "a"}, {"name", "gpt"}};
    QVERIFY(std::isnan(page.value("lockstep_run_loss", run)));
    QCOMPARE(page.value("lockstep_run_gradient_norm", run), double(INFINITY));
    QCOMPARE(page.value("lockstep_run_update_ratio", run), double(-INFINITY));
    QCOMPARE(page.value("lockstep_run_learning_rate", run), 1e-310);
  }

  void aDamagedRunHidesNoOther() {
    QCOMPARE(*PrometheusText(*history_).read("", kNow), std::string());
    add("a", "gpt", wholeBatch());
    add("b", "gpt", wholeBatch());
    history_ = opened();
    const std::string file = history_->folder() + "/runs/a.db";
    QVERIFY(std::filesystem::remove(file));
    const Page page = read("");
    QVERIFY2(page.problem.isEmpty(), qPrintable(page.problem));
    QCOMPARE(page.value("lockstep_run_readable", {{"run", "a"}, {"name", "gpt"}}), 0.0);
    QCOMPARE(page.value("lockstep_run_readable", {{"run", "b"}, {"name", "gpt"}}), 1.0);
    QVERIFY(page.values.at("lockstep_run_loss").contains({{"run", "b"}, {"name", "gpt"}}));
  }

 private:
  std::unique_ptr<History> opened() const {
    auto out = History::open(dir_->path().toStdString());
    return out.ok() ? std::move(out).value() : nullptr;
  }
  Page read(const std::string& run) const {
    const auto text = PrometheusText(*history_).read(run, kNow);
    return text.ok() ? parsed(*text) : Page{"unread", {}};
  }
  std::unique_ptr<RunStore> add(const std::string& run, const std::string& name,
                                const RunBatch& batch) {
    RunRow row;
    row.run = run;
    row.name = name;
    row.phase = RunState::RUNNING;
    row.world = 2;
    row.generation = 3;
    row.createdNs = kNow - 60'000'000'000;
    row.startedNs = row.createdNs;
    auto store = history_->begin(row, {});
    if (!store.ok() || !(*store)->append(batch).ok()) return nullptr;
    return std::move(store).value();
  }

  std::unique_ptr<QTemporaryDir> dir_;
  std::unique_ptr<History> history_;
};

QTEST_GUILESS_MAIN(PrometheusTest)
#include "prometheus_test.moc"
