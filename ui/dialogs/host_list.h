// The names a person gave in an ssh_config: what the "add host" dialog offers.
#pragma once

#include <QStringList>

namespace lockstep::ui {

// Host names without wildcards, Include followed, in order; `file` "" : ~/.ssh/config.
QStringList sshConfigHosts(const QString& file);

}  // namespace lockstep::ui
