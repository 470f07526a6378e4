// The pictures of a lesson that stand still, and the chart, which is played where it is over time.
#include "ui/pages/lesson_pictures.h"

#include <QComboBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QScrollArea>
#include <QTableView>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "app/runs/heat_map.h"
#include "app/runs/preview.h"
#include "engine/plan/traffic.h"
#include "ui/models/step_table_model.h"
#include "ui/models/traffic_model.h"
#include "ui/plots/color_map.h"
#include "ui/plots/heat_map_view.h"
#include "ui/plots/plot_view.h"
#include "ui/theme/format.h"
#include "ui/theme/language.h"
#include "ui/theme/theme.h"
#include "ui/widgets/breakdown_bars.h"
#include "ui/widgets/player.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr int kLeastChart = 240;     // with the label of its x axis
constexpr int kMoments = 40;         // at which a chart over time stops
constexpr double kChartSeconds = 8;  // that it takes when it is played

QVBoxLayout* makeBody(QWidget* widget) {
  auto* body = new QVBoxLayout(widget);
  body->setContentsMargins(0, kSpaceS, 0, 0);
  body->setSpacing(kSpaceXs);
  return body;
}

class HeatMapPicture : public LessonPicture {
  Q_DECLARE_TR_FUNCTIONS(lockstep::ui::LessonPicture)

 public:
  explicit HeatMapPicture(QWidget* parent) : LessonPicture(parent) {
    auto* body = makeBody(this);
    auto* row = new QHBoxLayout;
    measure_ = new QComboBox(this);
    measure_->setObjectName("lessonMeasure");
    for (const app::StepMeasure shown : kShown) measure_->addItem({}, static_cast<int>(shown));
    legend_ = new ColorLegend(this);
    row->addWidget(measure_);
    row->addStretch(1);
    body->addLayout(row);
    body->addWidget(legend_);
    view_ = new HeatMapView("lessonHeatMap", map_, this);
    view_->setDescription([this](int rank, std::int64_t step) { return cellText(rank, step); });
    body->addWidget(view_, 1);
    cell_ = new ElidedLabel("lessonCell", this, "muted");
    body->addWidget(cell_);
    connect(measure_, &QComboBox::currentIndexChanged, this, [this] { refresh(); });
    connect(view_, &HeatMapView::cellChosen, this, [this] { refreshCell(); });
    HeatMapPicture::retranslate();
  }

  void show(const LessonSession::Scene& scene, const LessonSession::Scene&) override {
    matrix_ = scene->matrix;
    refresh();
  }
  QString title() const override { return tr("Rank × step"); }
  void retranslate() override {
    for (int i = 0; i < measure_->count(); ++i)
      measure_->setItemText(
          i, measureName(static_cast<app::StepMeasure>(measure_->itemData(i).toInt())));
    measure_->setAccessibleName(tr("Measure"));
    view_->setAccessibleName(tr("Heat map, rank × step"));
    view_->setEmptyText(tr("This lesson has no steps to show."));
    refresh();
  }

 private:
  static constexpr app::StepMeasure kShown[] = {
      app::StepMeasure::kCompute, app::StepMeasure::kWaiting,  app::StepMeasure::kTransfer,
      app::StepMeasure::kForward, app::StepMeasure::kBackward, app::StepMeasure::kOptimizer,
      app::StepMeasure::kStep};

  void refresh() {
    map_ = {};
    map_.setMeasure(static_cast<app::StepMeasure>(measure_->currentData().toInt()), false);
    if (matrix_) map_.update(*matrix_, app::StepMatrix::kMostCells);
    std::vector<int> order;
    std::vector<QString> names;
    for (int rank = 0; rank < map_.ranks(); ++rank) {
      order.push_back(rank);
      names.push_back(tr("rank %1").arg(rank));
    }
    const double scale = map_.scale() > 0 ? map_.scale() : 1;
    view_->refresh(std::move(order), std::move(names), scale);
    legend_->setScale(ColorMap::Kind::kSequential, tr("seconds"), "0", formatSeconds(scale));
    refreshCell();
  }
  void refreshCell() {
    cell_->setText(view_->chosenRank() < 0 ? tr("Click a cell for its value.")
                                           : cellText(view_->chosenRank(), view_->chosenStep()));
  }
  QString cellText(int rank, std::int64_t step) const {
    const double seconds = static_cast<double>(map_.value(rank, step));
    return QString::fromUtf8("%1 · %2 · %3 %4")
        .arg(tr("step %1").arg(formatCount(step)), tr("rank %1").arg(rank), measure_->currentText(),
             std::isnan(seconds) ? QString(QChar(0x2014)) : formatSeconds(seconds));
  }

  std::shared_ptr<app::StepMatrix> matrix_;
  app::HeatMap map_;
  QComboBox* measure_ = nullptr;
  ColorLegend* legend_ = nullptr;
  HeatMapView* view_ = nullptr;
  ElidedLabel* cell_ = nullptr;
};

