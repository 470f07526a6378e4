// The version of TLS between a run's supervisors.
#pragma once

namespace lockstep::agent {

// From the first call on, connections that this process makes or accepts need TLS 1.3. gRPC 1.51
// has no setting for that, and heeds OpenSSL's. Idempotent, thread-safe.
void requireTls13();

}  // namespace lockstep::agent
