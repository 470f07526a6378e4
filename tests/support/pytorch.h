// PyTorch of this machine.
#pragma once

#include <QProcess>

namespace lockstep::test {

// Whether /usr/bin/python3 has PyTorch with Gloo.
inline bool hasPyTorch() {
  QProcess probe;
  probe.start("/usr/bin/python3",
              {"-c", "import torch.distributed as d; assert d.is_gloo_available()"});
  return probe.waitForFinished(60000) && probe.exitCode() == 0;
}

}  // namespace lockstep::test
