// Kerberos tickets for hosts. libssh asks for one in the middle of a call that cannot be
// interrupted; asked for beforehand, here, it lies in the ticket cache by then.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "app/ssh/wake.h"
#include "engine/base/status.h"

namespace lockstep::app {

// Gets a ticket for host@`host` into the cache of this user, through libgssapi_krb5. `wake` is
// looked at together with `cancelled`. The work is done by a thread that is left behind where it
// takes longer than the limit. Errors: kPermissionDenied (no ticket to begin with, or none for this
// host; why: Kerberos' words), kDeadlineExceeded, kCancelled, kNotFound (no library).
Status fetchHostTicket(const std::string& host, std::chrono::milliseconds limit, const Wake& wake,
                       const std::function<bool()>& cancelled);

}  // namespace lockstep::app
