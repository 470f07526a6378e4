"""Writes the rows of Parquet files as one CSV file with a header.

usage: OUT COLUMNS FILE...    COLUMNS: the names of columns as a JSON list; [] takes all

Prints a JSON object: `rows` and `columns`; or `missing`, why there is no pyarrow; or `error` and `file`, with
`column` where another choice of columns helps.
"""
import json
import sys

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv
    import pyarrow.parquet as pq
except ImportError as why:
    print(json.dumps({"missing": f"{sys.executable}: {why}"}))
    sys.exit()

BATCH = 1 << 16  # rows


class Wrong(Exception):
    column = True  # another choice of columns may help


class NoRows(Wrong):
    column = False


def is_number(kind):
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def plain(name, values):
    """Yields columns (name, values) of numbers, texts and times."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        yield from plain(name, values.cast(kind.value_type))
    elif pa.types.is_struct(kind):
        for field, part in zip(kind, values.flatten()):
            yield from plain(f"{name}.{field.name}", part)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from of_lists(name, values)
    elif pa.types.is_boolean(kind):
        yield name, values.cast(pa.int8())
    elif pa.types.is_floating(kind):
        values = values.cast(pa.float32()) if pa.types.is_float16(kind) else values
        yield name, pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    elif pa.types.is_decimal(kind):
        yield name, values.cast(pa.float64())
    elif pa.types.is_null(kind):
        yield name, values.cast(pa.string())
    elif is_number(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_temporal(kind):
        yield name, values
    else:
        raise Wrong(f'column "{name}" is of type {kind}, which is neither numbers nor texts')


def of_lists(name, values):
    if not is_number(values.type.value_type):
        raise Wrong(f'column "{name}" is of lists of {values.type.value_type}; those of numbers are taken')
    lengths = pc.unique(pc.list_value_length(values)).to_pylist()
    if len(lengths) != 1 or lengths[0] is None:
        raise Wrong(f'column "{name}" has lists of different lengths')
    flat = pc.list_flatten(values)
    for i in range(lengths[0]):
        yield from plain(f"{name}.{i}", flat.take(pa.array(range(i, len(flat), lengths[0]), pa.int64())))


def write(out, wanted, files, at):
    writer, schema, rows = None, None, 0
    for at["file"] in files:
        source = pq.ParquetFile(at["file"])
        names = source.schema_arrow.names
        for name in wanted:
            if name not in names:
                raise Wrong(f'it has no column "{name}"; it has {", ".join(names[:20])}')
        for batch in source.iter_batches(BATCH, columns=wanted or None):
            if batch.num_rows == 0:
                continue
            columns = [one for name in wanted or names
                       for one in plain(name, batch.column(batch.schema.get_field_index(name)))]
            made = pa.table([values for _, values in columns], names=[name for name, _ in columns])
            if writer is None:
                schema = made.schema
                writer = pa.csv.CSVWriter(out, schema)
            elif made.schema.names != schema.names:
                raise Wrong(f"its columns are {', '.join(made.schema.names[:20])}; those before are "
                            f"{', '.join(schema.names[:20])}")
            writer.write(made.cast(schema))
            rows += made.num_rows
    if writer is None:
        raise NoRows("it has no rows")
    writer.close()
    print(json.dumps({"rows": rows, "columns": schema.names}))


def main():
    out, wanted, *files = sys.argv[1:]
    at = {"file": files[0]}
    try:
        write(out, json.loads(wanted), files, at)
    except Wrong as why:
        print(json.dumps({"error": str(why), "column": why.column, **at}))
    except (pa.ArrowException, OSError) as why:
        print(json.dumps({"error": str(why), **at}))


main()
