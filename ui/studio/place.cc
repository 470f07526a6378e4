#include "ui/studio/place.h"

#include <QRegularExpression>
#include <QUrl>
#include <QUrlQuery>

namespace lockstep::ui {
namespace {

constexpr const char* kScheme = "lockstep";

}  // namespace

QString linkOf(const Place& place) {
  if (!place.key.startsWith("run:")) return {};
  QUrl url;
  url.setScheme(kScheme);
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

std::optional<Place> placeOf(const QString& link) {
  static const QRegularExpression run("^run/([A-Za-z0-9._-]+)$"), part("^[a-z]*$");
  const QUrl url(link.trimmed(), QUrl::StrictMode);
  const QRegularExpressionMatch path = run.match(url.path());
  if (url.scheme() != kScheme || !path.hasMatch()) return std::nullopt;
  const QUrlQuery query(url);
  Place out{"run:" + path.captured(1), query.queryItemValue("part"), -1, 0};
  if (!part.match(out.part).hasMatch()) return std::nullopt;
  if (!query.hasQueryItem("rank")) return out;
  bool rankIsNumber = false, stepIsNumber = false;
  out.rank = query.queryItemValue("rank").toInt(&rankIsNumber);
  out.step = query.queryItemValue("step").toLongLong(&stepIsNumber);
  if (!rankIsNumber || !stepIsNumber || out.rank < 0 || out.step < 1) return std::nullopt;
  return out;
}

}  // namespace lockstep::ui
