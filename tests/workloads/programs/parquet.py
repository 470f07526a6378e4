"""Writes a table to Parquet files in a folder, and its rows to stdout as JSON."""
import json
import random
import sys

import pyarrow
import pyarrow.parquet

rng = random.Random(5)
rows = []
for i in range(500):
    y = i % 2
    rows.append({"y": y, "x": [y + rng.uniform(-0.3, 0.3), rng.random()], "weight": None if i % 11 == 0 else float(i % 7),
                 "colour": rng.choice(["red", 'a "blue", or so', "grün\nor"])})
for part, begin in enumerate(range(0, len(rows), 200)):
    table = pyarrow.Table.from_pylist(rows[begin:begin + 200])
    colour = table.schema.get_field_index("colour")
    table = table.set_column(colour, "colour", table["colour"].dictionary_encode())
    pyarrow.parquet.write_table(table, f"{sys.argv[1]}/part-{part}.parquet", compression=["snappy", "zstd", "gzip"][part])
print(json.dumps([{"y": row["y"], "x.0": row["x"][0], "x.1": row["x"][1], "weight": row["weight"], "colour": row["colour"]}
                  for row in rows]))
