#include "ui/pages/data_panel.h"

#include <QComboBox>
#include <QFileInfo>
#include <QFrame>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QListView>
#include <QProgressBar>
#include <QPushButton>
#include <QRandomGenerator>
#include <QSpinBox>
#include <QStackedWidget>
#include <QTableView>
#include <QVBoxLayout>

#include "app/runs/example_data.h"
#include "app/specs/data_spec.h"
#include "ui/models/data_table_model.h"
#include "ui/studio/background.h"
#include "ui/studio/spec_document.h"
#include "ui/theme/error_text.h"
#include "ui/theme/format.h"
#include "ui/widgets/label_bars.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr int kLoadAfterMs = 300, kTickMs = 100, kFewSamples = 24, kManySamples = 500;

using app::DataKind;
using Opened = std::shared_ptr<app::DataPreview>;

}  // namespace

Progress DataPanel::Job::progress() {
  return [this](std::int64_t now, std::int64_t all) {
    done = now;
    total = all;
    return !stop.stop_requested();
  };
}

DataPanel::DataPanel(SpecDocument* document, QWidget* parent)
    : QWidget(parent), document_(document) {
  setObjectName("dataPanel");
  samples_ = new DataTableModel(this);
  column_ = new QVBoxLayout(this);
  column_->setContentsMargins(kSpaceS, kSpaceS, kSpaceS, kSpaceS);
  column_->setSpacing(kSpaceS);
  buildTools();
  buildSamples();
  buildFoot();
  connectParts();
  refresh();
}

DataPanel::~DataPanel() {
  if (job_) job_->stop.request_stop();
}

void DataPanel::buildTools() {
  auto* tools = new QHBoxLayout;
  tools->setSpacing(kSpaceXs);
  split_ = new QComboBox(this);
  split_->setObjectName("dataSplit");
  split_->addItems({{}, {}});
  split_->setMinimumWidth(80);
  split_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
  countLabel_ = makeLabel("dataCountLabel", this);
  count_ = new QSpinBox(this);
  count_->setObjectName("dataCount");
  count_->setRange(1, kManySamples);
  count_->setValue(kFewSamples);
  countLabel_->setBuddy(count_);
  first_ = makeButton("dataFirst", "table", this);
  random_ = makeButton("dataRandom", "refresh", this);
  check_ = makeButton("dataCheck", "ok", this);
  tools->addWidget(split_, 1);
  tools->addWidget(countLabel_);
  tools->addWidget(count_);
  column_->addLayout(tools);
  auto* buttons = new QHBoxLayout;
  buttons->setSpacing(kSpaceXs);
  for (QPushButton* button : {first_, random_, check_}) buttons->addWidget(button);
  buttons->addStretch(1);
  column_->addLayout(buttons);
  facts_ = makeLabel("dataFacts", this);
  facts_->setWordWrap(true);
  column_->addWidget(facts_);
  files_ = new ElidedLabel("dataFiles", this, "muted");
  column_->addWidget(files_);
}

void DataPanel::buildSamples() {
  wrong_ = new QFrame(this);
  wrong_->setObjectName("dataError");
  wrong_->setProperty("role", "card");
  auto* rows = new QVBoxLayout(wrong_);
  rows->setContentsMargins(kSpaceM, kSpaceS, kSpaceM, kSpaceS);
  rows->setSpacing(kSpaceXs);
  auto* row = new QHBoxLayout;
  row->setSpacing(kSpaceS);
  wrongIcon_ = makeLabel("dataErrorIcon", wrong_);
  wrongText_ = makeLabel("dataErrorText", wrong_);
  wrongText_->setWordWrap(true);
  wrongText_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  make_ = makeButton("dataMake", "add", wrong_);
  row->addWidget(wrongIcon_, 0, Qt::AlignTop);
  row->addWidget(wrongText_, 1);
  rows->addLayout(row);
  rows->addWidget(make_, 0, Qt::AlignLeft);
  column_->addWidget(wrong_);
  labels_ = new LabelBars("dataLabels", this);
  column_->addWidget(labels_);
  images_ = new QListView(this);
  images_->setObjectName("dataImages");
  images_->setModel(samples_);
  images_->setViewMode(QListView::IconMode);
  images_->setResizeMode(QListView::Adjust);
  images_->setMovement(QListView::Static);
  images_->setUniformItemSizes(true);
  images_->setSpacing(kSpaceXs);
  images_->setIconSize({DataTableModel::kMostSide, DataTableModel::kMostSide});
  table_ = new QTableView(this);
  table_->setObjectName("dataTable");
  table_->setModel(samples_);
  applyTableStyle(table_);
  nothing_ = makeLabel("dataNothing", this, "muted");
  nothing_->setAlignment(Qt::AlignCenter);
  nothing_->setWordWrap(true);
  stack_ = new QStackedWidget(this);
  for (QWidget* widget : std::initializer_list<QWidget*>{images_, table_, nothing_})
    stack_->addWidget(widget);
  // Where there is little room, what is wrong comes first.
  for (QWidget* widget : std::initializer_list<QWidget*>{images_, table_, nothing_})
    widget->setMinimumHeight(40);
  column_->addWidget(stack_, 1);
}

