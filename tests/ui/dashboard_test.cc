// Dashboards: patterns of series, layout, settings old and damaged, and the grid in the window
// driven by mouse and keyboard.
#include <QAbstractItemModelTester>
#include <QSignalSpy>
#include <QTest>
#include <QtWidgets>
#include <random>

#include "tests/ui/studio_fixture.h"
#include "ui/dialogs/metric_dialog.h"
#include "ui/dialogs/name_dialog.h"
#include "ui/models/metric_model.h"
#include "ui/pages/dashboard_card.h"
#include "ui/pages/dashboard_view.h"
#include "ui/pages/run_page.h"
#include "ui/plots/custom_plot.h"
#include "ui/plots/plot_view.h"
#include "ui/studio/dashboard.h"
#include "ui/studio/metrics.h"
#include "ui/theme/language.h"
#include "ui/widgets/widgets.h"

using namespace lockstep;
using namespace lockstep::ui;
using lockstep::tests::StudioHome;
using lockstep::tests::wait;

namespace {

constexpr int kDashboardTab = 6;

// As matchesPattern() says it, by a regular expression.
bool matchesSlowly(const QString& pattern, const QString& series) {
  QString expression;
  for (const QChar c : pattern)
    expression += c == '*' ? "[^/]*" : c == '?' ? "[^/]" : QRegularExpression::escape(c);
  return QRegularExpression("\\A(?:" + expression + ")\\z").match(series).hasMatch();
}

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int below(int limit) { return static_cast<int>(engine_() % static_cast<unsigned>(limit)); }
  QString text(const char* of, int most) {
    QString out;
    const QString letters = of;
    for (int i = below(most + 1); i > 0; --i)
      out += letters[below(static_cast<int>(letters.size()))];
    return out;
  }
  Dashboard dashboard() {
    Dashboard out;
    out.columns = 1 + below(Dashboard::kMostColumns);
    for (int i = below(20); i > 0; --i) {
      DashboardPlot plot;
      plot.width = 1 + below(Dashboard::kMostColumns);
      plot.height = 1 + below(Dashboard::kMostRows);
      plot.logY = below(2) == 0;
      plot.title = text("ab \"\\{}中", 5).trimmed();
      for (int k = 1 + below(3); k > 0; --k) plot.patterns << "x" + text("ab/*?", 6);
      plot.patterns.removeDuplicates();
      out.plots << plot;
    }
    return out;
  }

 private:
  std::mt19937 engine_;
};

}  // namespace

class DashboardTest : public QObject {
  Q_OBJECT

  RunPage* openRun(int index = 0, int gpus = 0) {
    const std::string run = home_->addRun(index, app::RunState::SUCCEEDED, 200, gpus);
    RunPage* page = window_->openRun(QString::fromStdString(run));
    if (!wait([&] { return page->document()->loaded(); })) return nullptr;
    page->findChild<QTabWidget*>("runTabs")->setCurrentIndex(kDashboardTab);
    return page;
  }
  static DashboardView* viewOf(RunPage* page) {
    return page->findChild<DashboardView*>("dashboardView");
  }
  static DashboardCard* card(QWidget* view, int index) {
    for (auto* one : view->findChildren<DashboardCard*>(QString("dashboardCard%1").arg(index)))
      if (one->isVisibleTo(view)) return one;
    return nullptr;
  }
  static QWidget* handle(QWidget* view, int index) {
    return card(view, index)->findChild<QWidget*>("dashboardMove");
  }
  static QStringList patterns(DashboardView* view) {
    QStringList out;
    for (const DashboardPlot& plot : view->dashboard().plots) out << plot.patterns.join(",");
    return out;
  }
  // Opens the menu of a plot, or of the dashboard, and chooses the entry.
  static bool choose(QWidget* view, const char* menuName, const char* entry) {
    bool found = false;
    if (!wait([&] { return view->findChild<QMenu*>(menuName) != nullptr; })) return false;
    auto* menu = view->findChild<QMenu*>(menuName);
    for (QAction* action : menu->actions())
      if (action->objectName() == entry && action->isEnabled()) {
        action->trigger();
        found = true;
      }
    menu->close();
    return found;
  }

 private Q_SLOTS:
  void init() {
    home_ = std::make_unique<StudioHome>();
    tests::openWindow(window_, *home_, {1100, 800});
  }
  void cleanup() { tests::closeStudio(window_, home_); }

