// Most strings are not UTF-8 here, which protobuf would report each time.
#include <google/protobuf/stubs/logging.h>

namespace {

[[maybe_unused]] google::protobuf::LogHandler* const before =
    google::protobuf::SetLogHandler(nullptr);

}  // namespace
