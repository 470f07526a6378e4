#include "agent/node/s3.h"

#include <algorithm>
#include <cctype>
#include <ctime>
#include <map>
#include <sstream>

#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/hex.h"

namespace lockstep::agent {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;  // of a file of AWS's settings

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") + 1 - first);
}

// Returns the entries of one section of an INI file; none where there is no such file.
std::map<std::string, std::string> readSection(const std::string& path,
                                               const std::string& section) {
  std::map<std::string, std::string> out;
  const auto text = readFile(path, kMostBytes);
  if (!text.ok()) return out;
  bool inside = false;
  std::string line;
  for (std::istringstream lines(*text); std::getline(lines, line);) {
    const bool nested = line.starts_with(' ') || line.starts_with('\t');
    line = trimmed(line);
    if (line.starts_with('[')) inside = line == "[" + section + "]";
    const std::size_t equals = line.find('=');
    if (!inside || nested || line.starts_with('#') || equals == std::string::npos) continue;
    out[trimmed(line.substr(0, equals))] = trimmed(line.substr(equals + 1));
  }
  return out;
}

bool isUnreserved(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("-._~/").find(c) != std::string_view::npos;
}

std::string percentEncoded(const std::string& path) {
  std::string out;
  for (const char c : path) {
    if (isUnreserved(c))
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string timeText(Nanoseconds now) {
  const std::time_t seconds = now / 1'000'000'000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[20];
  return {text, std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts)};
}

// As HTTP clients send it: without the scheme's own port.
std::string hostOf(const std::string& endpoint) {
  const std::size_t start = endpoint.find("://") + 3;
  std::string host = endpoint.substr(start, endpoint.find('/', start) - start);
  const std::string own = endpoint.starts_with("https:") ? ":443" : ":80";
  if (host.ends_with(own)) host.resize(host.size() - own.size());
  return host;
}

Status checkEndpoint(std::string& endpoint) {
  while (endpoint.ends_with('/')) endpoint.pop_back();
  const bool web = endpoint.starts_with("https://") || endpoint.starts_with("http://");
  const bool plain = std::all_of(endpoint.begin(), endpoint.end(), [](char c) {
    return c > ' ' && c < 127 && std::string_view("\"@?#\\").find(c) == std::string_view::npos;
  });
  if (web && plain) return {};
  Error error = invalidArgument("the endpoint of the S3 store is not a URL that can be used");
  error.next =
      "set AWS_ENDPOINT_URL_S3 on the node to https://host or http://host:port, without "
      "credentials";
  return error;
}

}  // namespace

Result<S3Access> s3Access(const Variables& variable) {
  const auto first = [&](std::initializer_list<const char*> names) {
    for (const char* name : names)
      if (const char* value = variable(name); value != nullptr && *value != 0)
        return std::string(value);
    return std::string();
  };
  const auto fileOf = [&](const char* name, const char* standard) {
    const std::string named = first({name});
    return named.empty() ? first({"HOME"}) + standard : named;
  };
  std::string profile = first({"AWS_PROFILE"});
  if (profile.empty()) profile = "default";
  auto config = readSection(fileOf("AWS_CONFIG_FILE", "/.aws/config"),
                            profile == "default" ? profile : "profile " + profile);
  S3Access out;
  out.keyId = first({"AWS_ACCESS_KEY_ID"});
  out.secret = first({"AWS_SECRET_ACCESS_KEY"});
  out.token = first({"AWS_SESSION_TOKEN"});
  if (out.keyId.empty() || out.secret.empty()) {
    auto own = readSection(fileOf("AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials"), profile);
    if (!own.contains("aws_access_key_id")) own = config;
    out.keyId = own["aws_access_key_id"];
    out.secret = own["aws_secret_access_key"];
    out.token = own["aws_session_token"];
  }
  out.region = first({"AWS_REGION", "AWS_DEFAULT_REGION"});
  if (out.region.empty()) out.region = config["region"];
  if (out.region.empty()) out.region = "us-east-1";
  out.endpoint = first({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
  if (out.endpoint.empty()) out.endpoint = config["endpoint_url"];
  if (out.endpoint.empty())
    out.endpoint = fmt::format("https://s3.{}.amazonaws.com{}", out.region,
                               out.region.starts_with("cn-") ? ".cn" : "");
  LOCKSTEP_TRY(checkEndpoint(out.endpoint));
  return out;
}

Headers signGet(const S3Access& access, const std::string& host, const std::string& path,
                Nanoseconds now, Headers headers) {
  const std::string nothing = sha256Hex("");
  const std::string time = timeText(now), day = time.substr(0, 8);
  headers.emplace_back("host", host);
  headers.emplace_back("x-amz-content-sha256", nothing);
  headers.emplace_back("x-amz-date", time);
  if (!access.token.empty()) headers.emplace_back("x-amz-security-token", access.token);
  std::sort(headers.begin(), headers.end());
  std::string lines;
  std::vector<std::string> names;
  for (const auto& [name, value] : headers) {
    lines += fmt::format("{}:{}\n", name, value);
    names.push_back(name);
  }
  const std::string signedNames = fmt::format("{}", fmt::join(names, ";"));
  const std::string request =
      fmt::format("GET\n{}\n\n{}\n{}\n{}", path, lines, signedNames, nothing);
  const std::string scope = fmt::format("{}/{}/s3/aws4_request", day, access.region);
  std::string key = "AWS4" + access.secret;
  for (const std::string& part :
       {day, access.region, std::string("s3"), std::string("aws4_request")})
    key = hmacSha256(key, part);
  const std::string signature = toHex(hmacSha256(
      key, fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", time, scope, sha256Hex(request))));
  std::erase_if(headers, [](const auto& one) { return one.first == "host"; });
  headers.emplace_back(
      "authorization",
      fmt::format("AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={}", access.keyId,
                  scope, signedNames, signature));
  return headers;
}

S3Request s3Request(const S3Access& access, const specs::DataUrl& object, Nanoseconds now,
                    const Headers& signedToo) {
  const std::string host = hostOf(access.endpoint);
  const std::size_t slash = access.endpoint.find('/', access.endpoint.find("://") + 3);
  const std::string folder = slash == std::string::npos ? "" : access.endpoint.substr(slash);
  const std::string path =
      fmt::format("{}/{}/{}", folder, object.host, percentEncoded(object.path));
  S3Request out{access.endpoint.substr(0, slash) + path, signedToo};
  if (!access.keyId.empty()) out.headers = signGet(access, host, path, now, signedToo);
  return out;
}

}  // namespace lockstep::agent
