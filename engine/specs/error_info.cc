#include "engine/specs/error_info.h"

namespace lockstep::specs {

run::v1::ErrorInfo toInfo(const Error& error) {
  run::v1::ErrorInfo info;
  info.set_code(std::string(codeName(error.code)));
  info.set_what(error.what);
  info.set_why(error.why);
  info.set_next(error.next);
  info.set_node(error.node);
  info.set_rank(error.rank);
  info.set_step(error.step);
  return info;
}

Error fromInfo(const run::v1::ErrorInfo& info) {
  Error error;
  error.code = codeFromName(info.code()).value_or(Code::kInternal);
  error.what = info.what();
  error.why = info.why();
  error.next = info.next();
  error.node = info.node();
  error.rank = info.rank();
  error.step = info.step();
  return error;
}

}  // namespace lockstep::specs
