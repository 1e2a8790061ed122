"""Receives OTLP over gRPC and over HTTP, and appends each request to a file as a JSON object per line.

Usage: receiver.py GRPC_PORT HTTP_PORT FILE
"""

import http.server
import json
import sys
import threading
from concurrent import futures

import grpc
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

REQUESTS = {
    "/v1/traces": (trace_service_pb2.ExportTraceServiceRequest, trace_service_pb2.ExportTraceServiceResponse),
    "/v1/metrics": (metrics_service_pb2.ExportMetricsServiceRequest, metrics_service_pb2.ExportMetricsServiceResponse),
    "/v1/logs": (logs_service_pb2.ExportLogsServiceRequest, logs_service_pb2.ExportLogsServiceResponse),
}
lock = threading.Lock()
received = open(sys.argv[3], "a", encoding="utf-8")


def take(path: str, protocol: str, headers: dict, request) -> None:
    line = {"path": path, "protocol": protocol, "headers": headers, "request": MessageToDict(request)}
    with lock:
        received.write(json.dumps(line) + "\n")
        received.flush()


def servicer(base: type, path: str):
    """Returns a service that takes the requests for a path."""

    class Service(base):
        def Export(self, request, context):
            take(path, "grpc", dict(context.invocation_metadata()), request)
            return REQUESTS[path][1]()

    return Service()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        assert self.headers["content-type"] == "application/x-protobuf", self.headers
        request, answer = REQUESTS[self.path]
        take(self.path, "http", {name.lower(): value for name, value in self.headers.items()}, request.FromString(body))
        encoded = answer().SerializeToString()
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, *_) -> None:
        pass


def main() -> None:
    server = grpc.server(futures.ThreadPoolExecutor(4), options=[("grpc.max_receive_message_length", 16 << 20)])
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(
        servicer(trace_service_pb2_grpc.TraceServiceServicer, "/v1/traces"), server)
    metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(
        servicer(metrics_service_pb2_grpc.MetricsServiceServicer, "/v1/metrics"), server)
    logs_service_pb2_grpc.add_LogsServiceServicer_to_server(
        servicer(logs_service_pb2_grpc.LogsServiceServicer, "/v1/logs"), server)
    server.add_insecure_port(f"127.0.0.1:{sys.argv[1]}")
    server.start()
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()


main()
