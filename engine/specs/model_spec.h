// Fills in the defaults of a model spec, and of its data.
#pragma once

#include "engine/base/status.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::specs {

bool isTable(const spec::v1::InputSpec& input);  // table rows: a shape of one number, no text
// Fills in the format of the data of this model, of which input, loss and classes are looked at,
// and checks that the files of that format, and the columns of CSV, are named. Error paths start at
// "data".
Status fillData(spec::v1::DataSpec& data, const spec::v1::ModelSpec& model);
// Names the layers without a name by kind and number: "dense1", "conv2". The number counts the
// layers of the kind, named or not; names in use are skipped.
void nameLayers(spec::v1::ModelSpec& spec);
// Error paths start at "model".
Status fillModel(spec::v1::ModelSpec& spec);

}  // namespace lockstep::specs
