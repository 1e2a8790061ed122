"""Sends requests until Prometheus has data for each query of the dashboard, and checks that the rules are healthy.

Usage: check.py DASHBOARD RULES PROMETHEUS CHAT KEY
"""

import json
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

TIMEOUT_SECONDS = 120
# No metric, span or line of the log may contain it.
PROMPT = "marmalade and toast"


def ask(url: str, key: str, model: str) -> None:
    """Sends a streamed request; a refusal is an answer, too."""
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": PROMPT}]}
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Authorization": f"Bearer {key}"})
    try:
        urllib.request.urlopen(request, timeout=10).read()
    except urllib.error.HTTPError as refusal:
        refusal.read()


def get(prometheus: str, path: str, **parameters: str) -> dict:
    query = urllib.parse.urlencode(parameters)
    return json.load(urllib.request.urlopen(f"{prometheus}/api/v1/{path}?{query}", timeout=10))["data"]


def has_data(prometheus: str, query: str) -> bool:
    """Returns whether the query has a value that is a number."""
    result = get(prometheus, "query", query=query)["result"]
    return any(sample["value"][1] != "NaN" for sample in result)


def names(text: str) -> set[str]:
    """Returns the names of metrics in the text of rules."""
    return set(re.findall(r"\btollgate_[a-z_]+", text))


def main() -> None:
    dashboard, rules, prometheus, chat, key = sys.argv[1:]
    panels = json.load(open(dashboard))["panels"]
    # Grafana replaces its variable; the rate needs several scrapes.
    queries = [target["expr"].replace("$__rate_interval", "30s") for panel in panels for target in panel["targets"]]
    queries += sorted(names(open(rules).read()))
    begun, missing = time.monotonic(), queries
    while missing:
        for model in ("sim-chat", "sim-reasoner", "no-such-model"):
            ask(chat, key, model)
        time.sleep(1)
        try:
            missing = [query for query in missing if not has_data(prometheus, query)]
        except urllib.error.URLError as error:
            if time.monotonic() - begun > TIMEOUT_SECONDS:
                raise
            print(f"waiting for Prometheus: {error}")
        if time.monotonic() - begun > TIMEOUT_SECONDS:
            sys.exit("no data for:\n" + "\n".join(missing))
    target = get(prometheus, "targets")["activeTargets"][0]
    assert target["health"] == "up", target
    print(f"{len(queries)} queries have data; {target['scrapePool']} is {target['health']}")
    while True:
        groups = get(prometheus, "rules")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        if all(rule["health"] != "unknown" for rule in rules) or time.monotonic() - begun > TIMEOUT_SECONDS:
            break
        time.sleep(1)
    broken = [rule["name"] for rule in rules if rule["health"] != "ok"]
    firing = [alert["labels"]["alertname"] for alert in get(prometheus, "alerts")["alerts"] if alert["state"] == "firing"]
    assert groups and not broken and not firing, (broken, firing)


main()
