// Whether the tests run under a sanitizer, where figures of speed say nothing.
#pragma once

namespace lockstep::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
// For environments with LD_PRELOAD that do not inherit the test's.
inline constexpr const char* kPreloads = kSanitized ? "ASAN_OPTIONS=verify_asan_link_order=0 " : "";

}  // namespace lockstep::test
