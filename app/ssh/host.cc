#include "app/ssh/host.h"

namespace lockstep::app {

Result<ExecResult> Host::script(const std::string& text, ExecOptions options,
                                std::stop_token stop) {
  LOCKSTEP_CHECK(options.input.empty(), "a script is the input");
  options.input = text;
  return exec("sh -s", std::move(options), std::move(stop));
}

}  // namespace lockstep::app
