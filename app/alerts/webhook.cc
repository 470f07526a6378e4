#include "app/alerts/webhook.h"

#include <curl/curl.h>
#include <signal.h>

#include <ctime>
#include <memory>

#include "app/alerts/alert_rules.h"

namespace lockstep::app {
namespace {

std::size_t dropBody(char*, std::size_t size, std::size_t count, void*) { return size * count; }

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

Error webhookError(Code code, const std::string& url, Message why) {
  Error error = makeError(code, "the webhook {} was not called", webhookHost(url));
  error.why = std::move(why);
  error.next = "see actions.webhook of the alert rules";
  return error;
}

}  // namespace

Status postJson(const std::string& url, const std::string& json, std::chrono::milliseconds limit,
                const std::stop_token& stop) {
  static const CURLcode initialized = curl_global_init(CURL_GLOBAL_DEFAULT);
  const std::unique_ptr<CURL, void (*)(CURL*)> handle(curl_easy_init(), curl_easy_cleanup);
  const std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers(
      curl_slist_append(nullptr, "Content-Type: application/json"), curl_slist_free_all);
  if (initialized != CURLE_OK || !handle || !headers)
    return webhookError(Code::kResourceExhausted, url, "libcurl cannot be used");
  CURL* const curl = handle.get();
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "lockstep");
  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(json.size()));
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, json.data());
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(limit.count()));
  curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L);  // or it would wait for a name server
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &dropBody);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &stopWanted);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &stop);
  const CURLcode done = [&] {
    const WithoutSigpipe guard;
    return curl_easy_perform(curl);
  }();
  if (done == CURLE_ABORTED_BY_CALLBACK)
    return webhookError(Code::kCancelled, url, "the call was cancelled");
  if (done == CURLE_OPERATION_TIMEDOUT)
    return webhookError(Code::kDeadlineExceeded, url,
                        message("the server did not answer within {} s",
                                std::chrono::duration<double>(limit).count()));
  if (done != CURLE_OK) return webhookError(Code::kUnavailable, url, curl_easy_strerror(done));
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  if (status >= 300)
    return webhookError(Code::kUnavailable, url,
                        message("the server answered with status {}", status));
  return {};
}

}  // namespace lockstep::app
