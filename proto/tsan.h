// Included before all else with the thread sanitizer. Some headers of Protobuf and abseil give
// their types other members and other calls in such a build; the packaged libraries are built
// without.
#pragma once

#include <string>  // the standard library keeps its annotations

#pragma push_macro("__SANITIZE_THREAD__")
#undef __SANITIZE_THREAD__
#include <absl/base/config.h>
#include <google/protobuf/map_field.h>
#pragma pop_macro("__SANITIZE_THREAD__")
