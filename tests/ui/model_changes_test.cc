// Tables that are filled, changed and emptied at random: they keep the rules of models, and their
// signals tell all that changes.
#include <QAbstractItemModelTester>
#include <QTest>
#include <functional>
#include <memory>
#include <random>
#include <type_traits>
#include <vector>

#include "app/runs/step_matrix.h"
#include "ui/models/advice_model.h"
#include "ui/models/alert_rule_model.h"
#include "ui/models/breakdown_model.h"
#include "ui/models/candidate_model.h"
#include "ui/models/cost_model.h"
#include "ui/models/link_matrix_model.h"
#include "ui/models/message_model.h"
#include "ui/models/pin_model.h"
#include "ui/models/placement_model.h"
#include "ui/models/preflight_model.h"
#include "ui/models/rebalance_model.h"
#include "ui/models/step_table_model.h"
#include "ui/models/summary_model.h"
#include "ui/models/traffic_model.h"
#include "ui/models/version_model.h"
#include "ui/studio/log_model.h"
#include "ui/theme/language.h"
#include "ui/theme/theme.h"

using namespace lockstep;
using namespace lockstep::ui;

namespace {

// The cells as a view shows them, which reads a cell again only where a signal names it.
class ShownCells : public QObject {
 public:
  explicit ShownCells(QAbstractItemModel* model) : model_(model), tester_(model) {
    connect(model, &QAbstractItemModel::modelReset, this, &ShownCells::readAll);
    connect(model, &QAbstractItemModel::layoutChanged, this, &ShownCells::readAll);
    connect(model, &QAbstractItemModel::rowsInserted, this,
            [this](const QModelIndex&, int first, int last) {
              rows_.insert(first, last - first + 1, {});
              for (int row = first; row <= last; ++row) rows_[row] = readRow(row);
            });
    connect(
        model, &QAbstractItemModel::rowsRemoved, this,
        [this](const QModelIndex&, int first, int last) { rows_.remove(first, last - first + 1); });
    connect(model, &QAbstractItemModel::dataChanged, this,
            [this](const QModelIndex& first, const QModelIndex& last) {
              for (int row = first.row(); row <= last.row(); ++row)
                for (int column = first.column(); column <= last.column(); ++column)
                  rows_[row][column] = read(row, column);
            });
    connect(model, &QAbstractItemModel::headerDataChanged, this,
            [this](Qt::Orientation side, int first, int last) {
              for (int column = first; side == Qt::Horizontal && column <= last; ++column)
                header_[column] = readHeader(column);
            });
    readAll();
  }

  // Empty: all of them are as in the model.
  QString firstStale() const {
    if (rows_.size() != model_->rowCount()) return "number of rows";
    for (int row = 0; row < rows_.size(); ++row) {
      const QStringList now = readRow(row);
      if (now != rows_[row])
        return QString("row %1: %2, now %3").arg(row).arg(rows_[row].join('|'), now.join('|'));
    }
    for (int column = 0; column < model_->columnCount(); ++column)
      if (header_.value(column) != readHeader(column))
        return QString("header: %1, now %2").arg(header_.value(column), readHeader(column));
    return {};
  }

 private:
  QString read(int row, int column) const {
    const QModelIndex at = model_->index(row, column);
    return at.data().toString() + '/' + at.data(Qt::ToolTipRole).toString();
  }
  QString readHeader(int column) const {
    return model_->headerData(column, Qt::Horizontal).toString();
  }
  QStringList readRow(int row) const {
    QStringList out;
    for (int column = 0; column < model_->columnCount(); ++column) out << read(row, column);
    return out;
  }
  void readAll() {
    rows_.clear();
    for (int row = 0; row < model_->rowCount(); ++row) rows_ << readRow(row);
    header_.clear();
    for (int column = 0; column < model_->columnCount(); ++column) header_ << readHeader(column);
  }

  QAbstractItemModel* model_;
  QAbstractItemModelTester tester_;
  QVector<QStringList> rows_;
  QStringList header_;
};

void otherLanguage() {
  Language& language = Language::instance();
  language.set(language.code() == "en" ? "zh_CN" : "en");
}

}  // namespace

class ModelChangesTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() { Theme::instance().apply(Theme::Mode::kLight); }
  void init() { random_.seed(11); }
  void cleanup() { Language::instance().set("en"); }

  void candidates() {
    CandidateModel model;
    const std::string names[] = {"mirrored", "fsdp", "pipeline", "tensor"};
    const auto any = [&] { return names[below(4)]; };
    const auto candidate = [&] {
      Candidate out;
      out.strategy = any();
      out.stepSeconds = share();
      out.bubbleShare = share();
      out.memoryBytes = below(1'000'000);
      out.wireBytes = below(1'000'000);
      if (below(3) == 0) out.joules = share();
      if (below(4) == 0) out.refusal = makeError(Code::kInvalidArgument, "nothing");
      if (below(4) == 0) out.misfit = makeError(Code::kResourceExhausted, "too large");
      return out;
    };
    change(model,
           {[&] { model.setCandidates(several(6, candidate)); }, [&] { model.setCandidates({}); },
            [&] {
              model.setBenchmarks({{any(), share()}, {any(), share()}});
            },
            [&] { model.setChosen(any()); },
            [&] {
              otherLanguage();
              model.retranslate();
            }});
  }

  void advice() {
    AdviceModel model;
    const auto strategy = [&] {
      app::AdvisedStrategy out;
      out.choice.microBatches = 1 + below(4);
      out.stepSeconds = share();
      out.bubbleShare = share();
      out.memoryBytes = below(1'000'000);
      out.linkBytes = below(3) == 0 ? 0 : below(1'000'000);
      out.joules = below(3) == 0 ? 0 : share();
      out.cost = below(3) == 0 ? 0 : share();
      out.carbonGrams = below(3) == 0 ? 0 : share();
      out.why = message("as fast");
      return out;
    };
    change(model,
           {[&] { model.setStrategies(several(6, strategy)); }, [&] { model.setStrategies({}); },
            [&] {
              otherLanguage();
              model.retranslate();
            }});
  }

  void summaries() {
    SummaryModel model;
    const auto row = [&] {
      return app::SummaryRow{message("Length"), message("{} steps", below(100))};
    };
    change(model, {[&] { model.setRows(several(6, row)); }, [&] { model.setRows({}); },
                   [&] {
                     otherLanguage();
                     model.retranslate();
                   }});
  }

  void pins() {
    PinModel model;
    const auto name = [&] { return "layer " + std::to_string(below(100)); };
    const auto stage = [&] { return below(4); };
    change(model, {[&] { model.setLayers(several(8, name), several(8, stage)); },
                   [&] { model.setLayers({}, {}); },
                   [&] {
                     if (model.rowCount() == 0) return;
                     const int row = below(model.rowCount());
                     QVERIFY(model.setData(model.index(row, PinModel::kStage), below(6)));
                     QVERIFY(!model.setData(model.index(row, PinModel::kLayer), "x"));
                   },
                   [&] {
                     otherLanguage();
                     model.retranslate();
                   }});
  }

  void rebalance() {
    RebalanceModel model;
    const auto rank = [&] {
      return app::RankSpeed{below(8), "n" + std::to_string(below(4)), below(64), below(64), share(),
                            share()};
    };
    change(model, {[&] { model.setRanks(several(8, rank)); }, [&] { model.setRanks({}); },
                   [&] {
                     otherLanguage();
                     model.retranslate();
                   }});
  }

  void messages() {
    MessageModel model;
    const auto message = [&] {
      const int begin = below(100);
      return app::SceneMessage{below(4), below(4), below(4), begin, begin + 10, below(2) == 0};
    };
    change(model, {[&] {
                     auto scene = std::make_shared<app::MessagesScene>();
                     scene->messages = several(10, message);
                     model.setMessages(scene);
                   },
                   [&] { model.setMessages(nullptr); },
                   [&] {
                     otherLanguage();
                     model.retranslate();
                   }});
    QVERIFY(!model.headerData(-1, Qt::Horizontal, Qt::DisplayRole).isValid());
  }

  void preflight() {
    PreflightModel model;
    const auto value = [&] {
      app::PreflightValue out;
      out.kind = static_cast<app::PreflightValue::Kind>(below(11));
      out.gpu = below(3) - 1;
      out.node = "n" + std::to_string(below(4));
      if (app::isPair(out.kind)) out.peer = "n" + std::to_string(below(4));
      out.value = 1e9 * share();
      out.usual = below(2) * 1e9;
      out.earlier = below(2) == 0;
      out.grade = static_cast<app::PreflightValue::Grade>(below(3));
      return out;
    };
    change(model, {[&] {
                     app::PreflightResult result;
                     result.values = several(10, value);
                     model.setResult(result);
                   },
                   [&] { model.setResult({}); },
                   [&] {
                     otherLanguage();
                     model.retranslate();
                   }});
  }

  void links() {
    LinkMatrixModel model;
    const auto matrix = [&] {
      app::PreflightResult result;
      for (int i = below(4); i > 0; --i) result.nodes.push_back("n" + std::to_string(i));
      result.values = several(10, [&] {
        return app::PreflightValue{app::PreflightValue::Kind::kBandwidth,
                                   "n" + std::to_string(below(4)), "n" + std::to_string(below(4)),
                                   1e9 * share()};
      });
      return linkMatrix(result, app::PreflightValue::Kind::kBandwidth);
    };
    change(model, {[&] { model.setMatrix(matrix()); }, [&] { model.setMatrix({}); },
                   [&] {
                     otherLanguage();
                     model.setMatrix(matrix());
                   }});
  }

  void versions() {
    VersionModel model;
    const auto version = [&] {
      return app::NodeVersion{static_cast<app::NodeVersion::Kind>(below(5)),
                              "n" + std::to_string(below(4)),
                              below(3) == 0 ? "" : std::to_string(below(2))};
    };
    change(model, {[&] {
                     app::PreflightResult result;
                     result.nodes = {"n0", "n1", "n2"};
                     result.versions = several(10, version);
                     gradeVersions(result.versions);
                     model.setResult(result);
                   },
                   [&] { model.setResult({}); },
                   [&] {
                     otherLanguage();
                     model.retranslate();
                   }});
  }

  void costs() {
    CostModel model;
    PeerModel peers;
    const auto cost = [&] {
      app::RankCost out;
      out.rank = below(3) - 1;
      out.node = "n1";
      out.seconds = share();
      out.phases[static_cast<std::size_t>(below(5))] = out.seconds;
      out.lateSteps = below(3);
      out.withoutSeconds = share();
      return out;
    };
    change(model, {[&] { model.setCosts(several(3, cost), several(3, [&] { return share(); })); },
                   [&] { model.setCosts({}); },
                   [&] {
                     otherLanguage();
                     model.retranslate();
                   }});
    const std::string names[] = {"step", "cpu", "node/disk_busy", "forward", "own"};
    const auto figure = [&] { return app::PeerFigure{names[below(5)], share(), share()}; };
    change(peers, {[&] { peers.setFigures(several(6, figure), below(4)); },
                   [&] { peers.setFigures({}, 0); },
                   [&] {
                     otherLanguage();
                     peers.retranslate();
                   }});
  }

  void traffic() {
    TrafficModel model;
    const auto link = [&] { return plan::Traffic{below(5), below(5), below(1000), below(2) == 0}; };
    const auto nodes = [&] {
      std::vector<QString> out;
      for (int i = below(3); i > 0; --i) out.push_back(QString("n%1").arg(i));
      return out;
    };
    change(model, {[&] { model.setTraffic(several(10, link), below(5)); },
                   [&] { model.setTraffic({}, 0); },
                   [&] { model.setNodeTraffic(several(9, link), several(9, link), nodes()); },
                   [&] {
                     otherLanguage();
                     model.retranslate();
                   }});
    NodeTrafficModel table;
    const auto row = [&] {
      NodeTraffic out{QString("n%1").arg(below(4)), share(), share(), {}, {}, {}};
      if (below(2) == 0) out.measuredOut = out.measuredIn = share();
      return out;
    };
    change(table, {[&] { table.setRows(several(3, row)); }, [&] { table.setRows({}); },
                   [&] {
                     otherLanguage();
                     table.retranslate();
                   }});
  }

  // The values of a step may come after those of a later one.
  void steps() {
    app::StepMatrix steps(32);  // cells, each of several steps once there are more
    StepTableModel model(steps);
    int newest = 1;
    change(model, {[&] {
                     newest += below(2);
                     const int step = std::max(1, newest - below(5));
                     steps.add({"rank/" + std::to_string(below(4)) + "/forward",
                                {{static_cast<double>(step), share()}}});
                     model.refresh();
                   },
                   [&] { model.setMeasure(static_cast<app::StepMeasure>(below(9))); },
                   [&] {
                     otherLanguage();
                     model.retranslate();
                   }});
    QVERIFY(model.rowCount() > 0);
  }

  void placementAndBreakdown() {
    PlacementModel placement;
    const auto rank = [&] {
      app::RankPreview out;
      out.rank = below(8);
      out.samples = below(3);
      out.parameterBytes = below(1'000'000);
      return out;
    };
    change(placement, {[&] { placement.setRanks(several(8, rank), below(2) == 0); },
                       [&] { placement.setRanks({}); },
                       [&] {
                         otherLanguage();
                         placement.retranslate();
                       }});
    BreakdownModel breakdown;
    const auto bar = [&] {
      BreakdownBar out;
      out.name = QString("rank %1").arg(below(8));
      out.hasMeasured = below(2) == 0;
      out.hasPredicted = below(2) == 0;
      out.measured[static_cast<std::size_t>(below(kPhaseCount))] = share();
      return out;
    };
    change(breakdown, {[&] { breakdown.setBars(several(3, bar)); }, [&] { breakdown.setBars({}); },
                       [&] {
                         otherLanguage();
                         breakdown.retranslate();
                       }});
  }

  void logs() {
    LogModel model;
    const auto line = [&] {
      return LogRow{1'000'000'000LL * below(100), "n1", below(4) - 1, below(4), "step"};
    };
    change(model, {[&] {
                     const auto lines = several(5, line);
                     model.append({lines.begin(), lines.end()});
                   },
                   [&] { model.clear(); },
                   [&] {
                     otherLanguage();
                     model.retranslate();
                   }});
  }

  void alertRules() {
    AlertRuleModel model;
    app::AlertSettings settings;
    change(
        model,
        {[&] {
           auto& rule =
               settings.rules[static_cast<std::size_t>(below(static_cast<int>(app::kAlertRules)))];
           rule.enabled = !rule.enabled;
           rule.values[0] += 1;
           model.setSettings(settings);
         },
         [&] {
           const QModelIndex at = model.index(below(model.rowCount()), below(7));
           (void)model.setData(at, below(20), Qt::EditRole);
           (void)model.setData(at, below(2) * 2, Qt::CheckStateRole);
         },
         [&] {
           otherLanguage();
           model.retranslate();
         }});
  }

 private:
  int below(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }
  double share() { return below(1000) / 1000.0; }
  template <typename Make>
  std::vector<std::invoke_result_t<const Make&>> several(int most, const Make& make) {
    std::vector<std::invoke_result_t<const Make&>> out;
    for (int n = below(most + 1); n > 0; --n) out.push_back(make());
    return out;
  }

  void change(QAbstractItemModel& model, const std::vector<std::function<void()>>& changes) {
    const ShownCells shown(&model);
    for (int round = 0; round < 200; ++round) {
      const int which = below(static_cast<int>(changes.size()));
      changes[static_cast<std::size_t>(which)]();
      const QString stale = shown.firstStale();
      QVERIFY2(stale.isEmpty(),
               qPrintable(QString("round %1, change %2, %3").arg(round).arg(which).arg(stale)));
    }
  }

  std::mt19937 random_;
};

QTEST_MAIN(ModelChangesTest)
#include "model_changes_test.moc"
