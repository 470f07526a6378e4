// Includes QCustomPlot's header, which needs Qt's keyword macros; they are disabled elsewhere.
#pragma once

#include <QtPrintSupport/QtPrintSupport>
#include <QtWidgets/QtWidgets>

#define signals Q_SIGNALS
#define slots Q_SLOTS
#define emit
#define foreach Q_FOREACH
#include <qcustomplot.h>
#undef signals
#undef slots
#undef emit
#undef foreach
