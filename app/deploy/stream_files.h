// Uploads the files of a bundle as the input of commands, where there is no SFTP.
#pragma once

#include <string>

#include "app/deploy/deploy.h"

namespace lockstep::app {

// Several files go to one command, which divides them with `head`. `folder` is made. Errors:
// kUnavailable with what the command said; those of Host::exec.
Status streamFiles(Host& host, const Bundle& bundle, const std::string& folder,
                   const DeployOptions& options);

}  // namespace lockstep::app
