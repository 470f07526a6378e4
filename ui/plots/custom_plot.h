// QCustomPlot's header needs Qt's stock keywords, which this tree switches off: here they are
// defined round it alone.
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