void DataPanel::buildFoot() {
  working_ = new QWidget(this);
  working_->setObjectName("dataWorking");
  auto* row = new QHBoxLayout(working_);
  row->setContentsMargins({});
  row->setSpacing(kSpaceS);
  workingText_ = makeLabel("dataWorkingText", working_, "muted");
  bar_ = new QProgressBar(working_);
  bar_->setObjectName("dataProgress");
  bar_->setTextVisible(false);
  bar_->setMaximumHeight(8);
  bar_->setMinimumWidth(60);
  cancel_ = makeButton("dataCancel", "close", working_);
  row->addWidget(workingText_);
  row->addWidget(bar_, 1);
  row->addWidget(cancel_);
  // Room for it stays, so that nothing moves when work ends.
  QSizePolicy keeps = working_->sizePolicy();
  keeps.setRetainSizeWhenHidden(true);
  working_->setSizePolicy(keeps);
  column_->addWidget(working_);
}

void DataPanel::connectParts() {
  later_.setSingleShot(true);
  later_.setInterval(kLoadAfterMs);
  tick_.setInterval(kTickMs);
  connect(&later_, &QTimer::timeout, this, &DataPanel::documentChanged);
  connect(&tick_, &QTimer::timeout, this, &DataPanel::showProgress);
  connect(document_, &SpecDocument::changed, this, [this] { later_.start(); });
  connect(split_, &QComboBox::currentIndexChanged, this, &DataPanel::load);
  connect(first_, &QPushButton::clicked, this, &DataPanel::showFirst);
  connect(random_, &QPushButton::clicked, this, &DataPanel::showRandom);
  connect(check_, &QPushButton::clicked, this, &DataPanel::check);
  connect(make_, &QPushButton::clicked, this, &DataPanel::make);
  connect(cancel_, &QPushButton::clicked, this, &DataPanel::cancel);
  connect(&Theme::instance(), &Theme::changed, this, &DataPanel::refresh);
}

QString DataPanel::signature() const {
  const app::SpecText& spec = document_->spec();
  QStringList out{document_->path(), QString::number(split_->currentIndex())};
  const auto add = [&](const std::string& path) {
    out << QString::fromStdString(spec.value(path).value_or(spec.defaultOf(path).value_or("")));
  };
  for (const char* path :
       {"model", "model.input.shape", "model.input.vocabulary", "model.input.columns",
        "model.input.categories", "model.loss", "model.classes", "data.format", "data.token_type",
        "data.csv.label", "data.csv.numbers", "data.csv.categories", "data.csv.classes",
        "data.csv.separator", "data.csv.no_header", "data.csv.transform"})
    add(path);
  for (const char* part : {"data.train.", "data.evaluate."})
    for (const char* field : {"images", "labels", "text", "table", "tokens", "from", "to",
                              "images_sha256", "labels_sha256", "text_sha256", "table_sha256"})
      add(std::string(part) + field);
  return out.join('\n');
}

void DataPanel::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  documentChanged();
}

void DataPanel::documentChanged() {
  if (isVisible() && document_->spec().readable() && signature() != loaded_) load();
}

template <typename Work, typename Done>
void DataPanel::run(What what, Work work, Done done) {
  if (job_) job_->stop.request_stop();
  auto job = std::make_shared<Job>();
  job_ = job;
  what_ = what;
  tick_.start();
  refresh();
  runInBackground(
      this, [job, work = std::move(work)] { return work(*job); },
      [this, job, done = std::move(done)](auto result) {
        if (job != job_) return;  // other work has taken its place
        job_ = nullptr;
        tick_.stop();
        done(std::move(result));
        refresh();
      });
}

