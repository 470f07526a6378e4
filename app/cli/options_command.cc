// `lockstep options`: the option table as text, Markdown, JSON lines or paths.
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>

#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/terminal.h"

namespace lockstep::app::cli {
namespace {

struct Row {
  std::string path;  // "training.optimizer.kind", "model.layers[].dense.units"
  FieldInfo field;
};

bool isMessage(const FieldInfo& field) {
  return field.type == FieldType::kMessage || field.type == FieldType::kMessageList;
}

void addRows(SpecKind kind, const std::string& path, std::vector<Row>& out) {
  for (FieldInfo& field : SpecText::fields(kind, path)) {
    const std::string list = field.type == FieldType::kMessageList ? "[]" : "";
    const std::string below = (path.empty() ? "" : path + ".") + field.name + list;
    const bool message = isMessage(field);
    out.push_back({below, std::move(field)});
    if (message) addRows(kind, below, out);
  }
}

bool mentions(const std::string& text, const std::string& word) {
  const auto found = std::search(
      text.begin(), text.end(), word.begin(), word.end(),
      [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
  return found != text.end();
}

// "sgd, adam or adagrad", "1 to 4096 ranks", "text"
std::string valuesText(const FieldInfo& field) {
  if (!field.choices.empty()) return fmt::format("{}", fmt::join(field.choices, ", "));
  const std::string unit = field.unit.empty() ? "" : " " + field.unit;
  const auto range = [&]() -> std::string {
    if (field.min && field.max) return fmt::format("{} to {:.0f}", *field.min, *field.max);
    if (field.min && field.below && *field.below < 1e9)
      return fmt::format("{} to less than {}", *field.min, *field.below);
    if (field.min) return fmt::format("at least {}", *field.min);
    return "number";
  };
  switch (field.type) {
    case FieldType::kText:
      return field.file ? "file" : "text";
    case FieldType::kTextList:
      return "list of texts";
    case FieldType::kInteger:
      return (field.min || field.max ? range() : "whole number") + unit;
    case FieldType::kNumber:
      return range() + unit;
    case FieldType::kIntegerList:
    case FieldType::kNumberList:
      return "list of numbers";
    case FieldType::kBoolean:
      return "true, false";
    case FieldType::kMap:
      return "map";
    default:
      return "";
  }
}

std::string defaultText(const FieldInfo& field) {
  if (field.type == FieldType::kBoolean && field.unset.english.empty()) return "false";
  const std::string with = field.usedWith.empty() ? "" : fmt::format(" (with {})", field.usedWith);
  return (field.needed ? "required" : field.unset.english) + with;
}

std::string markdown(const std::vector<Row>& rows) {
  std::string out = "| option | values | default | |\n|---|---|---|---|\n";
  for (const Row& row : rows)
    out += fmt::format("| `{}` | {} | {} | {} |\n", row.path, valuesText(row.field),
                       defaultText(row.field), row.field.help.english);
  return out;
}

void printJson(const Row& row) {
  JsonLine line("option");
  line.add("path", row.path).add("values", valuesText(row.field));
  line.add("default", defaultText(row.field)).add("required", row.field.needed);
  line.add("unit", row.field.unit).add("help", row.field.help.english);
  line.print();
}

void printText(const std::vector<Row>& rows) {
  const Style style(wantsColour(STDOUT_FILENO));
  std::string out;
  for (const Row& row : rows) {
    out += style.bold(row.path) + "\n";
    std::string facts = valuesText(row.field);
    if (const std::string unset = defaultText(row.field); !unset.empty())
      facts += (facts.empty() ? "" : "; ") +
               (unset.starts_with("required") ? unset : "default " + unset);
    if (!row.field.help.english.empty()) out += "    " + row.field.help.english + "\n";
    if (!facts.empty()) out += "    " + style.dim(facts) + "\n";
  }
  put(stdout, out);
}

}  // namespace

int optionsCommand(const Globals&, const Arguments& arguments) {
  std::vector<Row> rows;
  addRows(arguments.has("cluster") ? SpecKind::kCluster : SpecKind::kRun, "", rows);
  if (!arguments.words().empty()) {
    const std::string& wanted = arguments.words().front();
    std::erase_if(rows, [&](const Row& row) {
      return !mentions(row.path, wanted) && !mentions(row.field.label.english, wanted) &&
             !mentions(row.field.help.english, wanted);
    });
    if (rows.empty()) {
      const bool cluster = arguments.has("cluster");
      Error error = invalidArgument("no option of a {} spec mentions {}",
                                    cluster ? "cluster" : "run", wanted);
      error.next = cluster ? message("lockstep options --cluster lists them")
                           : message("lockstep options lists them");
      report(error, arguments.has("json"));
      return kBadInput;
    }
  }
  if (arguments.has("json")) {
    for (const Row& row : rows) printJson(row);
  } else if (arguments.has("paths")) {
    for (const Row& row : rows)
      if (!isMessage(row.field)) put(stdout, row.path + "\n");
  } else if (arguments.has("markdown")) {
    std::erase_if(rows, [](const Row& row) { return isMessage(row.field); });
    put(stdout, markdown(rows));
  } else {
    printText(rows);
  }
  return kSucceeded;
}

std::vector<std::string> optionPaths(SpecKind kind) {
  std::vector<Row> rows;
  addRows(kind, "", rows);
  std::vector<std::string> out;
  for (const Row& row : rows)
    if (!isMessage(row.field)) out.push_back(row.path);
  return out;
}

}  // namespace lockstep::app::cli
