// Texts about a GPU, and their tone.
#pragma once

#include <QString>
#include <QStringList>

#include "app/cluster/gpu_load.h"
#include "ui/theme/theme.h"

namespace lockstep::ui {

QString gpuTroubleText(const app::GpuLoad& gpu, app::GpuTrouble trouble);
Tone gpuTone(const app::GpuLoad& gpu);
// Problems: "slowed down for heat, 8 of 16 PCIe lanes"; empty if there are none.
QString gpuNotes(const app::GpuLoad& gpu);
// Summary: "93 % · 71 °C · 612 of 700 W …".
QStringList gpuFigures(const app::GpuLoad& gpu);
// Name and value of every reported property.
struct GpuDetail {
  QString name, value;
};
QVector<GpuDetail> gpuDetails(const app::GpuLoad& gpu);

// "1,410 of 1,980 MHz"; empty: not known.
QString clockText(const std::optional<double>& now, const std::optional<double>& most);
QString formatWatts(double watts);               // "612 W"
QString formatCelsius(double degrees);           // "71 °C"
QString formatShare(double used, double total);  // "5.20 of 16.0 GB"

}  // namespace lockstep::ui
