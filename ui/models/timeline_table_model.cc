#include "ui/models/timeline_table_model.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "ui/studio/background.h"
#include "ui/theme/format.h"
#include "ui/theme/theme.h"

namespace lockstep::ui {

using Place = TimelineView::Place;

// Shares the timeline with the view, so that another thread can sort it.
class TimelineTableModel::Spans {
 public:
  Spans(TimelineView::Timeline timeline, std::vector<const app::StepTimeline::Lane*> lanes)
      : timeline_(std::move(timeline)), lanes_(std::move(lanes)) {
    for (const auto* lane : lanes_)
      for (const bool asynchronous : {false, true})
        first_.push_back(first_.back() + (lane == nullptr ? 0 : of(*lane, asynchronous).size()));
  }

  bool operator==(const Spans& other) const {
    return timeline_ == other.timeline_ && lanes_ == other.lanes_;
  }
  const app::StepTimeline* timeline() const { return timeline_.get(); }  // null: none
  // A model has no more rows than an int can count.
  std::uint32_t size() const {
    return static_cast<std::uint32_t>(
        std::min<std::size_t>(first_.back(), std::numeric_limits<int>::max()));
  }

  Place place(std::uint32_t span) const {
    const auto part = std::upper_bound(first_.begin(), first_.end(), span) - first_.begin() - 1;
    return {static_cast<int>(part / 2), part % 2 == 1,
            span - first_[static_cast<std::size_t>(part)]};
  }
  // size(): it is none of these.
  std::uint32_t number(const Place& place) const {
    if (place.row < 0 || static_cast<std::size_t>(place.row) >= lanes_.size()) return size();
    const std::size_t part = 2 * static_cast<std::size_t>(place.row) + (place.asynchronous ? 1 : 0);
    const std::size_t span = first_[part] + place.index;
    return span < first_[part + 1] ? static_cast<std::uint32_t>(span) : size();
  }
  const app::TimelineSpan& at(const Place& place) const {
    return of(*lanes_[static_cast<std::size_t>(place.row)], place.asynchronous)[place.index];
  }
  // Calls with each place and its span, in the order of their numbers.
  template <typename Call>
  void each(Call call) const {
    for (std::size_t part = 0; part + 1 < first_.size(); ++part)
      for (std::size_t i = 0; i < first_[part + 1] - first_[part]; ++i) {
        const Place place{static_cast<int>(part / 2), part % 2 == 1, i};
        call(place, at(place));
      }
  }

 private:
  static const std::vector<app::TimelineSpan>& of(const app::StepTimeline::Lane& lane,
                                                  bool asynchronous) {
    return asynchronous ? lane.communication : lane.spans;
  }

  TimelineView::Timeline timeline_;
  std::vector<const app::StepTimeline::Lane*> lanes_;  // of the timeline, by row of the view
  std::vector<std::size_t> first_{0};  // number of the first span of each part of each lane
};

namespace {

// By name: its place among all names in alphabetical order.
std::vector<std::int64_t> alphabetical(const std::vector<std::string>& names) {
  std::vector<std::size_t> sorted(names.size());
  std::iota(sorted.begin(), sorted.end(), std::size_t{0});
  std::sort(sorted.begin(), sorted.end(),
            [&](std::size_t a, std::size_t b) { return names[a] < names[b]; });
  std::vector<std::int64_t> out(names.size());
  std::int64_t place = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (i > 0 && names[sorted[i]] != names[sorted[i - 1]]) ++place;
    out[sorted[i]] = place;
  }
  return out;
}

}  // namespace

TimelineTableModel::TimelineTableModel(const TimelineView& view, QObject* parent)
    : QAbstractTableModel(parent), view_(view) {
  spans_ = std::make_shared<const Spans>(nullptr, std::vector<const app::StepTimeline::Lane*>());
}
TimelineTableModel::~TimelineTableModel() = default;

void TimelineTableModel::refresh() {
  auto spans = std::make_shared<const Spans>(
      view_.measured() ? view_.measured() : view_.predicted(), view_.lanes());
  if (*spans == *spans_) return;
  beginResetModel();
  spans_ = std::move(spans);
  order_ = {};
  endResetModel();
  startSorting();
}

void TimelineTableModel::retranslate() {
  Q_EMIT headerDataChanged(Qt::Horizontal, 0, kColumns - 1);
  if (rowCount() > 0) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, kColumns - 1));
}

// ---- The order.

void TimelineTableModel::sort(int column, Qt::SortOrder order) {
  column_ = column;
  direction_ = order;
  startSorting();
}

void TimelineTableModel::startSorting() {
  const int sorting = ++sorting_;
  if (column_ <= kRank && direction_ == Qt::AscendingOrder) return setOrder({});
  runInBackground(
      this,
      [spans = spans_, column = column_, direction = direction_] {
        return ordered(*spans, column, direction);
      },
      [this, sorting](Order order) {
        if (sorting == sorting_) setOrder(std::move(order));
      });
}

