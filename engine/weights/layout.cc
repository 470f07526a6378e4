#include "engine/weights/layout.h"

#include <cmath>
#include <cstring>

#include "engine/base/float16.h"

namespace lockstep::weights {
namespace {

using models::Layer;

template <typename T>
T load(const std::byte* from) {
  T out;
  std::memcpy(&out, from, sizeof out);
  return out;
}

double valueAt(DType dtype, const std::byte* from) {
  switch (dtype) {
    case DType::kF64:
      return load<double>(from);
    case DType::kBf16:
      return static_cast<double>(load<Bf16>(from));
    case DType::kF16:
      return static_cast<double>(load<F16>(from));
    default:
      return static_cast<double>(load<float>(from));
  }
}

template <typename T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

void storeAt(DType dtype, std::byte* to, double value) {
  switch (dtype) {
    case DType::kF64:
      return store(to, value);
    case DType::kBf16:
      return store(to, Bf16::of(value));
    case DType::kF16:
      return store(to, F16::of(value));
    default:
      return store(to, static_cast<float>(value));
  }
}

// Calls copy(element here, element in the file, count) for each contiguous run.
template <typename Copy>
void forRuns(const Stored& stored, const Shape& shape, const Copy& copy) {
  const std::int64_t count = elementCount(shape);
  if (count == 0) return;
  const std::int64_t columns = shape.empty() ? 1 : shape.back(), rows = count / columns;
  switch (stored.layout) {
    case Layout::kSame:
      copy(0, 0, count);
      return;
    case Layout::kTransposed:
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t column = 0; column < columns; ++column)
          copy(row * columns + column, column * rows + row, 1);
      return;
    case Layout::kQkv: {
      const std::int64_t d = columns / 3 / stored.heads;
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t part = 0; part < 3; ++part)
          for (std::int64_t head = 0; head < stored.heads; ++head)
            copy(row * columns + (head * 3 + part) * d,
                 row * columns + (part * stored.heads + head) * d, d);
    }
  }
}

std::size_t bytes(std::int64_t elements, DType dtype) {
  return static_cast<std::size_t>(elements) * sizeOf(dtype);
}

Error notGpt2(std::size_t index, Message why) {
  Error error = invalidArgument("the model has no names of a GPT-2");
  error.why = std::move(why);
  error.field = fmt::format("layers[{}]", index);
  return error;
}

void addBlock(Names& out, const Layer& layer, std::int64_t number) {
  const std::string block = fmt::format("h.{}.", number);
  for (const auto& [ours, theirs] : {std::pair("norm1", "ln_1"), std::pair("norm2", "ln_2")}) {
    out.stored[fmt::format("{}.{}.gain", layer.name, ours)] = {block + theirs + ".weight"};
    out.stored[fmt::format("{}.{}.bias", layer.name, ours)] = {block + theirs + ".bias"};
  }
  for (const auto& [ours, theirs] :
       {std::pair("qkv", "attn.c_attn"), std::pair("proj", "attn.c_proj"),
        std::pair("up", "mlp.c_fc"), std::pair("down", "mlp.c_proj")})
    for (const std::string part : {".weight", ".bias"}) {
      Stored& stored = out.stored[fmt::format("{}.{}{}", layer.name, ours, part)];
      stored.name = block + theirs + part;
      if (std::string_view(ours) == "qkv") {
        stored.layout = Layout::kQkv;
        stored.heads = layer.heads;
      }
    }
}

Status addHead(Names& out, const Layer& layer, std::size_t index) {
  if (!layer.activation.empty() || (layer.tied.empty() && layer.bias))
    return notGpt2(index, message("its last layer, {}, has a bias or an activation", layer.name));
  if (layer.tied.empty())
    out.stored[layer.name + ".weight"] = {"lm_head.weight", Layout::kTransposed};
  else
    out.copies["lm_head.weight"] = "wte.weight";
  return {};
}

}  // namespace

