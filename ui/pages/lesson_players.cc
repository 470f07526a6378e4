// The pictures of a lesson that are played: the timeline of a step, and an all-reduce message by
// message.
#include <QHeaderView>
#include <QLabel>
#include <QStackedWidget>
#include <QTableView>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>

#include "ui/models/message_model.h"
#include "ui/pages/lesson_pictures.h"
#include "ui/plots/color_map.h"
#include "ui/plots/messages_view.h"
#include "ui/plots/timeline_view.h"
#include "ui/theme/theme.h"
#include "ui/widgets/player.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr double kStepSeconds = 8;  // that a step takes when it is played
constexpr double kRoundSeconds = 1.6;
constexpr std::size_t kMostStops = 200;

QVBoxLayout* makeBody(QWidget* widget) {
  auto* body = new QVBoxLayout(widget);
  body->setContentsMargins(0, kSpaceS, 0, 0);
  body->setSpacing(kSpaceXs);
  return body;
}

// Where a span begins or ends on any rank; of very many every few.
std::vector<double> stopsOf(const app::StepTimeline& timeline) {
  std::vector<double> out{0, static_cast<double>(timeline.length)};
  for (const auto& lane : timeline.lanes)
    for (const auto* spans : {&lane.spans, &lane.communication})
      for (const app::TimelineSpan& span : *spans) {
        out.push_back(static_cast<double>(span.begin));
        out.push_back(static_cast<double>(span.end));
      }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  if (out.size() <= kMostStops) return out;
  std::vector<double> fewer;
  for (std::size_t i = 0; i < kMostStops; ++i)
    fewer.push_back(out[i * (out.size() - 1) / (kMostStops - 1)]);
  return fewer;
}

class TimelinePicture : public LessonPicture {
  Q_DECLARE_TR_FUNCTIONS(lockstep::ui::LessonPicture)

 public:
  explicit TimelinePicture(QWidget* parent) : LessonPicture(parent) {
    auto* body = makeBody(this);
    phases_ = makeLabel("lessonPhases", this);
    phases_->setTextFormat(Qt::RichText);
    phases_->setWordWrap(true);
    view_ = new TimelineView("lessonTimeline", this);
    span_ = new ElidedLabel("lessonSpan", this, "muted");
    player_ = new Player("timelinePlayer", this);
    body->addWidget(phases_);
    body->addWidget(view_, 1);
    body->addWidget(span_);
    body->addWidget(player_);
    connect(player_, &Player::moved, this, [this](double at) {
      view_->showUntil(player_->atEnd() ? std::nullopt : std::optional(at));
    });
    connect(view_, &TimelineView::spanChosen, this, [this] { refreshSpan(); });
    connect(&Theme::instance(), &Theme::changed, this, [this] { phases_->setText(phaseLegend()); });
    TimelinePicture::retranslate();
  }

  void show(const LessonSession::Scene& scene, const LessonSession::Scene&) override {
    const auto& timeline = scene->timeline;
    const bool first = view_->measured() == nullptr;
    view_->setTimelines(timeline, nullptr);
    setNames();
    player_->setStops(timeline ? stopsOf(*timeline) : std::vector<double>(), kStepSeconds);
    if (first && timeline) player_->setPosition(static_cast<double>(timeline->length));
    refreshSpan();
  }
  QString title() const override { return tr("Timeline"); }
  void retranslate() override {
    phases_->setText(phaseLegend());
    phases_->setFont(Theme::instance().small(this));
    view_->setAccessibleName(tr("Timeline of a simulated step"));
    view_->setEmptyText(tr("This lesson has no step to show."));
    player_->retranslate();
    setNames();
    refreshSpan();
  }

 private:
  void setNames() {
    std::vector<QString> names;
    const std::size_t ranks = view_->measured() ? view_->measured()->lanes.size() : 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) names.push_back(tr("rank %1").arg(rank));
    view_->setNames(std::move(names));
  }
  void refreshSpan() {
    const QString text = view_->chosenText();
    span_->setText(text.isEmpty() ? tr("Click a span for its name and length.") : text);
  }

  QLabel* phases_ = nullptr;
  TimelineView* view_ = nullptr;
  ElidedLabel* span_ = nullptr;
  Player* player_ = nullptr;
};

class MessagesPicture : public LessonPicture {
  Q_DECLARE_TR_FUNCTIONS(lockstep::ui::LessonPicture)

 public:
  explicit MessagesPicture(QWidget* parent) : LessonPicture(parent) {
    auto* body = makeBody(this);
    auto* head = new QHBoxLayout;
    round_ = makeLabel("lessonRound", this);
    round_->setWordWrap(true);
    asTable_ = makeToolButton("messagesAsTable", "table", this);
    asTable_->setCheckable(true);
    head->addWidget(round_, 1);
    head->addWidget(asTable_, 0, Qt::AlignTop);
    legend_ = new ColorLegend(this);
    view_ = new MessagesView("lessonMessages", this);
    model_ = new MessageModel(this);
    table_ = new QTableView(this);
    table_->setObjectName("messagesTable");
    table_->setModel(model_);
    applyTableStyle(table_);
    table_->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
    stack_ = new QStackedWidget(this);
    stack_->addWidget(view_);
    stack_->addWidget(table_);
    player_ = new Player("messagesPlayer", this);
    player_->takeKeysOf(view_);
    body->addLayout(head);
    body->addWidget(legend_);
    body->addWidget(stack_, 1);
    body->addWidget(player_);
    connect(player_, &Player::moved, this, [this](double at) {
      view_->showAt(at);
      round_->setText(view_->roundText());
    });
    connect(asTable_, &QToolButton::toggled, this,
            [this](bool on) { stack_->setCurrentIndex(on ? 1 : 0); });
    MessagesPicture::retranslate();
  }

  void show(const LessonSession::Scene& scene, const LessonSession::Scene&) override {
    // Shares the scene, of which the messages are a part.
    const bool any = scene->messages.has_value();
    view_->setMessages(any ? std::shared_ptr<const app::MessagesScene>(scene, &*scene->messages)
                           : nullptr);
    model_->setMessages(view_->messages());
    std::vector<double> stops;
    for (int round = 0; any && round <= scene->messages->rounds; ++round) stops.push_back(round);
    player_->setStops(stops, kRoundSeconds * static_cast<double>(stops.size()));
    refresh();
  }
  QString title() const override { return tr("Messages"); }
  void retranslate() override {
    view_->setAccessibleName(tr("All-reduce, message by message"));
    table_->setAccessibleName(tr("Messages of the all-reduce"));
    setTexts(asTable_, tr("Show the data as a table"));
    player_->retranslate();
    model_->retranslate();
    refresh();
  }

 private:
  void refresh() {
    const int ranks = view_->messages() ? view_->messages()->ranks : 1;
    legend_->setScale(ColorMap::Kind::kSequential, tr("ranks in the sum of a slice"), "0",
                      QString::number(ranks));
    round_->setText(view_->roundText());
  }

  QLabel* round_ = nullptr;
  QToolButton* asTable_ = nullptr;
  ColorLegend* legend_ = nullptr;
  MessagesView* view_ = nullptr;
  MessageModel* model_ = nullptr;
  QTableView* table_ = nullptr;
  QStackedWidget* stack_ = nullptr;
  Player* player_ = nullptr;
};

}  // namespace

LessonPicture* makeTimelinePicture(QWidget* parent) { return new TimelinePicture(parent); }
LessonPicture* makeMessagesPicture(QWidget* parent) { return new MessagesPicture(parent); }

}  // namespace lockstep::ui
