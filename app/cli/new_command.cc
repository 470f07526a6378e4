// new: a run spec to start from, as the studio's dialog for new models writes it.
#include <filesystem>

#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/terminal.h"
#include "app/specs/new_spec.h"
#include "engine/base/file.h"

namespace lockstep::app::cli {
namespace {

void listKinds(bool json) {
  Table table{{"kind", "starts with"}, {false, false}, {}};
  for (const ModelTemplate& kind : modelTemplates()) {
    if (json) JsonLine("kind").add("kind", kind.id).add("help", kind.help).print();
    table.rows.push_back({kind.id, kind.help});
  }
  if (!json) put(stdout, table.text());
}

Status create(const Arguments& arguments) {
  LOCKSTEP_ASSIGN(const ModelTemplate kind, findModelTemplate(arguments.words()[0]));
  if (arguments.words().size() < 2) return invalidArgument("FILE is missing");
  const std::filesystem::path file(arguments.words()[1]);
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored))
    return makeError(Code::kAlreadyExists, "{} exists already", file.string());
  if (kind.dataField == nullptr && arguments.has("data"))
    return invalidArgument("a model of kind {} takes no --data", kind.id);
  const std::string name = arguments.text("name", file.stem().string()),
                    data = arguments.text("data", kind.data);
  if (name.empty()) return invalidArgument("--name is empty");
  if (kind.dataField != nullptr && data.empty()) return invalidArgument("--data is empty");
  std::string example;
  if (kind.example != nullptr) {
    LOCKSTEP_ASSIGN(example, readFile(exampleFile(kind.example)));
  }
  LOCKSTEP_ASSIGN(const std::string text, newRunSpec(kind, std::move(example), name, data));
  return writeFileAtomically(file.string(), text);
}

}  // namespace

int newCommand(const Globals&, const Arguments& arguments) {
  const bool json = arguments.has("json");
  if (arguments.words().empty()) {
    listKinds(json);
    return kSucceeded;
  }
  const Status done = create(arguments);
  if (!done.ok()) {
    report(done.error(), json);
    return exitCodeOf(done.error());
  }
  if (json) JsonLine("created").add("file", arguments.words()[1]).print();
  return kSucceeded;
}

}  // namespace lockstep::app::cli