void DataPanel::load() {
  if (!isVisible() || isMaking()) return;  // once they are made
  if (document_->kind() != app::SpecKind::kRun) {
    loaded_ = signature();
    return refresh();
  }
  loaded_ = signature();
  data_.reset();
  samples_->clear();
  labels_->setCounts({});
  error_.reset();
  checked_ = missingExample_ = false;
  struct Loaded {
    Result<Opened> data;
    Result<std::vector<app::DataSample>> first;
    bool missingExample = false;
  };
  run(
      What::kReading,
      [yaml = document_->spec().text(), file = document_->path().toStdString(),
       evaluate = split_->currentIndex() == 1, folder = exampleFolder_.toStdString(),
       count = count_->value()](Job& job) -> Loaded {
        const auto spec = app::completeDataSpec(yaml, file);
        if (!spec.ok()) return {spec.error(), spec.error()};
        const app::ExampleData found = app::findExampleData(*spec->spec, folder);
        auto opened = app::DataPreview::open(*found.spec, evaluate);
        if (!opened.ok()) return {opened.error(), opened.error(), found.missing};
        Opened data = std::move(*opened);
        auto first = data->read(0, count, job.progress());
        return {std::move(data), std::move(first)};
      },
      [this](Loaded loaded) {
        if (!loaded.data.ok()) {
          missingExample_ = loaded.missingExample && loaded.data.error().code == Code::kNotFound;
          return fail(loaded.data.error());
        }
        data_ = std::move(*loaded.data);
        take(std::move(loaded.first));
        if (!error_) countThenCheck();
      });
}

void DataPanel::take(Result<std::vector<app::DataSample>>&& samples) {
  if (!samples.ok()) return fail(samples.error());
  error_.reset();
  for (const app::DataSample& sample : *samples)
    if (sample.problem && !error_) error_ = sample.problem;
  samples_->setSamples(data_->kind(), data_->shape(), std::move(*samples), data_->columns());
  if (data_->kind() == DataKind::kImages) return;
  // As wide as the first rows need; a text takes the rest.
  table_->horizontalHeader()->setStretchLastSection(data_->kind() != DataKind::kRows);
  table_->resizeColumnsToContents();
}

void DataPanel::fail(const Error& error) {
  error_ = error;
  if (!data_) samples_->clear();
}

void DataPanel::showFirst() {
  if (!data_) return load();
  run(
      What::kReading,
      [data = data_, count = count_->value()](Job& job) {
        return data->read(0, count, job.progress());
      },
      [this](auto samples) { take(std::move(samples)); });
}

void DataPanel::showRandom() {
  if (!data_) return load();
  run(
      What::kReading,
      [data = data_, count = count_->value(), seed = QRandomGenerator::global()->generate64()](
          Job& job) { return data->readRandom(count, seed, job.progress()); },
      [this](auto samples) {
        take(std::move(samples));
        labels_->setCounts(data_->labels());
      });
}

// The number of samples and their labels; and whether small files are whole.
void DataPanel::countThenCheck() {
  struct Counted {
    Status status;
    Result<std::vector<app::DataSample>> again;
  };
  run(
      What::kCounting,
      [data = data_, count = count_->value()](Job& job) -> Counted {
        const bool known = data->size() >= 0;
        const Status status = data->count(job.progress());
        if (!status.ok() || known) return {status, std::vector<app::DataSample>()};
        return {status, data->read(0, count, job.progress())};  // those of the part alone
      },
      [this](Counted counted) {
        if (!counted.status.ok()) return fail(counted.status.error());
        labels_->setCounts(data_->labels());
        if (!counted.again.ok()) return fail(counted.again.error());
        if (!counted.again->empty()) take(std::move(counted.again));
        if (data_->bytes() <= kCheckedAtOnce && !error_) check();
      });
}

void DataPanel::check() {
  if (!data_) return load();
  checked_ = false;
  run(
      What::kChecking, [data = data_](Job& job) { return data->check(job.progress()); },
      [this](const Status& status) {
        checked_ = status.ok();
        if (!status.ok()) return fail(status.error());
        error_.reset();
        labels_->setCounts(data_->labels());
      });
}

// The data of an example, as a launch makes them.
void DataPanel::make() {
  run(
      What::kMaking,
      [yaml = document_->spec().text(), file = document_->path().toStdString(),
       folder = exampleFolder_.toStdString()](Job& job) -> Status {
        LOCKSTEP_ASSIGN(const auto spec, app::completeDataSpec(yaml, file));
        return app::provideExampleData(
                   spec.spec, folder, [](const std::string&) {}, job.stop.get_token())
            .status();
      },
      [this](const Status& status) {
        if (status.ok()) return load();
        fail(status.error());
        documentChanged();  // while they were made
      });
}

void DataPanel::cancel() {
  if (job_) job_->stop.request_stop();
}

// ---- What is shown.

// `shape`: height, width and, where the file has them, channels.
QString DataPanel::imagesText(const std::vector<std::int64_t>& shape) {
  const std::int64_t channels = shape.size() > 2 ? shape[2] : 1;
  if (channels == 1) return tr("images of %1 × %2").arg(shape[0]).arg(shape[1]);
  if (channels == 3) return tr("images of %1 × %2 in color").arg(shape[0]).arg(shape[1]);
  return tr("images of %1 × %2 with %3 channels").arg(shape[0]).arg(shape[1]).arg(channels);
}

