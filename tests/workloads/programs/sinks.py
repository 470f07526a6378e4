"""Reads what Lockstep's sinks have written, by other programs' readers: sinks.py TENSORBOARD OTLP PROMETHEUS.

TENSORBOARD is a folder, read by TensorBoard; OTLP a file with a request in JSON a line, read by OpenTelemetry's messages;
PROMETHEUS a file, read by Prometheus' client. Prints the loss that each has, and how many values in all, as JSON.
"""
import json
import os
import sys

from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from prometheus_client.parser import text_string_to_metric_families
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

folder, requests, page = sys.argv[1:]
out = {"tensorboard": [], "otlp": [], "prometheus": []}
count = dict.fromkeys(out, 0)
for where, _, files in os.walk(folder):
    if files:
        events = EventAccumulator(where, size_guidance={"scalars": 0})
        events.Reload()
        for tag in events.Tags()["scalars"]:
            count["tensorboard"] += len(events.Scalars(tag))
            if tag == "loss":
                out["tensorboard"] += [one.value for one in sorted(events.Scalars(tag), key=lambda one: one.step)]
with open(requests, encoding="utf-8") as lines:
    for line in lines:
        request = json_format.Parse(line, ExportMetricsServiceRequest())
        for metric in (m for r in request.resource_metrics for s in r.scope_metrics for m in s.metrics):
            values = [point.as_double for point in metric.gauge.data_points]
            count["otlp"] += len(values)
            if metric.name == "lockstep.run.loss":
                out["otlp"] += values
with open(page, encoding="utf-8") as text:
    for family in text_string_to_metric_families(text.read()):
        count["prometheus"] += len(family.samples)
        if family.name == "lockstep_run_loss":
            out["prometheus"] += [sample.value for sample in family.samples]
print(json.dumps({"losses": out, "count": count}))
