#include "app/core/http_post.h"

#include <curl/curl.h>
#include <signal.h>

#include <algorithm>
#include <ctime>
#include <memory>

namespace lockstep::app {
namespace {

constexpr std::size_t kMostBody = std::size_t{64} << 10;

std::size_t keepBody(char* bytes, std::size_t size, std::size_t count, void* to) {
  auto& body = *static_cast<std::string*>(to);
  body.append(bytes, std::min(size * count, kMostBody - body.size()));
  return size * count;
}

int stopWanted(void* stop, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<const std::stop_token*>(stop)->stop_requested() ? 1 : 0;
}

// A connection that its server closes raises SIGPIPE, which ends a program that does not handle it.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutSigpipe() {
    const timespec now{};
    while (sigtimedwait(&pipe_, nullptr, &now) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t pipe_{}, before_{};
};

using Headers = std::unique_ptr<curl_slist, void (*)(curl_slist*)>;

// Null if memory ends.
Headers headersOf(const HttpPost& post) {
  Headers out(curl_slist_append(nullptr, "Expect:"), curl_slist_free_all);
  for (const std::string& header : post.headers) {
    curl_slist* const longer = out ? curl_slist_append(out.get(), header.c_str()) : nullptr;
    if (longer == nullptr) return {nullptr, curl_slist_free_all};
  }
  return out;
}

Status failureOf(CURLcode code, std::chrono::milliseconds limit) {
  switch (code) {
    case CURLE_OK:
      return {};
    case CURLE_ABORTED_BY_CALLBACK:
      return makeError(Code::kCancelled, "the call was cancelled");
    case CURLE_OPERATION_TIMEDOUT:
      return makeError(Code::kDeadlineExceeded, "the server did not answer within {} s",
                       std::chrono::duration<double>(limit).count());
    default:
      return makeError(Code::kUnavailable, "{}", curl_easy_strerror(code));
  }
}

}  // namespace

Result<HttpAnswer> httpPost(const HttpPost& post, const std::stop_token& stop) {
  static const CURLcode initialized = curl_global_init(CURL_GLOBAL_DEFAULT);
  const std::unique_ptr<CURL, void (*)(CURL*)> handle(curl_easy_init(), curl_easy_cleanup);
  const Headers headers = headersOf(post);
  if (initialized != CURLE_OK || !handle || !headers)
    return makeError(Code::kResourceExhausted, "libcurl cannot be used");
  HttpAnswer out;
  CURL* const curl = handle.get();
  curl_easy_setopt(curl, CURLOPT_URL, post.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "lockstep");
  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(post.body.size()));
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, post.body.data());
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(post.limit.count()));
  curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L);  // or it would wait for a name server
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &keepBody);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &out.body);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &stopWanted);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &stop);
  const CURLcode done = [&] {
    const WithoutSigpipe guard;
    return curl_easy_perform(curl);
  }();
  LOCKSTEP_TRY(failureOf(done, post.limit));
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  out.status = static_cast<int>(status);
  return out;
}

}  // namespace lockstep::app
