#include "ui/dialogs/metric_dialog.h"

#include <QCheckBox>
#include <QGridLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QListView>
#include <QVBoxLayout>
#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "ui/models/metric_model.h"
#include "ui/studio/metrics.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {

MetricDialog::MetricDialog(const QStringList& series, const DashboardPlot& plot, QWidget* parent)
    : Dialog("metricDialog", parent), series_(series), before_(plot) {
  model_ = new MetricModel(this);
  filter_ = new MetricFilter(this);
  filter_->setSourceModel(model_);
  search_ = new QLineEdit(this);
  search_->setObjectName("metricSearch");
  search_->setClearButtonEnabled(true);
  search_->installEventFilter(this);
  list_ = new QListView(this);
  list_->setObjectName("metricList");
  list_->setModel(filter_);
  list_->setUniformItemSizes(true);
  list_->setMinimumHeight(220);
  patterns_ = new QLineEdit(this);
  patterns_->setObjectName("metricPatterns");
  title_ = new QLineEdit(this);
  title_->setObjectName("metricTitle");
  title_->setMaxLength(Dashboard::kMostText);
  logY_ = new QCheckBox(this);
  logY_->setObjectName("metricLogY");
  note_ = makeLabel("metricNote", this, "muted");
  note_->setWordWrap(true);
  patternsLabel_ = makeLabel("metricPatternsLabel", this);
  patternsLabel_->setBuddy(patterns_);
  titleLabel_ = makeLabel("metricTitleLabel", this);
  titleLabel_->setBuddy(title_);
  auto* form = new QGridLayout;
  form->setHorizontalSpacing(kSpaceM);
  form->addWidget(patternsLabel_, 0, 0);
  form->addWidget(patterns_, 0, 1);
  form->addWidget(titleLabel_, 1, 0);
  form->addWidget(title_, 1, 1);
  form->addWidget(logY_, 2, 1);
  content()->addWidget(search_);
  content()->addWidget(list_, 1);
  content()->addLayout(form);
  content()->addWidget(note_);
  model_->setSeries(series_);
  model_->setChecked(plot.patterns);
  patterns_->setText(plot.patterns.join(", "));
  title_->setText(plot.title);
  logY_->setChecked(plot.logY);
  connect(search_, &QLineEdit::textChanged, filter_, &MetricFilter::setText);
  connect(model_, &MetricModel::checkedChanged, this, &MetricDialog::takeChecked);
  connect(patterns_, &QLineEdit::textEdited, this, &MetricDialog::takeTyped);
  connect(list_, &QListView::doubleClicked, this, [this](const QModelIndex& index) {
    filter_->setData(index, Qt::Checked, Qt::CheckStateRole);
    if (acceptButton()->isEnabled()) accept();
  });
  search_->setFocus();
  retranslate();
  resize(560, 560);
}

// From the search, the arrows go to the list.
bool MetricDialog::eventFilter(QObject* watched, QEvent* event) {
  if (watched == search_ && event->type() == QEvent::KeyPress &&
      static_cast<QKeyEvent*>(event)->key() == Qt::Key_Down && filter_->rowCount() > 0) {
    list_->setFocus();
    list_->setCurrentIndex(filter_->index(0, 0));
    return true;
  }
  return Dialog::eventFilter(watched, event);
}

QStringList MetricDialog::typed() const {
  QStringList out;
  for (const QString& one : patterns_->text().split(',', Qt::SkipEmptyParts))
    if (const QString pattern = one.trimmed(); !pattern.isEmpty()) out << pattern;
  out.removeDuplicates();
  return out;
}

void MetricDialog::takeChecked() {
  if (taking_) return;
  patterns_->setText(model_->checked().join(", "));
  check();
}

void MetricDialog::takeTyped() {
  taking_ = true;
  model_->setChecked(typed());
  taking_ = false;
  check();
}

DashboardPlot MetricDialog::plot() const {
  DashboardPlot out = before_;
  out.patterns = model_->checked();  // of which names may have a comma
  out.title = title_->text().trimmed();
  out.logY = logY_->isChecked();
  return out;
}

void MetricDialog::check() {
  const QStringList& patterns = model_->checked();
  std::set<QString> matched;
  std::set<MetricAxis> axes;
  std::vector<MetricInfo> units;  // of each one
  for (const QString& series : series_)
    for (const QString& pattern : patterns)
      if (matchesPattern(pattern, series)) {
        matched.insert(series);
        const MetricInfo info = metricInfo(series.toStdString());
        axes.insert(info.axis);
        const auto isSame = [&](const MetricInfo& one) {
          return one.kind == info.kind && std::string_view(one.unit) == info.unit;
        };
        if (std::none_of(units.begin(), units.end(), isSame)) units.push_back(info);
      }
  const bool tooLong = std::any_of(patterns.begin(), patterns.end(), [](const QString& pattern) {
    return pattern.size() > Dashboard::kMostText;
  });
  const bool share = std::all_of(units.begin(), units.end(), [&](const MetricInfo& a) {
    return std::all_of(units.begin(), units.end(),
                       [&](const MetricInfo& b) { return shareUnit(a, b); });
  });
  QString note;
  bool good = false;
  if (patterns.isEmpty())
    note =
        tr("Select metrics in the list, or type their names. * stands for any node, rank or GPU.");
  else if (patterns.size() > Dashboard::kMostPatterns || tooLong)
    note = tr("A plot can have %1 names of %2 characters.")
               .arg(Dashboard::kMostPatterns)
               .arg(Dashboard::kMostText);
  else if (axes.size() > 1)
    note = tr("Metrics over steps, over epochs and over time cannot share a plot.");
  else if (!share)
    note = tr("Metrics in different units, such as percent and bytes, cannot share a plot.");
  else {
    good = true;
    note = matched.empty()
               ? tr("This run has no such series. The plot stays empty until there is one.")
               : tr("%n series of this run.", nullptr, static_cast<int>(matched.size()));
  }
  note_->setText(note);
  acceptButton()->setEnabled(good);
}

void MetricDialog::retranslate() {
  const bool isNew = before_.patterns.isEmpty();
  setHeading(isNew ? tr("Add a plot") : tr("Edit the plot"), {});
  setButtons(isNew ? tr("Add") : tr("Apply"), tr("Cancel"));
  search_->setPlaceholderText(tr("Search metrics"));
  search_->setAccessibleName(tr("Search metrics"));
  list_->setAccessibleName(tr("Metrics of the run"));
  patternsLabel_->setText(tr("Series"));
  patterns_->setAccessibleName(tr("Series"));
  patterns_->setPlaceholderText("node/*/net_in, node/*/net_out");
  titleLabel_->setText(tr("Title"));
  title_->setAccessibleName(tr("Title"));
  title_->setPlaceholderText(tr("From its series"));
  logY_->setText(tr("Logarithmic y axis"));
  model_->retranslate();
  check();
}

}  // namespace lockstep::ui
