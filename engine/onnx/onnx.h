// The forward graph of a trained model as an ONNX file (https://onnx.ai, opset 17), for other
// runtimes.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/status.h"
#include "engine/models/model.h"
#include "engine/weights/files.h"

namespace lockstep::onnx {

// Writes the model as evaluation has it: running statistics, no dropout. Any number of samples,
// dimension "batch", goes in at once.
//
// Inputs: as the data has them: "x" u8[batch×H×W×C] of images, i32[batch×tokens] of a text,
// f32[batch×numbers] of a table, as data/dataset.h has them, and its "categories"
// i32[batch×columns], c·categories + the category in column c. Output: "output"
// f32[batch×values], of a text f32[batch×tokens×vocabulary]: logits, as the loss takes them.
// Parameters keep their names, those of convolutions and what batch norm makes of its own apart.
//
// Returns the number of weights. Errors: kInvalidArgument where the weights are not the model's, or
// the file would be larger than the 2 GiB that protobuf allows; those of reading and writing.
Result<std::int64_t> exportModel(const models::Model& model, const weights::ModelWeights& weights,
                                 const std::string& to);

}  // namespace lockstep::onnx
