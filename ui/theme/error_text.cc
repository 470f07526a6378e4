#include "ui/theme/error_text.h"

#include <QCoreApplication>
#include <QStringList>

#include "ui/theme/message_text.h"

namespace lockstep::ui {
namespace {
struct Errors {
  Q_DECLARE_TR_FUNCTIONS(lockstep::ui::Errors)
};
}  // namespace

QString codeText(Code code) {
  switch (code) {
    case Code::kOk:
      return Errors::tr("Done");
    case Code::kInvalidArgument:
      return Errors::tr("Invalid input");
    case Code::kNotFound:
      return Errors::tr("Not found");
    case Code::kAlreadyExists:
      return Errors::tr("Already exists");
    case Code::kFailedPrecondition:
      return Errors::tr("Missing prerequisite");
    case Code::kPermissionDenied:
      return Errors::tr("Permission denied");
    case Code::kUnavailable:
      return Errors::tr("Unreachable");
    case Code::kDeadlineExceeded:
      return Errors::tr("Timed out");
    case Code::kResourceExhausted:
      return Errors::tr("Out of space or memory");
    case Code::kDataLoss:
      return Errors::tr("Damaged data");
    case Code::kAborted:
      return Errors::tr("Failure elsewhere in the group");
    case Code::kCancelled:
      return Errors::tr("Cancelled");
    case Code::kInternal:
      return Errors::tr("Internal error");
  }
  return {};
}

ErrorText describeError(const Error& error) {
  ErrorText out;
  QStringList where;
  if (!error.node.empty()) where << Errors::tr("node %1").arg(QString::fromStdString(error.node));
  if (error.rank >= 0) where << Errors::tr("rank %1").arg(error.rank);
  if (error.step >= 0) where << Errors::tr("step %1").arg(error.step);
  out.what = messageText(error.what);
  if (out.what.isEmpty()) out.what = codeText(error.code);
  if (!where.isEmpty()) out.what = Errors::tr("%1: %2").arg(where.join(", "), out.what);
  out.why = !error.why.empty()     ? messageText(error.why)
            : !error.field.empty() ? QString::fromStdString(error.field)
                                   : codeText(error.code);
  if (!error.next.empty()) {
    out.next = Errors::tr("What to do: %1").arg(messageText(error.next));
  }
  return out;
}

}  // namespace lockstep::ui
