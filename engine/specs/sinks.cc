#include "engine/specs/sinks.h"

#include <algorithm>
#include <string_view>

#include "engine/specs/field.h"

namespace lockstep::specs {

Status checkSinks(const spec::v1::SinksSpec& sinks) {
  constexpr std::size_t kMostLength = 2048;
  constexpr const char* kField = "sinks.otlp";
  const std::string_view url = sinks.otlp();
  if (url.empty()) return {};
  const bool plain = std::all_of(url.begin(), url.end(), [](char c) { return c > ' ' && c < 127; });
  const bool http = url.starts_with("http://") || url.starts_with("https://");
  const std::string_view rest = http ? url.substr(url.find("://") + 3) : std::string_view();
  const std::string_view host = rest.substr(0, rest.find_first_of("/?#"));
  if (!plain || host.empty() || url.size() > kMostLength)
    return wrongField(kField, "sinks.otlp is no URL; expected one as http://collector:4318");
  if (host.find('@') == std::string_view::npos) return {};
  return wrongField(kField,
                    "sinks.otlp has a user name or a password, and what a run's spec has is kept; "
                    "expected them left out, and the variable OTEL_EXPORTER_OTLP_HEADERS set where "
                    "the run is followed");
}

}  // namespace lockstep::specs
