"""Writes tf.train.Example records to files in a folder, and their rows to stdout as JSON."""
import json
import random
import sys

import numpy
import tensorflow as tf

rng = random.Random(6)


def single(value):
    """The shortest decimal number that is this one in single precision, as records have it."""
    return float(str(numpy.float32(value)))


def feature(value):
    if isinstance(value, str):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))
    if isinstance(value, int):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
    return tf.train.Feature(float_list=tf.train.FloatList(value=value))


rows = []
for part, options in (("a.tfrecord", None), ("b.tfrecord.gz", tf.io.TFRecordOptions(compression_type="GZIP"))):
    with tf.io.TFRecordWriter(f"{sys.argv[1]}/{part}", options) as writer:
        for i in range(250):
            y = i % 2
            x = [single(y + rng.uniform(-0.3, 0.3)), single(rng.random())]
            weight = None if i % 11 == 0 else float(i % 7)
            colour = rng.choice(["red", 'a "blue", or so', "grün\nor"])
            features = {"y": feature(y), "x": feature(x), "colour": feature(colour)}
            if weight is not None:
                features["weight"] = feature([weight])
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
            rows.append({"y": y, "x.0": x[0], "x.1": x[1], "weight": weight, "colour": colour})
print(json.dumps(rows))
