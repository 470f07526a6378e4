// Whether the tests run under a sanitizer, where figures of speed say nothing.
#pragma once

namespace lockstep::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace lockstep::test
