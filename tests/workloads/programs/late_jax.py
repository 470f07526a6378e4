# JAX over several processes, whose steps are those of lockstep.step(). Rank argv[1], if there is one, computes for
# 80 ms more in each step from step 20 on.
import os
import sys
import time
from functools import partial

import jax
import jax.numpy as jnp
import lockstep
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

jax.distributed.initialize(num_processes=int(os.environ["JAX_NUM_PROCESSES"]),
                           process_id=int(os.environ["JAX_PROCESS_ID"]))
rank, slow = jax.process_index(), int(sys.argv[1])
mesh = Mesh(np.array(jax.devices()), ("data",))
everywhere, parts = PartitionSpec(), PartitionSpec("data")


def prepare(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


@jax.jit
@partial(jax.shard_map, mesh=mesh, in_specs=(everywhere, parts), out_specs=(everywhere, everywhere), check_vma=False)
def train(weights, x):
    loss, gradient = jax.value_and_grad(lambda w: jnp.mean((jnp.tanh(x @ w) - x) ** 2))(weights)
    return weights - 0.05 * jax.lax.pmean(gradient, "data"), jax.lax.pmean(loss, "data")


weights = jax.device_put(0.1 * jax.random.normal(jax.random.key(1), (16, 16)), NamedSharding(mesh, everywhere))
data = np.random.default_rng(100 + rank)
for step in range(1, 101):
    with lockstep.step():
        prepare(0.1 if rank == slow and step >= 20 else 0.02)
        x = data.normal(size=(32, 16)).astype("float32")
        weights, loss = train(weights, jax.make_array_from_process_local_data(NamedSharding(mesh, parts), x))
        jax.block_until_ready(loss)
    if rank == 0:
        print(f"step {step} loss {float(loss):.9g}", flush=True)
time.sleep(1)  # see ddp.py
