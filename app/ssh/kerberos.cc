#include "app/ssh/kerberos.h"

#include <dlfcn.h>
#include <poll.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

namespace lockstep::app {
namespace {

// The C binding of GSS-API (RFC 2744), as far as it is used.
using Number = std::uint32_t;
struct Buffer {
  std::size_t length = 0;
  void* value = nullptr;
};
using Handle = void*;
constexpr Number kContinueNeeded = 1;
constexpr Number kFlags = 2 | 32;  // mutual authentication and integrity, as libssh asks for
constexpr int kMechanismCode = 2;  // for the words of the mechanism rather than of GSS-API

struct Gss {
  Number (*importName)(Number*, Buffer*, Handle, Handle*) = nullptr;
  Number (*initContext)(Number*, Handle, Handle*, Handle, Handle, Number, Number, Handle, Buffer*,
                        Handle*, Buffer*, Number*, Number*) = nullptr;
  Number (*deleteContext)(Number*, Handle*, Buffer*) = nullptr;
  Number (*releaseName)(Number*, Handle*) = nullptr;
  Number (*releaseBuffer)(Number*, Buffer*) = nullptr;
  Number (*displayStatus)(Number*, Number, int, Handle, Number*, Buffer*) = nullptr;
  Handle hostService = nullptr, kerberos = nullptr;
  bool complete = false;
};

// libssh needs the library too, so it is there wherever libssh is.
const Gss& gss() {
  static const Gss loaded = [] {
    Gss out;
    void* library = ::dlopen("libgssapi_krb5.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library) return out;
    bool found = true;
    const auto load = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(::dlsym(library, name));
      found = found && function;
    };
    load(out.importName, "gss_import_name");
    load(out.initContext, "gss_init_sec_context");
    load(out.deleteContext, "gss_delete_sec_context");
    load(out.releaseName, "gss_release_name");
    load(out.releaseBuffer, "gss_release_buffer");
    load(out.displayStatus, "gss_display_status");
    Handle *service = nullptr, *mechanism = nullptr;
    load(service, "GSS_C_NT_HOSTBASED_SERVICE");
    load(mechanism, "gss_mech_krb5");
    out.complete = found;
    if (found) out.hostService = *service, out.kerberos = *mechanism;
    return out;
  }();
  return loaded;
}

struct Fetch {
  Wake done;
  std::mutex mutex;
  bool ok = false;
  std::string words;
};

void fetch(const std::shared_ptr<Fetch>& result, std::string service) {
  const Gss& api = gss();
  Number minor = 0, ignored = 0;
  Handle name = nullptr, context = nullptr;
  Buffer text{service.size(), service.data()}, token;
  Number major = api.importName(&minor, &text, api.hostService, &name);
  if (major == 0)
    major = api.initContext(&minor, nullptr, &context, name, api.kerberos, kFlags, 0, nullptr,
                            nullptr, nullptr, &token, nullptr, nullptr);
  const bool ok = major == 0 || major == kContinueNeeded;
  std::string words;
  if (!ok) {
    Number more = 0;
    Buffer said;
    if (api.displayStatus(&ignored, minor, kMechanismCode, api.kerberos, &more, &said) == 0)
      words.assign(static_cast<const char*>(said.value), said.length);
    api.releaseBuffer(&ignored, &said);
  }
  api.releaseBuffer(&ignored, &token);
  if (context) api.deleteContext(&ignored, &context, nullptr);
  if (name) api.releaseName(&ignored, &name);
  const std::lock_guard lock(result->mutex);
  result->ok = ok;
  result->words = words;
  result->done.notify();
}

}  // namespace

Status fetchHostTicket(const std::string& host, std::chrono::milliseconds limit, const Wake& wake,
                       const std::function<bool()>& cancelled) {
  using Clock = std::chrono::steady_clock;
  if (!gss().complete) return makeError(Code::kNotFound, "there is no Kerberos library");
  const auto deadline = Clock::now() + limit;
  auto result = std::make_shared<Fetch>();
  std::thread(fetch, result, "host@" + host).detach();
  for (;;) {
    if (cancelled()) return makeError(Code::kCancelled, "connecting to {} was cancelled", host);
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0)
      return makeError(Code::kDeadlineExceeded, "Kerberos does not answer within {} ms",
                       limit.count());
    pollfd fds[] = {{result->done.fd(), POLLIN, 0}, {wake.fd(), POLLIN, 0}};
    ::poll(fds, 2, static_cast<int>(left) + 1);
    if (fds[1].revents) wake.clear();
    if (fds[0].revents) break;
  }
  const std::lock_guard lock(result->mutex);
  if (result->ok) return {};
  Error error = makeError(Code::kPermissionDenied, "there is no Kerberos ticket for {}", host);
  error.why = result->words;
  error.next = "get one: kinit";
  return error;
}

}  // namespace lockstep::app