class TrafficPicture : public LessonPicture {
  Q_DECLARE_TR_FUNCTIONS(lockstep::ui::LessonPicture)

 public:
  explicit TrafficPicture(QWidget* parent) : LessonPicture(parent) {
    auto* body = makeBody(this);
    note_ = makeLabel("lessonTrafficNote", this, "muted");
    note_->setWordWrap(true);
    model_ = new TrafficModel(this);
    table_ = new QTableView(this);
    table_->setObjectName("lessonTraffic");
    table_->setModel(model_);
    applyMatrixStyle(table_);
    body->addWidget(note_);
    body->addWidget(table_, 1);
    TrafficPicture::retranslate();
  }

  void show(const LessonSession::Scene& scene, const LessonSession::Scene&) override {
    if (!scene->preview) return model_->setTraffic({}, 0);
    model_->setTraffic(plan::stepTraffic(scene->preview->plan),
                       static_cast<int>(scene->preview->ranks.size()));
    table_->verticalHeader()->setDefaultSectionSize(table_->fontMetrics().height() + kSpaceM);
  }
  QString title() const override { return tr("Traffic"); }
  void retranslate() override {
    note_->setText(tr("Bytes that the rank of a row sends to the rank of a column in a step."));
    table_->setAccessibleName(tr("Planned traffic between ranks, bytes per step"));
    model_->retranslate();
  }

 private:
  QLabel* note_ = nullptr;
  TrafficModel* model_ = nullptr;
  QTableView* table_ = nullptr;
};

class MemoryPicture : public LessonPicture {
  Q_DECLARE_TR_FUNCTIONS(lockstep::ui::LessonPicture)

 public:
  explicit MemoryPicture(QWidget* parent) : LessonPicture(parent) {
    auto* body = makeBody(this);
    note_ = makeLabel("lessonMemoryNote", this, "muted");
    note_->setWordWrap(true);
    bars_ = new BreakdownBars("lessonMemory", this, BarKinds::memory());
    body->addWidget(note_);
    body->addWidget(scrolled(bars_, this), 1);
    MemoryPicture::retranslate();
  }

  void show(const LessonSession::Scene& scene, const LessonSession::Scene& start) override {
    std::vector<BreakdownBar> bars;
    const std::size_t ranks = scene->preview ? scene->preview->ranks.size() : 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      BreakdownBar bar;
      bar.name = tr("rank %1").arg(rank);
      bar.measured = partsOf(scene->preview->ranks[rank]);
      bar.hasMeasured = true;
      // The value at the start stands beside it where the two differ.
      if (start && start != scene && start->preview && rank < start->preview->ranks.size()) {
        bar.predicted = partsOf(start->preview->ranks[rank]);
        bar.hasPredicted = bar.predicted != bar.measured;
      }
      bars.push_back(std::move(bar));
    }
    bars_->setBars(std::move(bars));
  }
  QString title() const override { return tr("Memory"); }
  void retranslate() override {
    note_->setText(tr("Memory of each rank; thin and pale: at the start of the lesson."));
    bars_->setAccessibleName(tr("Memory of each rank, by kind"));
    bars_->update();
  }

 private:
  static std::array<double, kPhaseCount> partsOf(const app::RankPreview& rank) {
    return {static_cast<double>(rank.parameterBytes), static_cast<double>(rank.gradientBytes),
            static_cast<double>(rank.optimizerBytes), static_cast<double>(rank.activationBytes),
            static_cast<double>(rank.workspaceBytes)};
  }
  QLabel* note_ = nullptr;
  BreakdownBars* bars_ = nullptr;
};

class ChartPicture : public LessonPicture {
  Q_DECLARE_TR_FUNCTIONS(lockstep::ui::LessonPicture)

 public:
  explicit ChartPicture(QWidget* parent) : LessonPicture(parent) {
    auto* body = makeBody(this);
    auto* inner = new QWidget(this);
    charts_ = new QVBoxLayout(inner);
    charts_->setContentsMargins(0, 0, 0, 0);
    charts_->setSpacing(kSpaceM);
    auto* area = scrolled(inner, this);
    area->setMinimumHeight(kLeastChart);
    body->addWidget(area, 1);
    moment_ = new ElidedLabel("lessonMoment", this, "muted");
    body->addWidget(moment_);
    player_ = new Player("chartPlayer", this);
    body->addWidget(player_);
    connect(player_, &Player::moved, this, [this] { showMoment(); });
    ChartPicture::retranslate();
  }

