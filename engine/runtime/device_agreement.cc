#include "engine/runtime/device_agreement.h"

#include <map>

#include "engine/base/hex.h"

namespace lockstep::runtime {
namespace {

// A report or a decision is a word and a text.
constexpr std::string_view kCan = "can ", kCannot = "cannot ";

bool takeWord(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

}  // namespace

std::string DeviceReport::text() const {
  if (!whyNot.empty()) return fmt::format("{}{}", kCannot, whyNot);
  return fmt::format("{}{} {}", kCan, device, version);
}

DeviceReport DeviceReport::parse(std::string_view text) {
  DeviceReport out;
  if (!takeWord(text, kCan)) {
    takeWord(text, kCannot);
    out.whyNot = text.empty() ? "it does not say why" : text;
    return out;
  }
  out.device = text.substr(0, text.find(' '));
  out.version = text.substr(text.rfind(' ') + 1);
  return out;
}

std::string reasonAgainst(const std::vector<DeviceReport>& byRank) {
  std::map<std::string_view, std::size_t> devices;
  for (std::size_t rank = 0; rank < byRank.size(); ++rank) {
    const DeviceReport& report = byRank[rank];
    if (!report.whyNot.empty()) return fmt::format("of rank {}: {}", rank, report.whyNot);
    const auto [known, isNew] = devices.emplace(report.device, rank);
    if (!isNew) return fmt::format("ranks {} and {} are on one device", known->second, rank);
    if (report.version != byRank[0].version)
      return fmt::format("rank 0 has version {}, rank {} has {}", byRank[0].version, rank,
                         report.version);
  }
  return {};
}

std::string DeviceDecision::text() const {
  return whyNot.empty() ? fmt::format("{}{}", kCan, toHex(id))
                        : fmt::format("{}{}", kCannot, whyNot);
}

Result<DeviceDecision> DeviceDecision::parse(std::string_view text) {
  DeviceDecision out;
  std::string_view rest = text;
  if (takeWord(rest, kCannot)) {
    out.whyNot = rest;
  } else if (takeWord(rest, kCan)) {
    out.id = fromHex(rest).value_or("");
  }
  if (out.whyNot.empty() && out.id.empty())
    return makeError(Code::kInternal, "the ranks' store holds no identity of a group: {}", text);
  return out;
}

}  // namespace lockstep::runtime
