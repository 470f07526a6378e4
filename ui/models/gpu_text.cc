#include "ui/models/gpu_text.h"

#include <QCoreApplication>
#include <QLocale>

#include "ui/theme/format.h"
#include "ui/theme/message_text.h"

namespace lockstep::ui {
namespace {

struct Gpu {
  Q_DECLARE_TR_FUNCTIONS(lockstep::ui::Gpu)
};

QString powerText(const app::GpuLoad& gpu) {
  if (!gpu.power) return {};
  if (!gpu.powerLimit) return formatWatts(*gpu.power);
  return Gpu::tr("%1 of %2")
      .arg(formatWatts(*gpu.power).section(' ', 0, 0), formatWatts(*gpu.powerLimit));
}

QString rateText(const std::optional<double>& rate) { return rate ? formatRate(*rate) : QString(); }

}  // namespace

QString clockText(const std::optional<double>& now, const std::optional<double>& most) {
  if (!now) return {};
  const QLocale locale;
  if (!most) return Gpu::tr("%1 MHz").arg(locale.toString(*now, 'f', 0));
  return Gpu::tr("%1 of %2 MHz").arg(locale.toString(*now, 'f', 0), locale.toString(*most, 'f', 0));
}

QString formatWatts(double watts) { return QLocale().toString(watts, 'f', 0) + " W"; }
QString formatCelsius(double degrees) {
  return QLocale().toString(degrees, 'f', 0) + QString::fromUtf8(" °C");
}

QString formatShare(double used, double total) {
  const QString all = formatBytes(total);
  QString part = formatBytes(used);
  if (part.section(' ', 1) == all.section(' ', 1)) part = part.section(' ', 0, 0);
  return Gpu::tr("%1 of %2").arg(part, all);
}

QString gpuTroubleText(const app::GpuLoad& gpu, app::GpuTrouble trouble) {
  return messageText(app::troubleText(gpu, trouble));
}

Tone gpuTone(const app::GpuLoad& gpu) {
  const auto troubles = app::troublesOf(gpu);
  if (troubles.empty()) return Tone::kGood;
  return app::isBad(troubles.front()) ? Tone::kBad : Tone::kWarning;
}

QString gpuNotes(const app::GpuLoad& gpu) {
  QStringList out;
  for (const app::GpuTrouble trouble : app::troublesOf(gpu)) out << gpuTroubleText(gpu, trouble);
  return out.join(", ");
}

QStringList gpuFigures(const app::GpuLoad& gpu) {
  QStringList out;
  if (gpu.utilisation) out << formatPercent(*gpu.utilisation, 0);
  if (gpu.memoryUsed && gpu.memoryTotal) out << formatShare(*gpu.memoryUsed, *gpu.memoryTotal);
  if (gpu.temperature) out << formatCelsius(*gpu.temperature);
  if (gpu.power) out << powerText(gpu);
  return out;
}

QVector<GpuDetail> gpuDetails(const app::GpuLoad& gpu) {
  QVector<GpuDetail> out;
  const auto add = [&](const QString& name, const QString& value) {
    if (!value.isEmpty()) out << GpuDetail{name, value};
  };
  if (gpu.utilisation) add(Gpu::tr("Busy"), formatPercent(*gpu.utilisation, 0));
  if (gpu.memoryUsed && gpu.memoryTotal)
    add(Gpu::tr("Memory"), formatShare(*gpu.memoryUsed, *gpu.memoryTotal));
  if (gpu.memoryUtilisation) add(Gpu::tr("Memory busy"), formatPercent(*gpu.memoryUtilisation, 0));
  if (gpu.temperature) add(Gpu::tr("Temperature"), formatCelsius(*gpu.temperature));
  add(Gpu::tr("Power"), powerText(gpu));
  add(Gpu::tr("SM clock"), clockText(gpu.smClock, gpu.smClockMax));
  add(Gpu::tr("Memory clock"), clockText(gpu.memoryClock, gpu.memoryClockMax));
  if (gpu.performanceState)
    add(Gpu::tr("Performance state"), QString("P%1").arg(*gpu.performanceState));
  if (gpu.pcieWidth && gpu.pcieWidthMax && gpu.pcieGeneration && gpu.pcieGenerationMax) {
    add(Gpu::tr("PCIe link"), Gpu::tr("%1 of %2 lanes, generation %3 of %4")
                                  .arg(*gpu.pcieWidth)
                                  .arg(*gpu.pcieWidthMax)
                                  .arg(*gpu.pcieGeneration)
                                  .arg(*gpu.pcieGenerationMax));
  } else if (gpu.pcieWidth && gpu.pcieWidthMax) {
    add(Gpu::tr("PCIe link"), Gpu::tr("%1 of %2 lanes").arg(*gpu.pcieWidth).arg(*gpu.pcieWidthMax));
  }
  add(Gpu::tr("PCIe in"), rateText(gpu.pcieIn));
  add(Gpu::tr("PCIe out"), rateText(gpu.pcieOut));
  if (gpu.nvlinks)
    add(Gpu::tr("NVLinks"),
        Gpu::tr("%1 of %2").arg(gpu.nvlinksActive.value_or(0)).arg(*gpu.nvlinks));
  add(Gpu::tr("NVLink in"), rateText(gpu.nvlinkIn));
  add(Gpu::tr("NVLink out"), rateText(gpu.nvlinkOut));
  if (gpu.eccCorrected && gpu.eccUncorrected) {
    add(Gpu::tr("Memory errors"),
        Gpu::tr("%1 corrected, %2 not")
            .arg(formatCount(static_cast<std::int64_t>(*gpu.eccCorrected)),
                 formatCount(static_cast<std::int64_t>(*gpu.eccUncorrected))));
  }
  if (gpu.xids.value_or(0) > 0) {
    add(Gpu::tr("Driver errors"), Gpu::tr("%1, the last Xid %2")
                                      .arg(formatCount(static_cast<std::int64_t>(*gpu.xids)))
                                      .arg(gpu.lastXid));
  }
  return out;
}

}  // namespace lockstep::ui
