#include "ui/pages/lesson_sliders.h"

#include <QComboBox>
#include <QGridLayout>
#include <QLabel>
#include <QSignalBlocker>
#include <QSlider>
#include <algorithm>

#include "ui/studio/lesson_session.h"
#include "ui/theme/format.h"
#include "ui/theme/language.h"
#include "ui/theme/theme.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr int kPartsOfARow = 3;                       // label, slider, value
constexpr int kLeastSlider = 90, kSliderHeight = 28;  // a handle and its ticks

bool isNumeric(const app::Slider& slider) {
  return std::all_of(slider.values.begin(), slider.values.end(), [](const std::string& value) {
    bool isNumber = false;
    QString::fromStdString(value).toDouble(&isNumber);
    return isNumber;
  });
}

QString binaryText(double bytes) {
  const bool isLarge = bytes >= 1024 * 1024;
  return formatNumber(bytes / (isLarge ? 1024 * 1024 : 1024), 3) + QChar(0xa0) +
         (isLarge ? "MiB" : "KiB");
}

}  // namespace

LessonSliders::LessonSliders(LessonSession* session, QWidget* parent)
    : QWidget(parent), session_(session) {
  setObjectName("lessonSliders");
  grid_ = new QGridLayout(this);
  grid_->setContentsMargins(0, 0, 0, 0);
  grid_->setHorizontalSpacing(kSpaceS);
  grid_->setVerticalSpacing(kSpaceXs);
  for (const app::Slider& slider : session_->lesson().sliders) rows_.push_back(makeRow(slider));
  connect(session_, &LessonSession::stateChanged, this, &LessonSliders::refresh);
  retranslate();
}

LessonSliders::Row LessonSliders::makeRow(const app::Slider& slider) {
  Row row{&slider};
  const QString name = QString::fromStdString(slider.name);
  row.label = makeLabel("sliderLabel." + name, this);
  row.value = makeLabel("sliderValue." + name, this);
  if (isNumeric(slider)) {
    row.number = new QSlider(Qt::Horizontal, this);
    row.number->setObjectName("slider." + name);
    row.number->setRange(0, static_cast<int>(slider.values.size()) - 1);
    row.number->setPageStep(1);
    row.number->setTickPosition(QSlider::TicksBelow);
    row.number->setTickInterval(1);
    row.number->setMinimumSize(kLeastSlider, kSliderHeight);
    row.label->setBuddy(row.number);
    connect(row.number, &QSlider::valueChanged, this, [this, row](int at) { choose(row, at); });
  } else {
    row.word = new QComboBox(this);
    row.word->setObjectName("slider." + name);
    for (const std::string& value : slider.values) row.word->addItem(QString::fromStdString(value));
    row.word->setMinimumHeight(row.word->sizeHint().height());  // else it is pressed flat
    row.label->setBuddy(row.word);
    row.value->hide();
    connect(row.word, &QComboBox::currentIndexChanged, this,
            [this, row](int at) { choose(row, at); });
  }
  return row;
}

QString LessonSliders::valueText(const app::Slider& slider, std::size_t index) const {
  if (const auto name = slider.names.find(slider.values[index]); name != slider.names.end())
    return QString::fromStdString(name->second.in(Language::instance().code().toStdString()));
  const QString value = QString::fromStdString(slider.values[index]);
  const QString unit = QString::fromStdString(slider.unit);
  if (unit.isEmpty()) return value;
  if (unit == "bytes") return binaryText(value.toDouble());
  return unit == "%" || unit == "x" ? value + unit : value + QChar(0xa0) + unit;
}

void LessonSliders::choose(const Row& row, int index) {
  if (index >= 0)
    session_->setValue(row.slider->name, row.slider->values[static_cast<std::size_t>(index)]);
}

void LessonSliders::refresh() {
  for (const Row& row : rows_) {
    const app::Slider& slider = *row.slider;
    const auto& values = slider.values;
    const auto found = std::find(values.begin(), values.end(), session_->state().at(slider.name));
    const std::size_t index =
        found == values.end() ? slider.start : static_cast<std::size_t>(found - values.begin());
    const QString text = valueText(slider, index);
    row.value->setText(text);
    const QString start = tr("At the start: %1").arg(valueText(slider, slider.start));
    if (row.number != nullptr) {
      const QSignalBlocker quiet(row.number);
      row.number->setValue(static_cast<int>(index));
      row.number->setAccessibleDescription(text);
      row.number->setToolTip(start);
    } else {
      const QSignalBlocker quiet(row.word);
      row.word->setCurrentIndex(static_cast<int>(index));
      row.word->setToolTip(start);
    }
  }
}

void LessonSliders::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  arrange();
}

void LessonSliders::arrange() {
  int label = 0, value = 0;
  for (const Row& row : rows_) {
    label = std::max(label, row.label->sizeHint().width());
    for (std::size_t i = 0; i < row.slider->values.size(); ++i)
      value =
          std::max(value, row.value->fontMetrics().horizontalAdvance(valueText(*row.slider, i)));
  }
  const int wide = label + value + kLeastSlider + 30 + 3 * kSpaceS;
  const int columns = rows_.size() > 1 && width() >= 2 * wide ? 2 : 1;
  for (const Row& row : rows_) row.value->setMinimumWidth(value + 2);
  if (columns == columns_) return;
  columns_ = columns;
  const auto count = static_cast<int>(rows_.size());
  const int perColumn = (count + columns - 1) / columns;
  for (int i = 0; i < count; ++i) {
    const Row& row = rows_[static_cast<std::size_t>(i)];
    const int at = i % perColumn, column = i / perColumn * (kPartsOfARow + 1);
    QWidget* const part =
        row.number != nullptr ? static_cast<QWidget*>(row.number) : static_cast<QWidget*>(row.word);
    grid_->addWidget(row.label, at, column);
    grid_->addWidget(part, at, column + 1);
    grid_->addWidget(row.value, at, column + 2);
  }
  grid_->setColumnStretch(1, 1);
  grid_->setColumnStretch(kPartsOfARow + 2, columns > 1 ? 1 : 0);
  grid_->setColumnMinimumWidth(kPartsOfARow, columns > 1 ? kSpaceM : 0);
}

void LessonSliders::retranslate() {
  const std::string language = Language::instance().code().toStdString();
  for (const Row& row : rows_) {
    const QString label = QString::fromStdString(row.slider->label.in(language));
    row.label->setText(label);
    QWidget* const part =
        row.number != nullptr ? static_cast<QWidget*>(row.number) : static_cast<QWidget*>(row.word);
    part->setAccessibleName(label);
    for (std::size_t i = 0; row.word != nullptr && i < row.slider->values.size(); ++i)
      row.word->setItemText(static_cast<int>(i), valueText(*row.slider, i));
  }
  columns_ = 0;
  arrange();
  refresh();
}

}  // namespace lockstep::ui
