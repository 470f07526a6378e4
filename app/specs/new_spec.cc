#include "app/specs/new_spec.h"

#include <fmt/ranges.h>

#include <string_view>
#include <utility>

#include "app/specs/spec_text.h"

namespace lockstep::app {

const std::vector<ModelTemplate>& modelTemplates() {
  static const std::vector<ModelTemplate> kinds{
      {"mlp", "fashion-mlp", nullptr, "", "MLP",
       "Dense layers. Starts with the Fashion-MNIST images."},
      {"cnn", "fashion-cnn", nullptr, "", "CNN",
       "Convolutions and pooling. Starts with the Fashion-MNIST images."},
      {"resnet", "fashion-resnet", nullptr, "", "ResNet",
       "Residual blocks with batch norm. Starts with the Fashion-MNIST images."},
      {"gpt", "gpt-tiny", "text", "/usr/share/common-licenses/GPL-3", "GPT",
       "Transformer blocks that predict the next byte of a text."},
      {"ctr", "ctr", "table", "ctr.tsv", "CTR",
       "Embedding tables and dense layers that predict clicks."},
      {"program", "ddp", nullptr, "", "Own program",
       "A program in PyTorch, TensorFlow, JAX or anything else, as it is. Expects "
       "train.py beside the new file."},
      {"empty", nullptr, nullptr, "", "Empty",
       "No layers: build the model in the form or as text."},
  };
  return kinds;
}

Result<ModelTemplate> findModelTemplate(const std::string& id) {
  std::vector<std::string_view> ids;
  for (const ModelTemplate& kind : modelTemplates()) {
    if (id == kind.id) return kind;
    ids.emplace_back(kind.id);
  }
  Error error = invalidArgument("there is no kind of model '{}'", id);
  error.next = message("expected {}", fmt::join(ids, ", "));
  return error;
}

Result<std::string> newRunSpec(const ModelTemplate& kind, std::string example,
                               const std::string& name, const std::string& data) {
  std::string text = kind.example == nullptr ? "version: 1\n" : std::move(example);
  // of the example, not of this model
  while (text.starts_with('#')) text.erase(0, text.find('\n') + 1);
  std::vector<std::pair<std::string, std::string>> fields;
  if (std::string_view(kind.id) == "program") {
    fields = {{"workload.name", name}, {"workload.code", ""}};  // the new file's folder
  } else {
    fields.emplace_back("model.name", name);
    if (kind.dataField != nullptr) {
      for (const char* part : {"train", "evaluate"})
        fields.emplace_back(fmt::format("data.{}.{}", part, kind.dataField), data);
      // A file of this machine is brought to the nodes that lack it.
      fields.emplace_back("data.copy_to_nodes", "true");
    }
  }
  for (const auto& [path, value] : fields) {
    LOCKSTEP_ASSIGN(const TextEdit edit,
                    SpecText::parse(text, {}, SpecKind::kRun).edit(path, value));
    text = edit.applied(text);
  }
  return text;
}

}  // namespace lockstep::app