  void patternsMatchSegments() {
    QVERIFY(matchesPattern(u"node/*/gpu/0/utilisation", u"node/n1/gpu/0/utilisation"));
    QVERIFY(!matchesPattern(u"node/*/gpu/0/utilisation", u"node/n1/gpu/1/utilisation"));
    QVERIFY(!matchesPattern(u"node/*", u"node/n1/cpu"));
    QVERIFY(matchesPattern(u"rank/1?/step", u"rank/12/step"));
    QVERIFY(!matchesPattern(u"", u"loss"));
    Random random(7);
    int matched = 0;
    for (int i = 0; i < 20'000; ++i) {
      const QString pattern = random.text("ab/**?", 7), series = random.text("ab/", 7);
      const bool expected = matchesSlowly(pattern, series);
      matched += expected;
      QVERIFY2(matchesPattern(pattern, series) == expected,
               qPrintable(pattern + " against " + series));
    }
    QVERIFY(matched > 100);
    QCOMPARE(patternOf("node/n1/gpu/3/power"), QString("node/*/gpu/*/power"));
    QCOMPARE(patternOf("node/n1/to/n2/sent"), QString("node/*/to/*/sent"));
    QCOMPARE(patternOf("rank/3/forward"), QString("rank/*/forward"));
    QCOMPARE(patternOf("loss"), QString("loss"));
  }

  void plotsLieInOrderAndApart() {
    for (unsigned seed = 1; seed <= 300; ++seed) {
      const Dashboard dashboard = Random(seed).dashboard();
      const QVector<DashboardPlace> places = placesOf(dashboard);
      QCOMPARE(places.size(), dashboard.plots.size());
      QSet<std::pair<int, int>> taken;
      std::pair before{-1, -1};
      for (const DashboardPlace& at : places) {
        QVERIFY(at.column >= 0 && at.column + at.columns <= dashboard.columns);
        QVERIFY(std::pair(at.row, at.column) > before);
        before = {at.row, at.column};
        for (int r = at.row; r < at.row + at.rows; ++r)
          for (int c = at.column; c < at.column + at.columns; ++c) {
            QVERIFY(!taken.contains({r, c}));
            taken.insert({r, c});
          }
      }
    }
  }

  void textsOfSettings() {
    for (unsigned seed = 1; seed <= 300; ++seed) {
      const Dashboard dashboard = Random(seed).dashboard();
      bool damaged = false;
      const auto again = dashboardFromText(dashboardText(dashboard), &damaged);
      QVERIFY(again && !damaged);
      QCOMPARE(*again, dashboard);
    }
    // Of a newer studio, and with what is wrong in part.
    bool damaged = false;
    auto some = dashboardFromText(
        R"({"version":9,"new":1,"columns":3,"plots":[{"series":["loss"],"colour":"red"}]})",
        &damaged);
    QVERIFY(some && !damaged);
    QCOMPARE(some->columns, 3);
    some = dashboardFromText(
        R"({"columns":77,"plots":[5,{"series":[]},{"series":["loss",3,""],"width":-4,"height":"x"}]})",
        &damaged);
    QVERIFY(some && damaged);
    QCOMPARE(some->plots.size(), 1);
    QCOMPARE(some->plots[0], (DashboardPlot{{}, {"loss"}}));
    QCOMPARE(some->columns, Dashboard::kMostColumns);
    for (const char* text : {"", "{", "[]", "{\"plots\":3}", "\"loss\""})
      QVERIFY(!dashboardFromText(text));
    // Any text, and none that is out of its limits.
    Random random(3);
    for (unsigned seed = 1; seed <= 500; ++seed) {
      QString text = dashboardText(Random(seed).dashboard());
      for (int i = random.below(6); i >= 0; --i)
        text[random.below(static_cast<int>(text.size()))] = QChar(32 + random.below(95));
      if (const auto read = dashboardFromText(text)) {
        QVERIFY(read->columns >= 1 && read->columns <= Dashboard::kMostColumns);
        for (const DashboardPlot& plot : read->plots)
          QVERIFY(!plot.patterns.isEmpty() && plot.width >= 1 &&
                  plot.width <= Dashboard::kMostColumns && plot.height >= 1 &&
                  plot.height <= Dashboard::kMostRows);
        (void)placesOf(*read);
      }
    }
  }

