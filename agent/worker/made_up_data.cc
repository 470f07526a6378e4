#include "agent/worker/made_up_data.h"

#include <algorithm>
#include <filesystem>

#include "engine/ir/model_graph.h"

namespace lockstep::agent {
namespace {

const plan::Buffer* inputOf(const plan::Body& body, std::string_view name) {
  for (const plan::Buffer& buffer : body.buffers)
    if (buffer.kind == plan::BufferKind::kInput && buffer.name == name) return &buffer;
  return nullptr;
}

// The number of classes the plan's losses expect.
std::int32_t classesOf(const plan::Plan& plan) {
  for (const plan::Program& program : plan.programs)
    for (const plan::Body& body : program.bodies)
      for (const plan::Step& step : body.steps) {
        const bool divided = step.op == ir::Op::kXentTerms;  // over the ranks of its axis
        if ((step.op != ir::Op::kSoftmaxXent && !divided) || step.inputs.empty()) continue;
        const Shape& shape = body.buffers[static_cast<std::size_t>(step.inputs[0])].type.shape;
        const int ranks = divided ? plan.mesh.axisSize(ir::textAttr(step.attrs, "axis")) : 1;
        if (!shape.empty()) return static_cast<std::int32_t>(shape.back()) * ranks;
      }
  return 2;
}

// The rows of the table that the plan's embeddings look up, on servers the rows of all.
std::int64_t categoriesOf(const plan::Plan& plan) {
  for (const plan::Program& program : plan.programs)
    for (const plan::Body& body : program.bodies)
      for (const plan::Step& step : body.steps) {
        if (step.op == ir::Op::kUnique) return ir::listAttr(step.attrs, "cuts").back();
        if (step.op == ir::Op::kEmbedding)
          return body.buffers[static_cast<std::size_t>(step.inputs[0])].type.shape[0];
      }
  return 1;
}

}  // namespace

Result<MadeUp> madeUpData(const plan::Plan& plan, int rank, std::int64_t size, std::int64_t bytes) {
  std::vector<data::Field> fields;
  for (const char* name : {"x", "categories", "label"}) {
    const plan::Body* body = plan.reader(name, rank);
    const plan::Buffer* buffer = body == nullptr ? nullptr : inputOf(*body, name);
    if (buffer == nullptr || buffer->type.shape.empty()) continue;
    data::Field field;
    field.name = name;
    field.dtype = buffer->type.dtype;
    field.shape.assign(buffer->type.shape.begin() + 1, buffer->type.shape.end());
    fields.push_back(std::move(field));
  }
  return MadeUp(std::move(fields), size, classesOf(plan), categoriesOf(plan), bytes);
}

std::unique_ptr<data::Dataset> tableHere(const node::v1::WorkerStart& start) {
  constexpr std::uintmax_t kMostBytes = std::uintmax_t{1} << 30;
  if (start.spec().data().format() != "table") return nullptr;
  const auto path = start.data_paths().find("train.table");
  std::error_code unknown;
  if (path == start.data_paths().end() ||
      std::filesystem::file_size(path->second, unknown) > kMostBytes || unknown)
    return nullptr;
  auto data = openData(start, true);
  return data.ok() && (*data)->size() > 0 ? std::move(*data) : nullptr;
}

}  // namespace lockstep::agent
