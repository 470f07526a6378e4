// Precompiled for the ui target only.
#pragma once
#include "ui/plots/custom_plot.h"
