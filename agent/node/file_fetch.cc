#include "agent/node/file_fetch.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "agent/node/s3.h"
#include "engine/base/clock.h"

namespace lockstep::agent {
namespace {

constexpr int kTries = 5;                // without a new byte
constexpr std::size_t kMostTold = 4096;  // of the body of an error
constexpr std::chrono::milliseconds kFirstPause{500}, kLook{100};

// curl's exit codes that another try does not change: what the URL, a redirect or the certificate
// of the server is.
constexpr std::array kFinal = {1, 2, 3, 27, 43, 47, 53, 58, 59, 60, 66, 67, 77, 83, 90, 91};

// A name for the file on the node: it keeps the suffix that tells its format.
std::string fileName(const specs::DataUrl& url) {
  std::string path = url.path;
  if (url.scheme != "s3") path = path.substr(0, path.find('?'));
  std::string name = path.substr(path.rfind('/') + 1);
  for (char& c : name)
    if (!isPlainName(fmt::format("x{}", c))) c = '_';
  if (name.size() > 128) name = name.substr(name.size() - 128);
  return isPlainName(name) ? name : "data" + name.substr(0, 120);
}

// "NoSuchKey" of "<Error><Code>NoSuchKey</Code>…".
std::string s3Code(const std::string& body) {
  const std::size_t start = body.find("<Code>"), end = body.find("</Code>");
  if (start == std::string::npos || end == std::string::npos || end < start) return {};
  const std::string code = body.substr(start + 6, end - start - 6);
  return isPlainName(code) ? code : std::string();
}

}  // namespace

FileFetch::FileFetch(const node::v1::FetchFileRequest& request, specs::DataUrl url,
                     std::string folder, std::string known, const DataObserver& observer)
    : request_(request),
      url_(std::move(url)),
      name_(fileName(url_)),
      folder_(std::move(folder)),
      known_(std::move(known)),
      observer_(observer) {}

Status FileFetch::run() {
  for (int failures = 0;;) {
    const std::int64_t before = furthest_;
    LOCKSTEP_ASSIGN(Attempt done, attempt());
    if (done.next == Next::kDone) return {};
    failures = furthest_ > before ? 1 : failures + 1;
    if (done.next == Next::kGiveUp || failures == kTries) return std::move(done.error);
    LOCKSTEP_TRY(pause(failures));
  }
}

Result<HttpRequest> FileFetch::request() const {
  HttpRequest out;
  if (url_.scheme == "s3") {
    LOCKSTEP_ASSIGN(const S3Access access,
                    s3Access([](const char* name) -> const char* { return std::getenv(name); }));
    S3Request s3 = s3Request(access, url_, wallNow());
    out = {std::move(s3.url), std::move(s3.headers), false};
  } else {
    out.url = request_.url();
  }
  const std::int64_t offset = part_ ? part_->written() : 0;
  const bool strong = !etag_.empty() && !etag_.starts_with("W/");
  if (offset > 0 && resumes_ && (strong || !request_.sha256().empty())) {
    out.headers.emplace_back("range", fmt::format("bytes={}-", offset));
    if (strong) out.headers.emplace_back("if-range", etag_);
  }
  if (!part_ && !known_.empty()) out.headers.emplace_back("if-none-match", known_);
  return out;
}

Result<FileFetch::Attempt> FileFetch::attempt() {
  status_ = 0;
  told_.clear();
  LOCKSTEP_ASSIGN(const HttpRequest request, this->request());
  const auto end = httpGet(request, {[this](const HttpHead& head) { return begin(head); },
                                     [this](std::string_view bytes) { return receive(bytes); },
                                     [this] { return !tell(); }});
  if (!end.ok() && told_.size() < kMostTold) return end.error();
  if (unchanged_) return Attempt{};
  if (status_ == 206 && !resumes_)
    return Attempt{Next::kRetry,
                   failure(Code::kUnavailable, "the server sent another part of it than asked for",
                           "fetch it from another server")};
  // The file is shorter than what came of it, or the server has no parts of files.
  if (status_ == 416) resumes_ = false;
  if (status_ != 0 && status_ != 200 && status_ != 206) return refused();
  // A body without a length is whole if curl says so.
  if (part_ && status_ != 0 && (total_ >= 0 ? part_->written() == total_ : end->code == 0))
    return Attempt{};
  return broken(*end);
}

Status FileFetch::begin(const HttpHead& head) {
  status_ = head.status;
  if (status_ == 304 && !part_ && !known_.empty()) unchanged_ = true;
  if (status_ == 206 && !goesOn(head)) resumes_ = false;
  return status_ == 200 ? beginWhole(head) : Status();
}

// Whether the part that comes follows on what is here.
bool FileFetch::goesOn(const HttpHead& head) const {
  if (!part_ || (!etag_.empty() && head.field("etag") != etag_)) return false;
  const std::string range = head.field("content-range");
  const std::string wanted = fmt::format("bytes {}-", part_->written());
  return range.starts_with(wanted) && (total_ < 0 || range.ends_with(fmt::format("/{}", total_)));
}

Status FileFetch::beginWhole(const HttpHead& head) {
  total_ = head.number("content-length");
  LOCKSTEP_TRY(checkSize(total_));
  etag_ = head.field("etag");
  const bool usable = etag_.size() <= 256 && std::all_of(etag_.begin(), etag_.end(),
                                                         [](char c) { return c > ' ' && c < 127; });
  if (!usable) etag_.clear();
  if (part_) return part_->startOver(total_);
  part_.emplace(name_, folder_);
  return part_->create(total_);
}

Status FileFetch::checkSize(std::int64_t bytes) const {
  if (bytes <= request_.max_bytes()) return {};
  return failure(Code::kResourceExhausted,
                 message("it has more than {} bytes", request_.max_bytes()),
                 "set data.max_bytes, if that is right");
}

Status FileFetch::receive(std::string_view bytes) {
  if (status_ == 200 || (status_ == 206 && resumes_)) {
    LOCKSTEP_TRY(checkSize(part_->written() + std::ssize(bytes)));
    LOCKSTEP_TRY(part_->append(bytes));
    furthest_ = std::max(furthest_, part_->written());
    return {};
  }
  told_ += bytes.substr(0, kMostTold - std::min(kMostTold, told_.size()));
  if (told_.size() < kMostTold) return {};
  return makeError(Code::kAborted, "");  // its end does not matter, and may never come
}

FileFetch::Attempt FileFetch::refused() const {
  const std::string code = url_.scheme == "s3" ? s3Code(told_) : std::string();
  const Message why = code.empty()
                          ? message("the server answered with status {}", status_)
                          : message("the server answered with status {}: {}", status_, code);
  if (status_ == 401 || status_ == 403) {
    const Message next =
        url_.scheme == "s3"
            ? message(
                  "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY where the node's agent starts, "
                  "or put them into ~/.aws/credentials there")
            : message("fetch it from a server that asks for no credentials, or by s3://");
    return {Next::kGiveUp, failure(Code::kPermissionDenied, why, next)};
  }
  if (status_ == 408 || status_ == 416 || status_ == 429 || status_ >= 500)
    return {Next::kRetry, failure(Code::kUnavailable, why, "launch again once the server is well")};
  if (url_.scheme == "s3" && (status_ / 100 == 3 || status_ == 400))
    return {Next::kGiveUp,
            failure(Code::kFailedPrecondition, why,
                    "set AWS_REGION or AWS_ENDPOINT_URL_S3 on the node to those of the bucket")};
  return {Next::kGiveUp, failure(Code::kNotFound, why, "correct the URL in the run")};
}

FileFetch::Attempt FileFetch::broken(const HttpEnd& end) const {
  const bool isFinal = std::find(kFinal.begin(), kFinal.end(), end.code) != kFinal.end();
  Message why = end.said.empty() ? message("curl ended with code {}", end.code) : Message(end.said);
  if (part_ && total_ >= 0)
    why = message("the transfer ended after {} of {} bytes: {}", part_->written(), total_, why);
  return {isFinal ? Next::kGiveUp : Next::kRetry,
          failure(Code::kUnavailable, std::move(why),
                  "check whether the node reaches the server: curl -I there")};
}

Error FileFetch::failure(Code code, Message why, Message next) const {
  Error error =
      makeError(code, "cannot fetch the data file {}", specs::withoutQuery(request_.url()));
  error.why = std::move(why);
  error.next = std::move(next);
  return error;
}

bool FileFetch::tell() const {
  node::v1::DataProgress progress;
  progress.set_activity(node::v1::DataProgress::FETCHING);
  progress.set_file(specs::withoutQuery(request_.url()));
  progress.set_bytes_done(part_ ? part_->written() : 0);
  progress.set_bytes_total(std::max<std::int64_t>(0, total_));
  return !observer_ || observer_(progress);
}

Status FileFetch::pause(int failures) const {
  const auto end = std::chrono::steady_clock::now() + kFirstPause * (1 << (failures - 1));
  while (std::chrono::steady_clock::now() < end) {
    if (!tell()) return makeError(Code::kCancelled, "the launch was cancelled");
    std::this_thread::sleep_for(kLook);
  }
  return {};
}

}  // namespace lockstep::agent
