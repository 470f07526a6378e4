#include "ui/studio/place.h"

#include <QRegularExpression>
#include <QUrl>
#include <QUrlQuery>

namespace lockstep::ui {
namespace {

constexpr const char* kScheme = "lockstep";

QString runLink(const Place& place, QUrl url) {
  url.setPath("run/" + place.key.mid(4));
  QUrlQuery query;
  if (!place.part.isEmpty()) query.addQueryItem("part", place.part);
  if (place.rank >= 0) {
    query.addQueryItem("rank", QString::number(place.rank));
    query.addQueryItem("step", QString::number(place.step));
  }
  if (!query.isEmpty()) url.setQuery(query);
  return QString::fromLatin1(url.toEncoded());
}

QString lessonLink(const Place& place, QUrl url) {
  url.setPath("learn/" + place.part);
  QUrlQuery query;
  // QUrlQuery takes "%41" for "A".
  const auto encoded = [](const QString& text) {
    return QString::fromLatin1(QUrl::toPercentEncoding(text));
  };
  for (auto it = place.values.begin(); it != place.values.end(); ++it)
    query.addQueryItem(encoded(it.key()), encoded(it.value()));
  if (!query.isEmpty()) url.setQuery(query);
  return QString::fromLatin1(url.toEncoded());
}

std::optional<Place> runPlace(const QString& run, const QUrlQuery& query) {
  static const QRegularExpression part("^[a-z]*$");
  Place out{"run:" + run, query.queryItemValue("part"), -1, 0};
  if (!part.match(out.part).hasMatch()) return std::nullopt;
  if (!query.hasQueryItem("rank")) return out;
  bool rankIsNumber = false, stepIsNumber = false;
  out.rank = query.queryItemValue("rank").toInt(&rankIsNumber);
  out.step = query.queryItemValue("step").toLongLong(&stepIsNumber);
  if (!rankIsNumber || !stepIsNumber || out.rank < 0 || out.step < 1) return std::nullopt;
  return out;
}

// Which values its sliders have, the lesson knows.
Place lessonPlace(const QString& lesson, const QUrlQuery& query) {
  Place out{"learn", lesson, -1, 0};
  for (const auto& [name, value] : query.queryItems(QUrl::FullyDecoded))
    if (!name.isEmpty()) out.values[name] = value;
  return out;
}

}  // namespace

QString linkOf(const Place& place) {
  QUrl url;
  url.setScheme(kScheme);
  if (place.key.startsWith("run:")) return runLink(place, url);
  if (place.key == "learn" && !place.part.isEmpty()) return lessonLink(place, url);
  return {};
}

std::optional<Place> placeOf(const QString& link) {
  static const QRegularExpression path("^(run|learn)/([A-Za-z0-9._-]+)$");
  const QUrl url(link.trimmed(), QUrl::StrictMode);
  const QRegularExpressionMatch parts = path.match(url.path());
  if (url.scheme() != kScheme || !parts.hasMatch()) return std::nullopt;
  const QUrlQuery query(url);
  if (parts.captured(1) == "learn") return lessonPlace(parts.captured(2), query);
  return runPlace(parts.captured(2), query);
}

}  // namespace lockstep::ui
