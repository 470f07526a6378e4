// The communication of a bound step: its collective, or its messages to and from peers.
#include <algorithm>
#include <array>

#include "engine/comm/reduce.h"
#include "engine/runtime/all_reduce.h"
#include "engine/runtime/executor_impl.h"

namespace lockstep::runtime {

void Executor::Impl::giveToDevices(const BoundStep& step) {
  device::Group& group = *step.devices;
  const auto reduce =
      step.reduce == comm::ReduceOp::kMax ? device::Reduce::kMax : device::Reduce::kSum;
  switch (step.op) {
    case ir::Op::kAllReduce:
      return group.allReduce(step.out, step.count, step.dtype, reduce);
    case ir::Op::kReduceScatter:
      return group.reduceScatter(step.in, step.out, step.cuts, step.dtype, reduce);
    case ir::Op::kAllGather:
      return group.allGather(step.in, step.out, step.cuts, step.dtype);
    case ir::Op::kAllToAll:
      return group.allToAll(step.in, step.out, step.messageBytes / group.size());
    case ir::Op::kBroadcast:
      return group.broadcast(step.out, step.messageBytes, step.root);
    default:
      LOCKSTEP_CHECK(false, "{} does not run on devices", ir::info(step.op).name);
  }
}

Status Executor::Impl::collective(const BoundStep& step) {
  Sender* const sender = groups.sender();
  groups.activity().beginCollective();
  switch (step.op) {
    case ir::Op::kSend:
    case ir::Op::kMulticast:
      for (int peer = 0; peer < step.peers; ++peer)
        sender->post(messages[step.message + static_cast<std::size_t>(peer)]);
      return {};
    case ir::Op::kSendRows:
      return sendRows(step);
    case ir::Op::kRecvRows:
      return recvRows(step);
    case ir::Op::kRecv:
      return step.group->recv(step.out, step.messageBytes, step.root, 0);
    case ir::Op::kRecvSum:
      LOCKSTEP_TRY(step.group->recv(step.out, step.messageBytes, step.root, 0));
      for (int peer = 1; peer < step.peers; ++peer) {
        LOCKSTEP_TRY(step.group->recv(step.in, step.messageBytes, step.root + peer, 0));
        const std::array inputs{static_cast<const std::byte*>(step.out),
                                static_cast<const std::byte*>(step.in)};
        comm::reduceArrays(static_cast<std::byte*>(step.out), inputs, step.count, step.dtype,
                           comm::ReduceOp::kSum);
      }
      return {};
    default:
      break;
  }
  if (step.drains) LOCKSTEP_TRY(sender->drain());
  switch (step.op) {
    case ir::Op::kAllReduce:
      if (!step.exchanges.empty())
        return allReduce(*step.group, step.exchanges, step.out, step.dtype, step.reduce,
                         *step.staging);
      return step.group->allReduce(step.out, step.count, step.dtype, step.reduce);
    case ir::Op::kReduceScatter:
      return step.group->reduceScatter(step.in, step.out, step.cuts, step.dtype, step.reduce);
    case ir::Op::kAllGather:
      return step.group->allGather(step.in, step.out, step.cuts, step.dtype);
    case ir::Op::kAllToAll:
      return step.group->allToAll(step.in, step.out, step.messageBytes / step.group->size());
    case ir::Op::kBroadcast:
      return step.group->broadcast(
          step.out, step.count * static_cast<std::int64_t>(sizeOf(step.dtype)), step.root);
    default:
      LOCKSTEP_CHECK(false, "{} is no collective", ir::info(step.op).name);
  }
}

Status Executor::Impl::sendRows(const BoundStep& step) {
  std::int64_t row = 0;
  for (int part = 0; part < step.part; ++part) row += step.counts[part];
  moved = 0;
  for (int peer = 0; peer < step.peers; ++peer) {
    const std::int64_t count = step.counts[step.part + peer];
    if (count < 0 || row + count > step.rows)
      return makeError(Code::kInternal, "rows {} to {} of {}", row, row + count, step.rows);
    const auto index = static_cast<std::size_t>(peer);
    heads[step.head + index] = static_cast<std::int32_t>(count);
    Sender::Message &head = messages[step.message + 2 * index],
                    &rows = messages[step.message + 2 * index + 1];
    groups.sender()->post(head);
    rows.data = static_cast<const std::byte*>(step.in) + row * step.rowBytes;
    rows.bytes = count * step.rowBytes;
    if (count > 0) groups.sender()->post(rows);
    moved += head.bytes + rows.bytes;
    row += count;
  }
  return {};
}

Status Executor::Impl::recvRows(const BoundStep& step) {
  std::int64_t row = 0;
  moved = 0;
  for (int peer = 0; peer < step.peers; ++peer) {
    std::int32_t count = 0;
    LOCKSTEP_TRY(step.group->recv(&count, sizeof count, step.root + peer, 0));
    if (count < 0 || row + count > step.rows)
      return makeError(Code::kDataLoss, "{} rows come from coordinate {}, where {} more have room",
                       count, step.root + peer, step.rows - row);
    if (count > 0)
      LOCKSTEP_TRY(step.group->recv(static_cast<std::byte*>(step.out) + row * step.rowBytes,
                                    count * step.rowBytes, step.root + peer, 0));
    step.counts[peer] = count;
    row += count;
    moved += static_cast<std::int64_t>(sizeof count) + count * step.rowBytes;
  }
  if (step.dtype == DType::kI32)
    std::fill(static_cast<std::int32_t*>(step.out) + row * step.rowBytes / 4,
              static_cast<std::int32_t*>(step.out) + step.count, -1);
  return {};
}

}  // namespace lockstep::runtime