  void show(const LessonSession::Scene& scene, const LessonSession::Scene&) override {
    const bool isFirst = !scene_;
    scene_ = scene;
    while (plots_.size() < scene_->charts.size()) {
      auto* plot = new PlotView(QString("lessonChart%1").arg(plots_.size()), this);
      plot->setXAxis(PlotView::XAxis::kReal);
      plot->setMinimumHeight(kLeastChart);
      for (QWidget* part : plot->findChildren<QWidget*>()) part->setFont(font());
      plot->setFont(font());
      plots_.push_back(plot);
      charts_->addWidget(plot, 1);
    }
    for (std::size_t i = 0; i < plots_.size(); ++i) {
      plots_[i]->setVisible(i < scene_->charts.size());
      if (i < scene_->charts.size()) draw(*plots_[i], scene_->charts[i]);
    }
    const std::vector<double> stops = momentsOf(*scene_);
    for (QWidget* part : std::initializer_list<QWidget*>{player_, moment_})
      part->setVisible(!stops.empty());
    player_->setStops(stops, kChartSeconds);
    if (isFirst && !stops.empty()) player_->setPosition(stops.back());
  }
  QString title() const override { return tr("Chart"); }
  void retranslate() override {
    player_->retranslate();
    if (scene_) show(scene_, nullptr);
  }

 private:
  static void draw(PlotView& plot, const app::ChartScene& chart) {
    const std::string language = Language::instance().code().toStdString();
    const auto words = [&](const app::Words& text) {
      return QString::fromStdString(text.in(language));
    };
    const QString y = words(chart.y);
    plot.setTexts(words(chart.title), words(chart.x), y, tr("Nothing to show for these values."));
    plot.setLogX(chart.logX);
    plot.setLogY(chart.logY);
    plot.setFromZero(!chart.logY);
    plot.clearSeries();
    int color = 0;
    for (const app::ChartScene::Curve& curve : chart.curves) {
      auto series = std::make_shared<Series>(words(curve.name), color++);
      series->dashed = curve.dashed;
      series->dots = !curve.dashed && curve.x.size() <= 24;
      for (std::size_t i = 0; i < std::min(curve.x.size(), curve.y.size()); ++i)
        series->append(curve.x[i], curve.y[i]);
      plot.addSeries(std::move(series));
    }
    plot.resetZoom();
    plot.showCursor(chart.marked.value_or(0), chart.marked.has_value());
  }

  static std::vector<double> momentsOf(const app::Scene& scene) {
    double last = 0;
    for (const app::ChartScene& chart : scene.charts)
      for (const app::ChartScene::Curve& curve : chart.curves)
        if (chart.overTime && !curve.x.empty()) last = std::max(last, curve.x.back());
    std::vector<double> out;
    for (int i = 0; last > 0 && i <= kMoments; ++i) out.push_back(last * i / kMoments);
    return out;
  }
  // On the line from the last point before it to the next.
  static double valueAt(const app::ChartScene::Curve& curve, double at) {
    const auto next = static_cast<std::size_t>(
        std::upper_bound(curve.x.begin(), curve.x.end(), at) - curve.x.begin());
    if (next == 0 || next == curve.x.size()) return next == 0 ? curve.y[0] : curve.y.back();
    const double share = (at - curve.x[next - 1]) / (curve.x[next] - curve.x[next - 1]);
    return curve.y[next - 1] + share * (curve.y[next] - curve.y[next - 1]);
  }
  // A line where the player is, and what the curves have come to by then.
  void showMoment() {
    const std::string language = Language::instance().code().toStdString();
    const double at = player_->position();
    QStringList values;
    QString unit;
    for (std::size_t i = 0; scene_ && i < scene_->charts.size(); ++i) {
      const app::ChartScene& chart = scene_->charts[i];
      if (!chart.overTime) continue;
      plots_[i]->showCursor(at, !player_->atEnd());
      unit = QString::fromStdString(chart.x.in(language));
      for (const app::ChartScene::Curve& curve : chart.curves) {
        if (curve.x.empty()) continue;
        values << QString("%1 %2").arg(QString::fromStdString(curve.name.in(language)),
                                       formatNumber(valueAt(curve, at), 3));
      }
    }
    moment_->setText(formatNumber(at, 3) + ' ' + unit + ": " +
                     values.join(QString::fromUtf8(" · ")));
  }

  LessonSession::Scene scene_;
  QVBoxLayout* charts_ = nullptr;
  std::vector<PlotView*> plots_;
  ElidedLabel* moment_ = nullptr;
  Player* player_ = nullptr;
};

}  // namespace

LessonPicture* makePicture(app::LessonView view, QWidget* parent) {
  switch (view) {
    case app::LessonView::kTimeline:
      return makeTimelinePicture(parent);
    case app::LessonView::kHeatMap:
      return new HeatMapPicture(parent);
    case app::LessonView::kTraffic:
      return new TrafficPicture(parent);
    case app::LessonView::kMemory:
      return new MemoryPicture(parent);
    case app::LessonView::kMessages:
      return makeMessagesPicture(parent);
    case app::LessonView::kChart:
      break;
  }
  return new ChartPicture(parent);
}

}  // namespace lockstep::ui
