// From a logical graph to the graphs of the ranks. place() derives where every value lives along
// one mesh axis and inserts what the differences demand; localise() cuts the result to one rank.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/cluster/mesh.h"
#include "engine/ir/graph.h"

namespace lockstep::passes {

// The strategy's part: where the values without operands (inputs, states, constants) live on the
// axis, by node name, of a state its name; replicated where not named. Of a node with operands:
// where its first result shall live.
using Sources = std::map<std::string, ir::AxisPlacement, std::less<>>;

// Every value placed along `axis` by the op table's rules; a store has the placement of the source
// of its state's name. What a placement difference demands is inserted:
//   partial → replicated   all-reduce, where the value is made; of a view, where what it views is
//                          made: a flat group is reduced once and whole
//   partial → split        reduce-scatter, where the value is made
//   split → replicated     all-gather, where it is used; a state's anew in the backward pass
//   replicated → split     a view of this rank's part
// each on the stage of what is converted.
// The last three of flat values, and views of equal parts only.
// Errors: kInvalidArgument naming the node for a placement nothing can turn into what is needed.
// With `servers`, the nodes of stage 0 are the workers' and the others are on no axis: a value that
// they read from a worker is the sum over all workers.
Result<ir::Graph> place(const ir::Graph& graph, std::string_view axis, const Sources& sources,
                        bool servers = false);

// Workers whose local graphs would be equal: the class of each rank, from 0 in rank order.
std::vector<int> localClasses(const ir::Graph& placed, const cluster::Mesh& mesh);
// The graph of one rank: shapes, and attributes that hold shapes, cut to its share.
Result<ir::Graph> localise(const ir::Graph& placed, const cluster::Mesh& mesh, int rank);

}  // namespace lockstep::passes
