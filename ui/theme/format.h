// Formats numbers in the studio's locale. Not for files and protocols.
#pragma once

#include <QString>
#include <cstdint>
#include <string>

namespace lockstep::ui {

QString formatBytes(double bytes);          // "1.5 MB" (powers of 1000)
QString formatRate(double bytesPerSecond);  // "1.5 MB/s"
QString formatSeconds(double seconds);      // "1.25 ms", "3.1 s"
// For ticks of an axis: in the unit of its largest value, with the digits that tell two ticks
// apart.
QString formatTick(double seconds, double largest, double step);  // "0.5 ms"
QString formatDuration(double seconds);                           // "0:42", "1:02:03"
QString timeLeftText(double seconds);                             // "about 0:42 left"; "": negative
QString formatPercent(double fraction, int digits);               // "42 %"
QString formatCount(std::int64_t value);                          // grouped: "101,770"
QString formatFlops(double flops);                                // "1.2 GFLOP"
QString formatEnergy(double joules);                              // "12.3 kJ", "1.24 kWh"
QString formatCarbon(double grams);                               // "310 g", "1.25 kg"
QString formatMoney(double amount, const std::string& currency);  // "0.42 EUR"
// So many significant digits, or all before the point: "0.123", "1,234"; "—" where not finite.
QString formatNumber(double value, int digits = 4);
QString metricName(const std::string& metric);  // "Accuracy"
// of accuracy "42.1 %", of AUC "0.781"
QString formatMetric(const std::string& metric, double value, int digits);
QString formatPath(const QString& path);  // "~/lab.yaml"
QString asFileName(const QString& name);  // "gpt/2" → "gpt-2"; "model" of none
QString formatWhen(std::int64_t wallNs);  // local date and time

}  // namespace lockstep::ui
