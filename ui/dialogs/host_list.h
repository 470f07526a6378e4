// The host names of an ssh_config, for the "add host" dialog.
#pragma once

#include <QStringList>

namespace lockstep::ui {

// Returns the Host names without wildcards, in order, following Include; `file` "": ~/.ssh/config.
QStringList sshConfigHosts(const QString& file);

}  // namespace lockstep::ui
