// What runs leave behind on hosts, looked for from outside the product.
#pragma once

#include <QStringList>
#include <string>
#include <vector>

#include "tests/cluster/hosts.h"

namespace lockstep::test {

class LeftBehind {
 public:
  LeftBehind(Hosts& hosts, int count, std::vector<std::string> workdirs)
      : hosts_(hosts), count_(count), workdirs_(std::move(workdirs)) {}
  // Private keys of runs in files: of runs that have ended there are none.
  QStringList keys() const;
  // Besides those: runs' folders and processes, sockets nobody serves, leases of processes that are
  // gone, shared memory. Nothing where all runs have been deleted.
  QStringList all() const;

 private:
  QStringList sockets(const std::string& workdir) const;
  QStringList leases(const std::string& workdir) const;
  QStringList processes() const;
  Hosts& hosts_;
  const int count_;
  const std::vector<std::string> workdirs_;
};

}  // namespace lockstep::test