  void keptByName() {
    QTemporaryDir folder;
    QSettings settings(folder.filePath("studio.ini"), QSettings::IniFormat);
    Dashboards store(settings);
    QVERIFY(store.names().isEmpty());
    store.remove("");
    store.save(defaultDashboard());  // has no name
    QVERIFY(store.names().isEmpty());
    const QStringList names{"a/b", QString::fromUtf8("我的 面板"), "x=y%2F;", "ABC", "abc"};
    for (const QString& name : names) {
      Dashboard one = Random(static_cast<unsigned>(name.size())).dashboard();
      one.name = name;
      store.save(one);
      settings.sync();
      QCOMPARE(store.find(name), std::optional(one));
    }
    QSettings again(folder.filePath("studio.ini"), QSettings::IniFormat);
    QStringList found = Dashboards(again).names(), expected = names;
    found.sort();
    expected.sort();
    QCOMPARE(found, expected);
    store.setCurrent("abc");
    store.remove("abc");
    QCOMPARE(store.current(), QString());
    QVERIFY(!store.find("abc"));
    QVERIFY(store.find("ABC"));
  }

  void metricModel() {
    MetricModel model;
    QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::QtTest);
    MetricFilter filter;
    QAbstractItemModelTester ofFilter(&filter,
                                      QAbstractItemModelTester::FailureReportingMode::QtTest);
    filter.setSourceModel(&model);
    QSignalSpy changed(&model, &MetricModel::checkedChanged);
    model.setSeries({"gradient_norm", "loss", "node/n1/cpu", "node/n2/cpu", "rank/0/step"});
    QCOMPARE(model.index(0).data(MetricModel::kPatternRole).toString(), QString("node/*/cpu"));
    QCOMPARE(model.index(0).data().toString(), QString::fromUtf8("all nodes · CPU (2 series)"));
    QCOMPARE(model.rowCount(), 6);
    filter.setText("gradient");
    QCOMPARE(filter.rowCount(), 1);
    QVERIFY(filter.setData(filter.index(0, 0), Qt::Checked, Qt::CheckStateRole));
    QCOMPARE(model.checked(), QStringList{"gradient_norm"});
    QCOMPARE(changed.size(), 1);
    filter.setText("CPU n2");
    QCOMPARE(filter.rowCount(), 1);
    filter.setText("rank/0");
    QCOMPARE(filter.rowCount(), 1);
    filter.setText("nothing of it");
    QCOMPARE(filter.rowCount(), 0);
    filter.setText("");
    model.setChecked({"node/?1/*", "auc"});
    QCOMPARE(model.rowCount(), 8);
    QVERIFY(model.index(1).data().toString().contains("node/?1/*"));
    QVERIFY(model.index(2).data().toString().contains("not in this run"));
    QVERIFY(!model.setData(model.index(0), 1, Qt::EditRole));
    QVERIFY(!model.setData({}, Qt::Checked, Qt::CheckStateRole));
    model.setSeries({});
    QCOMPARE(model.rowCount(), 2);
  }

  // What was there before there were dashboards; an edit makes a copy.
  void defaultShowsTheRun() {
    RunPage* page = openRun();
    QVERIFY(page);
    DashboardView* view = viewOf(page);
    QCOMPARE(view->dashboard(), defaultDashboard());
    QVERIFY(view->dashboard().plots.size() > 5);
    auto* loss = card(view, 0)->view();
    QCOMPARE(loss->series().size(), std::size_t{2});
    QVERIFY(loss->sampleCount() >= 200);
    // Of all ranks, although these have no series of their own in the document.
    int steps = -1;
    for (int i = 0; i < view->dashboard().plots.size(); ++i)
      if (view->dashboard().plots[i].patterns == QStringList{"rank/*/step"}) steps = i;
    QVERIFY(steps >= 0);
    QCOMPARE(card(view, steps)->view()->series().size(), std::size_t{3});
    QCOMPARE(card(view, steps)->title(), QString("Step time"));
    QCOMPARE(card(view, steps)->view()->series()[1]->name, QString("rank 1"));
    QTest::keyClick(handle(view, 0), Qt::Key_Delete);
    QCOMPARE(view->dashboard().name, QString("My dashboard"));
    QCOMPARE(view->dashboard().plots.size(), defaultDashboard().plots.size() - 1);
    QCOMPARE(view->findChild<QComboBox*>("dashboardChooser")->currentText(),
             QString("My dashboard"));
    view->undoStack()->undo();
    QCOMPARE(view->dashboard(), defaultDashboard());
    QCOMPARE(view->findChild<QComboBox*>("dashboardChooser")->count(), 1);
  }

  // A name that a program gave may have a comma: what is checked in the list is one series.
  void aNameMayHaveAComma() {
    const QString name = "scalar/accuracy, top 5";
    MetricDialog dialog({"loss", name}, {}, window_.get());
    QAbstractItemModel* list = dialog.findChild<QListView*>("metricList")->model();
    for (int row = 0; row < list->rowCount(); ++row)
      if (const QModelIndex at = list->index(row, 0); at.data(MetricModel::kPatternRole) == name)
        list->setData(at, Qt::Checked, Qt::CheckStateRole);
    QVERIFY(dialog.findChild<QPushButton*>("metricDialogAccept")->isEnabled());
    QCOMPARE(dialog.plot().patterns, QStringList{name});
    QVERIFY(dialog.findChild<QLabel*>("metricNote")->text().startsWith("1 "));
  }

  void pickedWithTheKeyboard() {
    RunPage* page = openRun();
    QVERIFY(page);
    DashboardView* view = viewOf(page);
    const int before = static_cast<int>(view->dashboard().plots.size());
    QTest::keyClick(view->findChild<QPushButton*>("dashboardAdd"), Qt::Key_Space);
    QVERIFY(wait([&] { return view->findChild<MetricDialog*>() != nullptr; }));
    auto* dialog = view->findChild<MetricDialog*>();
    auto* accept = dialog->findChild<QPushButton*>("metricDialogAccept");
    QVERIFY(!accept->isEnabled());
    auto* search = dialog->findChild<QLineEdit*>("metricSearch");
    auto* list = dialog->findChild<QListView*>("metricList");
    QTest::keyClicks(search, "waiting all");
    QCOMPARE(list->model()->rowCount(), 1);
    QTest::keyClick(search, Qt::Key_Down);
    QTest::keyClick(list, Qt::Key_Space);
    auto* typed = dialog->findChild<QLineEdit*>("metricPatterns");
    QCOMPARE(typed->text(), QString("rank/*/waiting"));
    QVERIFY(accept->isEnabled());
    // Over time: not with what is over steps.
    typed->setFocus();
    QTest::keyClicks(typed, ", node/*/cpu");
    QVERIFY(!accept->isEnabled());
    QVERIFY(dialog->findChild<QLabel*>("metricNote")->text().contains("cannot share a plot"));
    typed->clear();
    QTest::keyClicks(typed, "rank/*/waiting, rank/?/transfer");
    QVERIFY(accept->isEnabled());
    QTest::keyClicks(dialog->findChild<QLineEdit*>("metricTitle"), "Exchange");
    QTest::keyClick(typed, Qt::Key_Return);
    QCOMPARE(static_cast<int>(view->dashboard().plots.size()), before + 1);
    DashboardCard* made = card(view, before);
    QVERIFY(made);
    QCOMPARE(made->title(), QString("Exchange"));
    QCOMPARE(made->view()->series().size(), std::size_t{6});
    QVERIFY(handle(view, before)->hasFocus());
    QTRY_COMPARE_WITH_TIMEOUT(made->view()->series()[0]->raw().size(), std::size_t{200}, 60'000);
    // It is edited, and what it was comes back.
    QTest::mouseClick(made->findChild<QToolButton*>("dashboardMenu"), Qt::LeftButton);
    QVERIFY(choose(made, "dashboardPlotMenu", "dashboardEdit"));
    QVERIFY(wait([&] {
      const auto all = view->findChildren<MetricDialog*>();  // the one before may be there still
      return std::any_of(all.begin(), all.end(), [](auto* one) { return one->isVisible(); });
    }));
    for (auto* open : view->findChildren<MetricDialog*>())
      if (open->isVisible()) {
        open->findChild<QLineEdit*>("metricPatterns")->setText("loss");
        Q_EMIT open->findChild<QLineEdit*>("metricPatterns")->textEdited("loss");
        open->accept();
      }
    QCOMPARE(view->dashboard().plots.back().patterns, QStringList{"loss"});
    view->undoStack()->undo();
    QCOMPARE(view->dashboard().plots.back().patterns.size(), 2);
  }

  void movedAndResizedByKeys() {
    RunPage* page = openRun();
    QVERIFY(page);
    DashboardView* view = viewOf(page);
    const QStringList before = patterns(view);
    QTest::keyClick(handle(view, 0), Qt::Key_Right);
    QStringList moved = before;
    moved.move(0, 1);
    QCOMPARE(patterns(view), moved);
    QVERIFY(handle(view, 1)->hasFocus());
    QTest::keyClick(handle(view, 1), Qt::Key_Left);
    QTest::keyClick(handle(view, 0), Qt::Key_Left);  // it is the first
    QCOMPARE(patterns(view), before);
    QTest::keyClick(handle(view, 0), Qt::Key_Right, Qt::ShiftModifier);
    QTest::keyClick(handle(view, 0), Qt::Key_Right, Qt::ShiftModifier);  // as wide as the grid
    QTest::keyClick(handle(view, 0), Qt::Key_Down, Qt::ShiftModifier);
    QCOMPARE(view->dashboard().plots[0].width, 2);
    QCOMPARE(view->dashboard().plots[0].height, 2);
    QVERIFY(wait([&] { return card(view, 0)->width() > 1.8 * card(view, 1)->width(); }));
    QVERIFY(card(view, 0)->height() > 1.8 * card(view, 1)->height());
    auto* columns = view->findChild<QSpinBox*>("dashboardColumns");
    QTest::keyClick(columns, Qt::Key_Up);
    QCOMPARE(view->dashboard().columns, 3);
    QVERIFY(wait([&] { return card(view, 1)->x() > card(view, 0)->geometry().right(); }));
    QCOMPARE(card(view, 1)->y(), card(view, 0)->y());
    // All of it can be undone.
    while (view->undoStack()->canUndo()) view->undoStack()->undo();
    QCOMPARE(view->dashboard(), defaultDashboard());
  }

  void movedAndResizedByMouse() {
    RunPage* page = openRun();
    QVERIFY(page);
    DashboardView* view = viewOf(page);
    QTest::qWait(50);
    const QStringList before = patterns(view);
    const auto drag = [&](QWidget* from, QWidget* to, double x) {
      const QPoint start = from->rect().center();
      QTest::mousePress(from, Qt::LeftButton, {}, start);
      const QPoint target = from->mapFromGlobal(
          to->mapToGlobal(QPoint(static_cast<int>(to->width() * x), to->height() / 2)));
      QTest::mouseMove(from, start + QPoint(30, 0));
      QTest::mouseMove(from, target);
      const bool marked = view->findChild<QWidget*>("dashboardDrop")->isVisible();
      QTest::mouseRelease(from, Qt::LeftButton, {}, target);
      return marked;
    };
    QVERIFY(drag(handle(view, 0), card(view, 3), 0.9));  // after the fourth
    QStringList moved = before;
    moved.move(0, 3);
    QCOMPARE(patterns(view), moved);
    QVERIFY(!view->findChild<QWidget*>("dashboardDrop")->isVisible());
    QTest::qWait(20);
    // By its title, before the first.
    QVERIFY(drag(card(view, 3)->findChild<QWidget*>("plotTitle"), card(view, 0), 0.1));
    QCOMPARE(patterns(view), before);
    // Escape leaves it where it was.
    QWidget* const first = handle(view, 0);
    QTest::mousePress(first, Qt::LeftButton);
    QTest::mouseMove(first, QPoint(300, 300));
    QTest::keyClick(first, Qt::Key_Escape);
    QTest::mouseRelease(first, Qt::LeftButton, {}, QPoint(300, 300));
    QCOMPARE(patterns(view), before);
    // A click alone does nothing; the corner resizes.
    QTest::mouseClick(first, Qt::LeftButton);
    QCOMPARE(patterns(view), before);
    QTest::qWait(20);
    auto* grip = card(view, 0)->findChild<QWidget*>("dashboardGrip");
    const QPoint by(card(view, 0)->width(), card(view, 0)->height());
    QTest::mousePress(grip, Qt::LeftButton, {}, QPoint(4, 4));
    QTest::mouseMove(grip, QPoint(4, 4) + by / 2);
    QTest::mouseMove(grip, QPoint(4, 4) + by);
    QTest::mouseRelease(grip, Qt::LeftButton, {}, QPoint(4, 4) + by);
    QCOMPARE(view->dashboard().plots[0].width, 2);
    QCOMPARE(view->dashboard().plots[0].height, 2);
  }

  // One page's dashboard is every run's, also of another start; its patterns take up what comes.
  void usedForAnyRun() {
    RunPage* page = openRun(0, 2);
    QVERIFY(page);
    DashboardView* view = viewOf(page);
    auto* options = view->findChild<QToolButton*>("dashboardOptions");
    options->click();
    QVERIFY(choose(view, "dashboardOptionsMenu", "dashboardNew"));
    QVERIFY(wait([&] { return view->findChild<NameDialog*>() != nullptr; }));
    auto* naming = view->findChild<NameDialog*>();
    naming->findChild<QLineEdit*>("nameField")->setText(" GPUs / all ");
    naming->accept();
    QCOMPARE(view->dashboard().name, QString("GPUs / all"));
    // Empty, it says what to do.
    auto* empty = view->findChild<QWidget*>("dashboardEmpty");
    QVERIFY(empty->isVisible());
    view->findChild<EmptyState*>("dashboardEmpty")->button()->click();
    QVERIFY(wait([&] { return view->findChild<MetricDialog*>() != nullptr; }));
    auto* dialog = view->findChild<MetricDialog*>();
    QTest::keyClicks(dialog->findChild<QLineEdit*>("metricPatterns"), "node/*/gpu/0/utilisation");
    dialog->accept();
    QVERIFY(!empty->isVisible());
    QCOMPARE(card(view, 0)->view()->series().size(), std::size_t{3});
    // A series that comes later.
    app::RunUpdate update;
    const double now = static_cast<double>(page->document()->row().startedNs) * 1e-9 + 10;
    update.series.push_back({"node/new/gpu/0/utilisation", {{now, 0.5}, {now + 1, 0.6}}});
    page->document()->take(update);
    QCOMPARE(card(view, 0)->view()->series().size(), std::size_t{4});
    update.series = {{"node/new/gpu/0/utilisation", {{now + 2, 0.7}}},
                     {"node/new/gpu/1/utilisation", {{now + 2, 0.7}}}};
    page->document()->take(update);
    QCOMPARE(card(view, 0)->view()->series().size(), std::size_t{4});
    std::size_t most = 0;
    for (const auto& line : card(view, 0)->view()->series())
      if (line->name.contains("new")) most = line->raw().size();
    QCOMPARE(most, std::size_t{3});
    // Another run has no GPU: its plot says so.
    RunPage* other = openRun(1);
    QVERIFY(other && other != page);
    QCOMPARE(viewOf(other)->dashboard(), view->dashboard());
    QCOMPARE(card(viewOf(other), 0)->view()->series().size(), std::size_t{0});
    auto* text = card(viewOf(other), 0)->findChild<QLabel*>("plotEmpty");
    QVERIFY(wait([&] { return text->isVisible(); }));
    QVERIFY(text->text().contains("node/*/gpu/0/utilisation"));
    // The next start of the studio.
    tests::closeWindow(window_);
    window_ = std::make_unique<MainWindow>(home_->options());
    window_->show();
    page = openRun(2, 1);
    QVERIFY(page);
    QCOMPARE(viewOf(page)->dashboard().name, QString("GPUs / all"));
    QCOMPARE(card(viewOf(page), 0)->view()->series().size(), std::size_t{3});
  }

  void zoomAndCrosshairAreShared() {
    RunPage* page = openRun();
    QVERIFY(page);
    DashboardView* view = viewOf(page);
    QTest::qWait(100);
    auto* canvas = card(view, 0)->findChild<QCustomPlot*>("plotCanvas");
    auto* other = card(view, 2)->findChild<QCustomPlot*>("plotCanvas");
    auto* overview = page->lossPlot()->findChild<QCustomPlot*>("plotCanvas");
    QTest::keyClick(canvas, Qt::Key_Plus);
    QCOMPARE(other->xAxis->range().lower, canvas->xAxis->range().lower);
    QCOMPARE(other->xAxis->range().upper, canvas->xAxis->range().upper);
    QCOMPARE(overview->xAxis->range().upper, canvas->xAxis->range().upper);
    // One that comes later has the others' range.
    const double upper = canvas->xAxis->range().upper;
    Dashboard changed = view->dashboard();
    changed.name = "more";
    changed.plots.prepend({{}, {"samples"}});
    view->apply(changed);
    auto* fresh = card(view, 0)->findChild<QCustomPlot*>("plotCanvas");
    QTest::qWait(100);
    QCOMPARE(fresh->xAxis->range().upper, upper);
  }

  // What is not shown is not undone.
  void undoneWhereItIsSeen() {
    RunPage* page = openRun();
    QVERIFY(page);
    DashboardView* view = viewOf(page);
    QTest::keyClick(handle(view, 0), Qt::Key_Right);
    const QStringList moved = patterns(view);
    auto* undo = window_->findChild<QAction*>("actionUndo");
    QVERIFY(undo && undo->isEnabled());
    page->findChild<QTabWidget*>("runTabs")->setCurrentIndex(0);
    QVERIFY(!undo->isEnabled());
    undo->trigger();
    QCOMPARE(patterns(view), moved);
    page->findChild<QTabWidget*>("runTabs")->setCurrentIndex(kDashboardTab);
    QVERIFY(undo->isEnabled());
    undo->trigger();
    QCOMPARE(view->dashboard(), defaultDashboard());
  }

  void settingsThatCannotBeWritten() {
    QTemporaryDir folder;
    const QString path = folder.filePath("no/such/folder");
    QFile file(folder.filePath("no"));  // a file where a folder should be
    QVERIFY(file.open(QIODevice::WriteOnly));
    QSettings settings(path + "/studio.ini", QSettings::IniFormat);
    Dashboards store(settings);
    Dashboard one = defaultDashboard();
    one.name = "x";
    store.save(one);
    const Status written = store.write();
    QVERIFY(!written.ok());
    QVERIFY(written.error().text().find("studio.ini") != std::string::npos);
    QSettings good(folder.filePath("studio.ini"), QSettings::IniFormat);
    Dashboards fine(good);
    fine.save(one);
    QVERIFY(fine.write().ok());
  }

  // A series that the axes of a plot do not fit is left out, and the dialog says so before.
  void unitsAreNotMixed() {
    RunPage* page = openRun();
    QVERIFY(page);
    DashboardView* view = viewOf(page);
    Dashboard mixed;
    mixed.name = "mixed";
    mixed.plots = {{{}, {"node/*/memory", "node/*/cpu"}}, {{}, {"accuracy", "evaluated/metric"}}};
    view->apply(mixed);
    QCOMPARE(card(view, 0)->view()->series().size(), std::size_t{3});
    QVERIFY(QString::compare(card(view, 0)->title(), "CPU", Qt::CaseInsensitive) == 0);
    QTest::mouseClick(card(view, 0)->findChild<QToolButton*>("dashboardMenu"), Qt::LeftButton);
    QVERIFY(choose(card(view, 0), "dashboardPlotMenu", "dashboardEdit"));
    QVERIFY(wait([&] { return view->findChild<MetricDialog*>() != nullptr; }));
    auto* dialog = view->findChild<MetricDialog*>();
    QVERIFY(!dialog->findChild<QPushButton*>("metricDialogAccept")->isEnabled());
    QVERIFY(dialog->findChild<QLabel*>("metricNote")->text().contains("units"));
    auto* typed = dialog->findChild<QLineEdit*>("metricPatterns");
    typed->clear();
    QTest::keyClicks(typed, "evaluated/metric, accuracy");
    QVERIFY(dialog->findChild<QPushButton*>("metricDialogAccept")->isEnabled());
    dialog->reject();
  }

  // Plots over epochs are drawn again when there is more, and zoomed together.
  void epochsGoOn() {
    RunPage* page = openRun();
    QVERIFY(page);
    DashboardView* view = viewOf(page);
    Dashboard epochs;
    epochs.name = "epochs";
    epochs.plots = {{{}, {"epoch/eval_loss"}}, {{}, {"epoch/train_loss"}}};
    view->apply(epochs);
    app::RunUpdate update;
    update.series = {{"epoch/eval_loss", {{101, 2}, {102, 1}}},
                     {"epoch/train_loss", {{101, 2}, {102, 1}}}};
    page->document()->take(update);
    const auto canvasOf = [&](int index) {
      return card(view, index)->findChild<QCustomPlot*>("plotCanvas");
    };
    QVERIFY(wait([&] { return canvasOf(0)->xAxis->range().upper >= 102; }));
    update.series = {{"epoch/eval_loss", {{103, 1}, {120, 1}}}};
    page->document()->take(update);
    QVERIFY(wait([&] { return canvasOf(0)->xAxis->range().upper >= 120; }));
    QTest::keyClick(canvasOf(0), Qt::Key_Plus);
    QCOMPARE(canvasOf(1)->xAxis->range().upper, canvasOf(0)->xAxis->range().upper);
  }

  // Zoomed in, a long series is complete again.
  void zoomReadsMore() {
    RunPage* page = openRun();
    QVERIFY(page);
    DashboardView* view = viewOf(page);
    Dashboard one;
    one.name = "one";
    one.plots = {{{}, {"rank/0/forward"}}};
    view->apply(one);
    const auto line = card(view, 0)->view()->series()[0];
    app::RunUpdate update;
    update.series = {{"rank/0/forward", {}}};
    for (int step = 201; step <= 600'000; ++step)
      update.series[0].points.push_back({static_cast<double>(step), 0.25});
    page->document()->take(update);
    QVERIFY(wait([&] {
      return line->raw().size() > 1000 && line->raw().x(line->raw().size() - 1) > 599'000;
    }));
    QVERIFY(line->raw().size() < 300'000);
    auto* canvas = card(view, 0)->findChild<QCustomPlot*>("plotCanvas");
    QVERIFY(wait([&] { return canvas->xAxis->range().upper > 599'000; }));
    canvas->xAxis->setRange(100'000, 100'200);
    QVERIFY(wait([&] { return line->hasDetail(100'000, 100'200); }));
  }

  void stepsAsSamples() {
    for (unsigned seed = 1; seed <= 100; ++seed) {
      Random random(seed);
      auto series = std::make_shared<Series>("samples", 0);
      const SeriesScale scale(series);
      QCOMPARE(scale.at(7), 7.0);
      double x = random.below(50), y = 64 * x;
      std::vector<std::pair<double, double>> samples;
      for (int i = 2 + random.below(40); i > 0; --i) {
        x += 1 + random.below(5);
        y += 1 + random.below(200);
        series->append(x, y);
        samples.emplace_back(x, y);
      }
      for (const auto& [step, seen] : samples) {
        QVERIFY(qFuzzyCompare(scale.at(step), seen));
        QVERIFY(qFuzzyCompare(scale.back(seen), step));
      }
      double before = -1;
      for (double step = 0; step < 1.5 * x; step += 0.37) {
        const double seen = scale.at(step);
        QVERIFY(seen >= before);
        before = seen;
        QVERIFY(std::abs(scale.back(seen) - step) < 1e-6 * (1 + step));
      }
    }
    RunPage* page = openRun();
    QVERIFY(page);
    page->findChild<QTabWidget*>("runTabs")->setCurrentIndex(0);
    auto* canvas = page->lossPlot()->findChild<QCustomPlot*>("plotCanvas");
    canvas->parentWidget()->setMinimumHeight(200);
    const auto choose = [&](const char* entry, const QString& title) {
      page->findChild<QToolButton*>("xAxisButton")->click();
      auto* menu = page->findChild<QMenu*>("xAxisMenu");
      bool done = false;
      for (QAction* action : menu->actions())
        if (action->objectName() == entry && action->isEnabled()) {
          action->trigger();
          done = true;
        }
      delete menu;
      return done && wait([&] { return canvas->xAxis->label() == title; });
    };
    QVERIFY(choose("xAxisSamples", "samples"));
    QVERIFY(!choose("xAxisTokens", ""));  // it is no text
    QVERIFY(choose("xAxisSteps", "step"));
  }

  // In the file's form of another studio, or damaged: said, and nothing is lost without being asked
  // for.
  void damagedSettings() {
    QSettings& store = window_->workspace().settings().store();
    store.setValue("dashboards/broken", "{no JSON");
    store.setValue("dashboards/part", R"({"columns":2,"plots":[{"series":["loss"]},7]})");
    store.setValue("dashboard", "part");
    RunPage* page = openRun();
    QVERIFY(page);
    DashboardView* view = viewOf(page);
    QCOMPARE(patterns(view), QStringList{"loss"});
    QVERIFY(page->message()->isVisibleTo(page));
    QVERIFY(page->message()->what().contains("part"));
    auto* chooser = view->findChild<QComboBox*>("dashboardChooser");
    chooser->setCurrentIndex(chooser->findData("broken"));
    Q_EMIT chooser->activated(chooser->currentIndex());
    QCOMPARE(view->dashboard().name, QString("broken"));
    QCOMPARE(view->dashboard().plots, defaultDashboard().plots);
    QCOMPARE(store.value("dashboards/broken").toString(), QString("{no JSON"));
    view->findChild<QToolButton*>("dashboardOptions")->click();
    QVERIFY(choose(view, "dashboardOptionsMenu", "dashboardDelete"));
    QVERIFY(!store.contains("dashboards/broken"));
    QCOMPARE(view->dashboard(), defaultDashboard());
    // One that is gone: the default.
    store.setValue("dashboard", "gone");
    page->findChild<QTabWidget*>("runTabs")->setCurrentIndex(0);
    page->findChild<QTabWidget*>("runTabs")->setCurrentIndex(kDashboardTab);
    QCOMPARE(view->dashboard().plots, defaultDashboard().plots);
  }

  void isNamedInEveryLanguage() {
    RunPage* page = openRun();
    QVERIFY(page);
    DashboardView* view = viewOf(page);
    for (const char* language : {"en", "zh_CN"}) {
      Language::instance().set(language);
      QTest::qWait(20);
      for (auto* widget : view->findChildren<QWidget*>())
        if (widget->focusPolicy() & Qt::TabFocus && widget->isVisibleTo(view) &&
            !qobject_cast<QLineEdit*>(widget->parentWidget()) &&
            !qobject_cast<QAbstractSpinBox*>(widget->parentWidget()))
          QVERIFY2(!widget->accessibleName().isEmpty(), qPrintable(widget->objectName()));
    }
    QVERIFY(card(view, 0)->title() != QString("Loss"));
  }

 private:
  std::unique_ptr<StudioHome> home_;
  std::unique_ptr<MainWindow> window_;
};

QTEST_MAIN(DashboardTest)
#include "dashboard_test.moc"