bool Stored::canHold(const Shape& parameter) const {
  if (layout == Layout::kTransposed) return parameter.size() == 2;
  return layout != Layout::kQkv || (!parameter.empty() && parameter.back() % (3 * heads) == 0);
}

Shape Stored::shapeOf(const Shape& parameter) const {
  return layout == Layout::kTransposed ? Shape(parameter.rbegin(), parameter.rend()) : parameter;
}

Stored Names::of(const std::string& parameter) const {
  const auto found = stored.find(parameter);
  return found == stored.end() ? Stored{parameter} : found->second;
}

bool Names::isNoWeight(const std::string& name) const {
  return !stored.empty() && (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
}

Result<Names> gpt2Names(const models::Model& model) {
  Names out;
  out.prefix = "transformer.";
  std::int64_t blocks = 0;
  bool hasEmbedding = false, hasNorm = false, hasHead = false;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const Layer& layer = model.layers[i];
    const auto outOfPlace = [&] {
      return notGpt2(i, message("its layer {} is not one of a GPT-2, or not in its place: a GPT-2 "
                                "is an embedding, transformers, a layer_norm and a dense layer "
                                "without bias",
                                layer.name));
    };
    switch (layer.kind) {
      case Layer::Kind::kDropout:
        break;
      case Layer::Kind::kEmbedding:
        if (hasEmbedding || model.vocabulary == 0) return outOfPlace();
        hasEmbedding = true;
        out.stored[layer.name + ".weight"] = {"wte.weight"};
        out.stored[layer.name + ".positions"] = {"wpe.weight"};
        break;
      case Layer::Kind::kTransformer:
        if (!hasEmbedding || hasNorm) return outOfPlace();
        if (!layer.causal) return notGpt2(i, message("its layer {} is not causal", layer.name));
        addBlock(out, layer, blocks++);
        break;
      case Layer::Kind::kLayerNorm:
        if (blocks == 0 || hasNorm) return outOfPlace();
        hasNorm = true;
        out.stored[layer.name + ".gain"] = {"ln_f.weight"};
        out.stored[layer.name + ".bias"] = {"ln_f.bias"};
        break;
      case Layer::Kind::kDense:
        if (!hasNorm || hasHead) return outOfPlace();
        hasHead = true;
        LOCKSTEP_TRY(addHead(out, layer, i));
        break;
      default:
        return outOfPlace();
    }
  }
  if (!hasHead)
    return notGpt2(model.layers.size(), "it does not end with a layer_norm and a dense layer");
  return out;
}

bool isConvertible(DType dtype) { return isFloat(dtype); }

std::int64_t convert(DType from, const std::byte* in, DType to, std::byte* out,
                     std::int64_t count) {
  if (from == to) {
    std::memcpy(out, in, bytes(count, from));
    return 0;
  }
  std::int64_t lost = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = valueAt(from, in + bytes(i, from));
    storeAt(to, out + bytes(i, to), value);
    lost += std::isfinite(value) && std::isinf(valueAt(to, out + bytes(i, to))) ? 1 : 0;
  }
  return lost;
}

void fromFile(const Stored& stored, const Shape& shape, DType fileType,
              std::span<const std::byte> in, DType type, std::span<std::byte> out) {
  forRuns(stored, shape, [&](std::int64_t here, std::int64_t there, std::int64_t count) {
    convert(fileType, in.data() + bytes(there, fileType), type, out.data() + bytes(here, type),
            count);
  });
}

std::int64_t toFile(const Stored& stored, const Shape& shape, DType type,
                    std::span<const std::byte> in, DType fileType, std::span<std::byte> out) {
  std::int64_t lost = 0;
  forRuns(stored, shape, [&](std::int64_t here, std::int64_t there, std::int64_t count) {
    lost += convert(type, in.data() + bytes(here, type), fileType,
                    out.data() + bytes(there, fileType), count);
  });
  return lost;
}

}  // namespace lockstep::weights
