// The links of a pre-flight as a coloured matrix, and the versions of its nodes.
#include <QAbstractItemModelTester>
#include <QColor>
#include <QFont>
#include <QTest>
#include <algorithm>
#include <cmath>

#include "tests/support/made_up_links.h"
#include "ui/models/link_matrix_model.h"
#include "ui/models/version_model.h"
#include "ui/plots/color_map.h"
#include "ui/theme/format.h"
#include "ui/theme/language.h"
#include "ui/theme/theme.h"

using namespace lockstep;
using namespace lockstep::ui;
using Kind = app::PreflightValue::Kind;

namespace {

double luminance(const QColor& color) {
  const auto linear = [](double share) {
    return share <= 0.04045 ? share / 12.92 : std::pow((share + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(color.redF()) + 0.7152 * linear(color.greenF()) +
         0.0722 * linear(color.blueF());
}
// Contrast ratio as in WCAG 2.
double contrast(const QColor& a, const QColor& b) {
  const auto [low, high] = std::minmax({luminance(a), luminance(b)});
  return (high + 0.05) / (low + 0.05);
}

QColor fillOf(const QModelIndex& index) { return index.data(Qt::BackgroundRole).value<QColor>(); }
QColor mapped(float share) { return QColor(ColorMap(ColorMap::Kind::kDiverging).at(share)); }

}  // namespace

class PreflightModelsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void init() { Theme::instance().apply(Theme::Mode::kLight); }
  void cleanup() {
    Theme::instance().apply(Theme::Mode::kLight);
    Language::instance().set("en");
  }

  void linksAreAMatrix_data() {
    QTest::addColumn<int>("nodes");
    for (const int nodes : {2, 3, 20}) QTest::addRow("%d nodes", nodes) << nodes;
  }
  void linksAreAMatrix() {
    QFETCH(int, nodes);
    LinkMatrixModel model;
    QAbstractItemModelTester tester(&model);
    QCOMPARE(model.rowCount(), 0);
    model.setMatrix(linkMatrix(tests::madeUpLinks(nodes), Kind::kBandwidth));
    QCOMPARE(model.rowCount(), nodes);
    QCOMPARE(model.columnCount(), nodes);
    QCOMPARE(model.headerData(0, Qt::Vertical, Qt::DisplayRole).toString(), QString("from n1"));
    QCOMPARE(model.headerData(1, Qt::Horizontal, Qt::DisplayRole).toString(), QString("to n2"));
    QVERIFY(!model.headerData(nodes, Qt::Horizontal, Qt::DisplayRole).isValid());
    for (int from = 0; from < nodes; ++from)
      for (int to = 0; to < nodes; ++to) {
        const QModelIndex cell = model.index(from, to);
        const QString text = cell.data().toString();
        if (from == to) {
          QVERIFY(text.isEmpty() && !cell.data(Qt::BackgroundRole).isValid());
          continue;
        }
        const bool isSlow = from == 0 && to == 1;
        // Two have nothing to compare with.
        const bool isWeak = isSlow && nodes > 2;
        QCOMPARE(text, (isWeak ? "! " : "") + formatRate(isSlow ? 20e6 : 100e6));
        QCOMPARE(cell.data(Qt::FontRole).value<QFont>().bold(), isWeak);
        QCOMPARE(fillOf(cell), mapped(isSlow ? 1 : 0));
      }
    const QString slow = model.index(0, 1).data(Qt::ToolTipRole).toString();
    QCOMPARE(slow, nodes > 2 ? QString("link n1 → n2 sends 20 MB/s, usually 100")
                             : QString("link n1 → n2: %1, the median is %2")
                                   .arg(formatRate(20e6), formatRate(100e6)));
  }

  void aLinkThatWasNotMeasuredSaysSo() {
    app::PreflightResult result = tests::madeUpLinks(3);
    tests::forgetLink(result, "n3", "n1");
    LinkMatrixModel model;
    model.setMatrix(linkMatrix(result, Kind::kBandwidth));
    const QModelIndex cell = model.index(2, 0);
    QCOMPARE(cell.data().toString(), QString(QChar(0x2014)));
    QVERIFY(!cell.data(Qt::BackgroundRole).isValid());
    QCOMPARE(cell.data(Qt::ToolTipRole).toString(), QString("link n3 → n1 was not measured"));
    QCOMPARE(cell.data(Qt::AccessibleTextRole), cell.data(Qt::ToolTipRole));
    Language::instance().set("zh_CN");
    QCOMPARE(cell.data(Qt::ToolTipRole).toString(), QString::fromUtf8("未测量链路 n3 → n1"));
    QCOMPARE(model.headerData(0, Qt::Vertical, Qt::DisplayRole).toString(),
             QString::fromUtf8("从 n1"));
  }

  // The colour of a slow link is the same for both measures.
  void aLongRoundTripIsSlow() {
    LinkMatrixModel model;
    model.setMatrix(linkMatrix(tests::madeUpLinks(3), Kind::kRoundTrip));
    QCOMPARE(model.index(0, 1).data().toString(), "! " + formatSeconds(2e-3));
    QCOMPARE(fillOf(model.index(0, 1)), mapped(1));
    QCOMPARE(model.index(1, 0).data().toString(), formatSeconds(1e-3));
    QCOMPARE(fillOf(model.index(1, 0)), mapped(0));
  }

  // On every colour of the scale, in both themes.
  void valuesAreRead() {
    LinkMatrixModel model;
    app::PreflightResult result;
    for (int i = 0; i < 33; ++i) result.nodes.push_back("n" + std::to_string(i));
    for (int i = 1; i < 33; ++i)  // from a quarter to four times the median
      result.values.push_back({Kind::kBandwidth, "n0", result.nodes[static_cast<std::size_t>(i)],
                               1e8 * std::pow(2, (i - 16) / 8.0)});
    for (const auto theme : {Theme::Mode::kDark, Theme::Mode::kLight}) {
      model.setMatrix(linkMatrix(result, Kind::kBandwidth));
      Theme::instance().apply(theme);
      QCOMPARE(fillOf(model.index(0, 1)), mapped(1));
      QCOMPARE(fillOf(model.index(0, 32)), mapped(-1));
      for (int to = 1; to < 33; ++to) {
        const QModelIndex cell = model.index(0, to);
        const QColor text = cell.data(Qt::ForegroundRole).value<QColor>();
        QVERIFY2(contrast(text, fillOf(cell)) >= 4.5, qPrintable(fillOf(cell).name()));
      }
    }
  }

  void versionsOfNodes() {
    VersionModel model;
    QAbstractItemModelTester tester(&model);
    app::PreflightResult result = tests::madeUpLinks(3);
    model.setResult(result);
    QCOMPARE(model.rowCount(), 0);  // they were not asked for
    const std::string hash(64, 'a');
    result.versions = tests::madeUpVersions(app::NodeVersion::Kind::kAgent, {hash, hash, hash});
    const auto kernels =
        tests::madeUpVersions(app::NodeVersion::Kind::kKernel, {"6.1", "6.6", "6.1"});
    result.versions.insert(result.versions.end(), kernels.begin(), kernels.end());
    model.setResult(result);
    QCOMPARE(model.rowCount(), 3);
    QVERIFY(model.hasColumn(VersionModel::kNode) && model.hasColumn(VersionModel::kKernel));
    QVERIFY(!model.hasColumn(VersionModel::kGpuDriver) && !model.hasColumn(VersionModel::kNccl));

    // Of a node without GPUs nothing, of one that does not tell nothing known.
    const auto drivers = tests::madeUpVersions(app::NodeVersion::Kind::kGpuDriver, {"580.1", ""});
    result.versions.insert(result.versions.end(), drivers.begin(), drivers.end());
    model.setResult(result);
    const auto column = [&](int at) {
      QStringList out;
      for (int row = 0; row < model.rowCount(); ++row)
        out << model.index(row, at).data().toString();
      return out;
    };
    const auto toneAt = [&](int row, int at) {
      return static_cast<Tone>(model.index(row, at).data(VersionModel::kToneRole).toInt());
    };
    QCOMPARE(column(VersionModel::kNode), (QStringList{"n1", "n2", "n3"}));
    const QString shortHash(12, 'a');
    QCOMPARE(column(VersionModel::kAgent), (QStringList{shortHash, shortHash, shortHash}));
    QCOMPARE(column(VersionModel::kKernel), (QStringList{"6.1", "6.6", "6.1"}));
    QCOMPARE(column(VersionModel::kGpuDriver),
             (QStringList{"580.1", "unknown", QString(QChar(0x2014))}));
    QCOMPARE(toneAt(0, VersionModel::kKernel), Tone::kGood);
    QCOMPARE(toneAt(1, VersionModel::kKernel), Tone::kWarning);
    QCOMPARE(toneAt(1, VersionModel::kGpuDriver), Tone::kNeutral);
    QCOMPARE(toneAt(2, VersionModel::kGpuDriver), Tone::kNeutral);
    QCOMPARE(model.index(1, VersionModel::kKernel).data(Qt::ToolTipRole).toString(),
             QString("node n2 has kernel 6.6, unlike the 6.1 of n1, n3"));
    QCOMPARE(model.index(0, VersionModel::kAgent).data(Qt::ToolTipRole).toString(),
             QString::fromStdString(hash));
    Language::instance().set("zh_CN");
    QCOMPARE(model.index(1, VersionModel::kKernel).data(Qt::ToolTipRole).toString(),
             QString::fromUtf8("节点 n2 的内核为 6.6，与 n1, n3 的 6.1 不同"));
    QCOMPARE(model.index(1, VersionModel::kGpuDriver).data().toString(), QString::fromUtf8("未知"));
    QCOMPARE(model.headerData(VersionModel::kKernel, Qt::Horizontal, Qt::DisplayRole).toString(),
             QString::fromUtf8("内核"));
  }

  // The first of them; those of many nodes would fill the window.
  void nodesThatDifferAreWarnedOf() {
    VersionModel model;
    app::PreflightResult result;
    const auto warningsOf = [&](const std::vector<std::string>& kernels) {
      result.versions = tests::madeUpVersions(app::NodeVersion::Kind::kKernel, kernels);
      model.setResult(result);
      return model.warnings();
    };
    QCOMPARE(warningsOf({"6.1", "6.1", ""}), QStringList());
    QCOMPARE(warningsOf({"6.1", "6.1", "6.6"}),
             QStringList{"node n3 has kernel 6.6, unlike the 6.1 of n1, n2"});
    QCOMPARE(warningsOf({"6.1", "6.1", "6.2", "6.3", "6.4"}).size(), 3);
    const QStringList many = warningsOf({"6.1", "6.1", "6.2", "6.3", "6.4", "6.5", "6.6"});
    QCOMPARE(many.size(), 4);
    QCOMPARE(many.last(), QString("More versions that differ: 2."));
    Language::instance().set("zh_CN");
    QCOMPARE(model.warnings().last(), QString::fromUtf8("其他不同的版本：2 项。"));
  }
};

QTEST_MAIN(PreflightModelsTest)
#include "preflight_models_test.moc"
