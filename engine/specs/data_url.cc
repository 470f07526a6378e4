#include "engine/specs/data_url.h"

#include <algorithm>
#include <cctype>

#include "engine/specs/field.h"

namespace lockstep::specs {
namespace {

constexpr std::size_t kMostLength = 2048;

Error wrong(Message what, Message next) {
  Error error = invalidArgument("the URL of a data file is wrong");
  error.why = std::move(what);
  error.next = std::move(next);
  return error;
}

bool isAlnum(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

Status checkS3(const DataUrl& url) {
  const bool bucket = std::all_of(url.host.begin(), url.host.end(), [](char c) {
    return isAlnum(c) || c == '.' || c == '-' || c == '_';
  });
  const bool key = std::none_of(url.path.begin(), url.path.end(), [](char c) {
    return static_cast<unsigned char>(c) < ' ' || c == 127;
  });
  if (bucket && key) return {};
  return wrong("the name of the bucket or the key has other characters than these can have",
               "write it as s3://bucket/key, with the key as it is in the bucket");
}

// Whether a parameter of the query is a signature, as those of S3, Google's and Azure's stores.
bool isSigned(const std::string& path) {
  std::string query = path.substr(std::min(path.find('?'), path.size()));
  std::transform(query.begin(), query.end(), query.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::replace(query.begin(), query.end(), '?', '&');
  return query.find("signature=") != std::string::npos || query.find("&sig=") != std::string::npos;
}

Status checkHttp(const DataUrl& url) {
  const bool host = std::all_of(url.host.begin(), url.host.end(), [](char c) {
    return isAlnum(c) || std::string_view(".-_:[]").find(c) != std::string_view::npos;
  });
  const bool path = std::all_of(url.path.begin(), url.path.end(), [](char c) {
    return c > ' ' && c < 127 && std::string_view("\"#<>\\^`{|}").find(c) == std::string_view::npos;
  });
  if (!host || !path)
    return wrong("it has characters that a URL cannot have", "percent-encode them, as %20");
  if (!isSigned(url.path)) return {};
  return wrong("it is signed, and what a run's spec has is kept",
               "write objects of an S3 store as s3://bucket/key: the node signs its requests");
}

}  // namespace

bool isUrl(std::string_view path) {
  return path.starts_with("https://") || path.starts_with("http://") || path.starts_with("s3://");
}

Result<DataUrl> parseUrl(std::string_view url) {
  if (!isUrl(url) || url.size() > kMostLength)
    return wrong(message("a data file's URL has at most {} characters", kMostLength),
                 "write https://host/path, http://host/path or s3://bucket/key");
  const std::size_t colon = url.find(':');
  const std::string_view rest = url.substr(colon + 3);
  const std::size_t slash = std::min(rest.find_first_of("/?#"), rest.size());
  DataUrl out{std::string(url.substr(0, colon)), std::string(rest.substr(0, slash)),
              std::string(rest.substr(slash))};
  if (out.host.find('@') != std::string::npos)
    return wrong("it has a user name or a password, and what a run's spec has is kept",
                 "leave them out: the node takes credentials for s3:// from its environment or "
                 "from ~/.aws/credentials, and uses none for other URLs");
  const bool s3 = out.scheme == "s3";
  const std::string path = out.path.substr(0, s3 ? std::string::npos : out.path.find('?'));
  if (out.host.empty() || path.size() < 2 || path.front() != '/' || path.back() == '/')
    return wrong("it names no file",
                 "write https://host/path, http://host/path or s3://bucket/key");
  LOCKSTEP_TRY(s3 ? checkS3(out) : checkHttp(out));
  if (s3) out.path.erase(0, 1);
  return out;
}

Status checkUrl(const std::string& field, std::string_view path) {
  if (!isUrl(path)) return {};
  const auto url = parseUrl(path);
  if (url.ok()) return {};
  return wrongField(field, message("{}; {}", url.error().why, url.error().next));
}

std::string withoutQuery(std::string_view url) {
  return std::string(url.substr(0, url.starts_with("s3://") ? url.size() : url.find('?')));
}

Status checkIsPath(std::string_view path) {
  if (!isUrl(path)) return {};
  Error error =
      makeError(Code::kFailedPrecondition, "the data file {} is not here", withoutQuery(path));
  error.why = "a data file with a URL is fetched by the nodes of a run, at its launch";
  error.next = "download it, and name the file instead of the URL";
  return error;
}

}  // namespace lockstep::specs
