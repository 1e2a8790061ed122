"""Checks names and ports in the configuration of the collector, and nothing else: what its pipelines name is defined,
everything that is defined is used, and it listens where gateways export to. No collector reads the configuration.

Usage: check_collector.py CONFIGURATION
"""

import sys

import yaml


def main() -> None:
    text = open(sys.argv[1], encoding="utf-8").read()
    config = yaml.safe_load(text)
    pipelines = config["service"]["pipelines"]
    assert pipelines.keys() == {"traces", "metrics", "logs"}, pipelines.keys()
    for kind in ("receivers", "processors", "exporters"):
        used = {name for pipeline in pipelines.values() for name in pipeline[kind]}
        assert used == config[kind].keys(), (kind, used, config[kind].keys())
    protocols = config["receivers"]["otlp"]["protocols"]
    assert protocols["grpc"]["endpoint"].endswith(":4317"), protocols
    endpoint = protocols["http"]["endpoint"]
    assert endpoint.endswith(":4318") and f"--otlp-endpoint http://{endpoint}" in text, protocols
    names = [policy["name"] for policy in config["processors"]["tail_sampling"]["policies"]]
    assert len(names) == len(set(names)), names


main()
