// Names and layout of weights in files of other programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/dtype.h"
#include "engine/base/status.h"
#include "engine/models/model.h"

namespace lockstep::weights {

// How the tensors of an exported model lie; "layout" in the file's metadata.
inline constexpr std::string_view kWeightLayout =
    "row-major. Weights of dense layers and of attention are [in, out], the transpose of PyTorch's "
    "Linear. The out "
    "dimension of a transformer's qkv.weight and qkv.bias is [head][q, k, v][channel of the head]: "
    "q, k, v of head 0, "
    "then of head 1. Embeddings are [id, channel], positions [token, channel]; the tables of "
    "categories are one after "
    "another. Convolutions are [height, width, in, out].";

// How a file's tensor lies, compared with the model's parameter.
enum class Layout : std::uint8_t {
  kSame,
  // The last dimension, 3 · heads · d, is [q, k, v][head][d]; in the model it is [head][q, k,
  // v][d].
  kQkv,
  kTransposed,  // two dimensions
};

// A parameter's tensor in a file.
struct Stored {
  std::string name;
  Layout layout = Layout::kSame;
  std::int64_t heads = 1;                       // kQkv
  Shape shapeOf(const Shape& parameter) const;  // its shape in the file
  bool canHold(const Shape& parameter) const;   // whether it has the layout at all
};

struct Names {
  std::map<std::string, Stored> stored;  // by parameter; empty: as in the model
  std::string prefix;                    // that the names in a file may begin with
  // A tensor that may be there too, if it equals another one of the file: {"lm_head.weight", …}.
  std::map<std::string, std::string> copies;
  Stored of(const std::string& parameter) const;
  // Whether a tensor of the file is none of the weights: the masks that older files have.
  bool isNoWeight(const std::string& name) const;
};

// The names of Hugging Face's GPT2LMHeadModel
// (https://github.com/huggingface/transformers, models/gpt2/modeling_gpt2.py): an embedding,
// transformer blocks, a layer norm, and a dense layer without bias, tied to the embedding or not;
// dropout anywhere. Its products are Conv1D, [in, out] as here; lm_head is a Linear, [out, in].
// Errors: kInvalidArgument naming the layer that a GPT-2 does not have.
Result<Names> gpt2Names(const models::Model& model);

// Converts elements between floating-point types, to the nearest, ties to even; the same type bit
// by bit. Returns how many finite values became infinite, which `to` cannot hold.
std::int64_t convert(DType from, const std::byte* in, DType to, std::byte* out, std::int64_t count);
// Whether convert() takes this type.
bool isConvertible(DType dtype);

// Copies a parameter of this shape, or whole rows of one, from its layout in a file to the model's,
// or back; then returns what convert() does.
void fromFile(const Stored& stored, const Shape& shape, DType fileType,
              std::span<const std::byte> in, DType type, std::span<std::byte> out);
std::int64_t toFile(const Stored& stored, const Shape& shape, DType type,
                    std::span<const std::byte> in, DType fileType, std::span<std::byte> out);

}  // namespace lockstep::weights