// Spans that are equal in the column stay in the order of their numbers.
TimelineTableModel::Order TimelineTableModel::ordered(const Spans& spans, int column,
                                                      Qt::SortOrder order) {
  const std::vector<std::int64_t> names = column == kOperation && spans.timeline() != nullptr
                                              ? alphabetical(spans.timeline()->names)
                                              : std::vector<std::int64_t>();
  const auto valueOf = [&](const Place& place, const app::TimelineSpan& span) -> std::int64_t {
    switch (column) {
      case kLane:
        return place.asynchronous ? 1 : 0;
      case kOperation:
        return static_cast<std::int64_t>(span.kind) * (std::int64_t{1} << 32) +
               (span.name < 0 ? -1 : names[static_cast<std::size_t>(span.name)]);
      case kStart:
        return span.begin;
      case kDuration:
        return span.length();
      case kWaitsFor:
        return span.waitsFor;
      case kBytes:
        return spans.timeline()->bytesOf(span);
      default:
        return place.row;
    }
  };
  std::vector<std::pair<std::int64_t, std::uint32_t>> keys;
  keys.reserve(spans.size());
  const int sign = order == Qt::AscendingOrder ? 1 : -1;
  spans.each([&](const Place& place, const app::TimelineSpan& span) {
    if (keys.size() < spans.size())
      keys.emplace_back(sign * valueOf(place, span), static_cast<std::uint32_t>(keys.size()));
  });
  std::sort(keys.begin(), keys.end());
  Order out;
  out.spans.reserve(keys.size());
  out.rows.resize(keys.size());
  for (const auto& key : keys) {
    out.rows[key.second] = static_cast<std::uint32_t>(out.spans.size());
    out.spans.push_back(key.second);
  }
  return out;
}

void TimelineTableModel::setOrder(Order order) {
  if (order.spans == order_.spans) return;
  Q_EMIT layoutAboutToBeChanged({}, VerticalSortHint);
  const QModelIndexList before = persistentIndexList();
  std::vector<std::uint32_t> spans;
  for (const QModelIndex& one : before) spans.push_back(spanOf(one.row()));
  order_ = std::move(order);
  QModelIndexList after;
  for (qsizetype i = 0; i < before.size(); ++i)
    after << index(rowOfSpan(spans[static_cast<std::size_t>(i)]), before[i].column());
  changePersistentIndexList(before, after);
  Q_EMIT layoutChanged({}, VerticalSortHint);
}

std::uint32_t TimelineTableModel::spanOf(int row) const {
  const auto at = static_cast<std::size_t>(row);
  return order_.spans.empty() ? static_cast<std::uint32_t>(row) : order_.spans[at];
}
int TimelineTableModel::rowOfSpan(std::uint32_t span) const {
  return static_cast<int>(order_.rows.empty() ? span : order_.rows[span]);
}

Place TimelineTableModel::placeOf(int row) const { return spans_->place(spanOf(row)); }

int TimelineTableModel::rowOf(const Place& place) const {
  const std::uint32_t span = spans_->number(place);
  return span < spans_->size() ? rowOfSpan(span) : -1;
}

// ---- The cells.

int TimelineTableModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(spans_->size());
}
int TimelineTableModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kColumns;
}

QString TimelineTableModel::cellText(int row, int column) const {
  constexpr double kNs = 1e-9, kTick = 1e-7;  // seconds
  const Place place = placeOf(row);
  const app::TimelineSpan& span = spans_->at(place);
  const app::StepTimeline& timeline = *spans_->timeline();
  switch (column) {
    case kRank:
      return view_.nameOf(view_.rankOf(place.row));
    case kLane:
      return place.asynchronous ? tr("communication stream") : tr("compute stream");
    case kOperation: {
      const QString phase = phaseName(static_cast<int>(span.kind));
      if (span.name < 0) return phase;
      return phase + QString::fromUtf8(" · ") +
             QString::fromStdString(timeline.names[static_cast<std::size_t>(span.name)]);
    }
    case kStart:
      return formatTick(static_cast<double>(span.begin) * kNs,
                        static_cast<double>(timeline.length) * kNs, kTick);
    case kDuration:
      return formatSeconds(static_cast<double>(span.length()) * kNs);
    case kWaitsFor:
      return span.waitsFor < 0 ? QString() : view_.nameOf(span.waitsFor);
    default: {
      const std::int64_t bytes = timeline.bytesOf(span);
      return bytes > 0 ? formatBytes(static_cast<double>(bytes)) : QString();
    }
  }
}

QVariant TimelineTableModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rowCount()) return {};
  if (role == Qt::TextAlignmentRole) return headerData(index.column(), Qt::Horizontal, role);
  return role == Qt::DisplayRole ? cellText(index.row(), index.column()) : QVariant();
}

QVariant TimelineTableModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  if (role == Qt::TextAlignmentRole) {
    const bool isNumber = section == kStart || section == kDuration || section == kBytes;
    return int((isNumber ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
  }
  if (role != Qt::DisplayRole) return {};
  switch (section) {
    case kRank:
      return tr("Rank");
    case kLane:
      return tr("Lane");
    case kOperation:
      return tr("Operation");
    case kStart:
      return tr("Start");
    case kDuration:
      return tr("Duration");
    case kWaitsFor:
      return tr("Waits for");
    case kBytes:
      return tr("Bytes");
    default:
      return {};
  }
}

}  // namespace lockstep::ui