QString DataPanel::factsText() const {
  if (document_->kind() != app::SpecKind::kRun)
    return tr("A model in a file of its own names no data.");
  if (!data_) return {};
  const auto shape = data_->shape();
  QString of;
  switch (data_->kind()) {
    case DataKind::kImages:
      of = imagesText(shape);
      break;
    case DataKind::kRows:
      of = tr("rows (numbers: %1, categories: %2)").arg(shape[0]).arg(shape[1]);
      break;
    case DataKind::kText:
    case DataKind::kTokens:
      of = tr("texts of %1 tokens").arg(shape[0]);
      break;
  }
  QString out = of;
  if (data_->size() >= 0)
    out = tr("Samples: %1").arg(formatCount(data_->size())) + QString::fromUtf8(" · ") + of;
  if (checked_) out += QString::fromUtf8(" · ") + tr("files checked");
  return out;
}

void DataPanel::refresh() {
  const bool busy = job_ != nullptr;
  const bool open = data_ != nullptr;
  // While a job reads, its reader is not asked.
  if (!busy || !open) facts_->setText(factsText());
  if (open && !busy) {
    QStringList paths;
    for (const auto& file : data_->files())
      paths << QString("%1 (%2)").arg(formatPath(QString::fromStdString(file.path)),
                                      formatBytes(static_cast<double>(file.bytes)));
    files_->setText(paths.join(", "));
    files_->setToolTip(paths.join('\n'));
  } else if (!open) {
    files_->clear();
  }
  facts_->setVisible(!facts_->text().isEmpty());
  files_->setVisible(!files_->text().isEmpty());
  for (QPushButton* button : {first_, random_}) button->setEnabled(!busy);
  check_->setEnabled(!busy && open && !checked_);
  working_->setVisible(busy);
  cancel_->setVisible(busy);
  showProgress();
  wrong_->setVisible(error_.has_value() && !busy);
  if (error_) {
    const bool stopped = error_->code == Code::kCancelled;
    const ErrorText text = describeError(*error_);
    QStringList lines{text.what, text.why, text.next};
    lines.removeAll(QString());
    wrongText_->setText(lines.join('\n'));
    wrong_->setAccessibleName(lines.join(' '));
    wrongIcon_->setPixmap(
        Theme::instance()
            .icon(stopped ? "warning" : "error", stopped ? Tone::kWarning : Tone::kBad)
            .pixmap(16, 16));
  }
  make_->setVisible(missingExample_);
  const bool some = samples_->rowCount() > 0;
  QWidget* shown = !some                                   ? static_cast<QWidget*>(nothing_)
                   : samples_->kind() == DataKind::kImages ? static_cast<QWidget*>(images_)
                                                           : table_;
  stack_->setCurrentWidget(shown);
  nothing_->setText(busy || error_ ? QString() : tr("No samples"));
}

void DataPanel::showProgress() {
  if (!job_) return;
  const std::int64_t done = job_->done, total = job_->total;
  const bool known = total > 0 && what_ != What::kMaking;
  bar_->setRange(0, known ? 1000 : 0);
  if (known)
    bar_->setValue(
        static_cast<int>(1000.0 * static_cast<double>(done) / static_cast<double>(total)));
  switch (what_) {
    case What::kReading:
      workingText_->setText(tr("Reading samples…"));
      break;
    case What::kCounting:
      workingText_->setText(tr("Counting samples…"));
      break;
    case What::kChecking:
      workingText_->setText(tr("Checking the files…"));
      break;
    case What::kMaking:
      workingText_->setText(tr("Making the data…"));
      break;
  }
}

void DataPanel::retranslate() {
  split_->setItemText(0, tr("Training data"));
  split_->setItemText(1, tr("Evaluation data"));
  split_->setAccessibleName(tr("Part of the data"));
  countLabel_->setText(tr("Samples"));
  count_->setAccessibleName(tr("Number of samples shown"));
  setTexts(first_, tr("First"), tr("Show the first samples"));
  setTexts(random_, tr("Random"), tr("Show other random samples"));
  setTexts(check_, tr("Check files"),
           tr("Read the files to their ends, check them as a run does, and compare hashes"));
  setTexts(make_, tr("Make it"), tr("Make the data of this example, as a launch would"));
  setTexts(cancel_, tr("Cancel"));
  images_->setAccessibleName(tr("Samples"));
  table_->setAccessibleName(tr("Samples"));
  labels_->setAccessibleName(tr("Samples of each label"));
  bar_->setAccessibleName(tr("Progress"));
  samples_->retranslate();
  refresh();
}

}  // namespace lockstep::ui
