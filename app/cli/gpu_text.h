// The GPUs of nodes as text and as lines of JSON.
#pragma once

#include <string>

#include "app/cluster/cluster_session.h"

namespace lockstep::app::cli {

void printGpu(const std::string& node, const GpuLoad& gpu);  // a line of JSON
void printGpus(const ClusterSession& session);               // a table; nothing without GPUs

}  // namespace lockstep::app::cli
