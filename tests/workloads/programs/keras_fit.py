# Keras under TensorFlow's MultiWorkerMirroredStrategy, which reads TF_CONFIG. It is Keras 2: fit() of
# Keras 3 does not take a strategy of several workers.
import sys

import numpy as np
import tensorflow as tf
import tf_keras as keras

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(1)
x = np.random.default_rng(1).normal(size=(960, 32)).astype("float32")
y = (x[:, :16].sum(1) > x[:, 16:].sum(1)).astype("int32")
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(96).repeat()
with strategy.scope():
    model = keras.Sequential([keras.layers.Dense(64, activation="relu"), keras.layers.Dense(2)])
    model.compile(optimizer=keras.optimizers.Adam(0.01), metrics=["accuracy"],
                  loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
history = model.fit(data, epochs=int(sys.argv[1]), steps_per_epoch=10)
print(f"loss {history.history['loss'][-1]:.9g}")
