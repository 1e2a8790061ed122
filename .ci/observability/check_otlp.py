"""Compares what a receiver of OTLP got with the records of the ledger: requests, status, tokens and cost.

Usage: check_otlp.py RECEIVED RECORDS SECRET...: the file of receiver.py, the output of `ctl request export`, and texts that
no export may contain. The gateway has stopped.
"""

import base64
import json
import sys
from collections import Counter

# A prompt begins with it; see check.py.
PROMPT = "marmalade"
SERVER = "SPAN_KIND_SERVER"


def value(attribute: dict):
    [(kind, content)] = attribute["value"].items()
    return int(content) if kind == "intValue" else content


def attributes(item: dict) -> dict:
    return {attribute["key"]: value(attribute) for attribute in item.get("attributes", [])}


def items(lines: list, path: str, *keys: str) -> list:
    """Returns the innermost items of all requests for a path."""
    found = [line["request"] for line in lines if line["path"] == path]
    for key in keys:
        found = [inner for outer in found for inner in outer.get(key, [])]
    return found


def main() -> None:
    text = open(sys.argv[1], encoding="utf-8").read()
    lines = [json.loads(line) for line in text.splitlines()]
    records = {}
    for line in open(sys.argv[2], encoding="utf-8"):
        record = json.loads(line)
        records[record["id"]] = record
    assert records, "there are no records"

    spans = items(lines, "/v1/traces", "resourceSpans", "scopeSpans", "spans")
    servers = [span for span in spans if span["kind"] == SERVER]
    by_id = {attributes(span)["tollgate.request_id"]: span for span in servers}
    assert len(by_id) == len(servers), "a request has two spans"
    assert by_id.keys() == records.keys(), (len(by_id), len(records))
    ids = {span["spanId"] for span in spans}
    assert len(ids) == len(spans), "two spans have one id"
    assert all(span["parentSpanId"] in ids for span in spans if span["kind"] != SERVER), "a parent is missing"
    for id, record in records.items():
        got = attributes(by_id[id])
        assert base64.b64decode(by_id[id]["traceId"]).hex() == id.replace("-", ""), id
        assert got["tollgate.status"] == record["status"], (got, record)
        assert got["tollgate.requests"] == record["count"], (got, record)
        assert got.get("http.response.status_code") == record["http_status"], (got, record)
        for name, field in (("input", "input_tokens"), ("output", "output_tokens")):
            assert got.get(f"gen_ai.usage.{name}_tokens") == record[field], (got, record)
        assert round(got["tollgate.cost_usd"] * 1e9) == round(float(record["cost_usd"]) * 1e9), (got, record)
    served = [id for id, record in records.items() if record["deployment"]]
    attempts = Counter(span["parentSpanId"] for span in spans if span["kind"] == "SPAN_KIND_CLIENT")
    assert served and all(attempts[by_id[id]["spanId"]] == 1 for id in served), "each had one attempt"

    logged = items(lines, "/v1/logs", "resourceLogs", "scopeLogs", "logRecords")
    access = [log for log in logged if log.get("eventName") == "request"]
    assert {attributes(log)["request_id"] for log in access} == records.keys(), len(access)
    assert all(log["spanId"] in ids for log in access), "an access line is outside of its trace"

    # The last metrics of each process.
    last = {}
    for line in lines:
        if line["path"] == "/v1/metrics":
            # `ctl doctor` exports nothing, to see whether that is accepted.
            for resource in line["request"].get("resourceMetrics", []):
                instance = attributes(resource["resource"])["service.instance.id"]
                last[instance] = [metric for scope in resource["scopeMetrics"] for metric in scope["metrics"]]
    total = Counter()
    for metrics in last.values():
        for metric in metrics:
            for point in metric.get("sum", {}).get("dataPoints", []):
                total[metric["name"]] += int(point.get("asInt", 0)) or point.get("asDouble", 0)
    for metric, expected in (
        ("tollgate_requests_total", sum(record["count"] for record in records.values())),
        ("tollgate_input_tokens_total", sum(record["input_tokens"] or 0 for record in records.values())),
        ("tollgate_output_tokens_total", sum(record["output_tokens"] or 0 for record in records.values())),
    ):
        assert total[metric] == expected, (metric, total[metric], expected)

    for protocol in ("grpc", "http"):
        paths = {line["path"] for line in lines if line["protocol"] == protocol}
        assert paths == {"/v1/traces", "/v1/metrics", "/v1/logs"}, (protocol, paths)
        assert all(line["headers"]["x-scope"] == "ci" for line in lines), protocol
    for forbidden in (PROMPT, "sk-tg-", *sys.argv[3:]):
        assert forbidden not in text, "an export has a text that it must not have"
    print(f"{len(servers)} requests, {len(spans)} spans, {len(logged)} log records and {len(last)} sets of metrics equal the ledger")


main()
