"""Checks what the schemas do not know: that the objects of the manifests fit together."""

import sys

import yaml

with open(sys.argv[1]) as file:
    objects = {(it["kind"], it["metadata"]["name"]): it for it in yaml.safe_load_all(file)}
(nodes,) = (it for (kind, _), it in objects.items() if kind == "StatefulSet")
settings = objects["ConfigMap", "tollgate"]["data"]
pod = nodes["spec"]["template"]
(gateway,) = pod["spec"]["containers"]

# all that is selected are the pods of the nodes
labels = pod["metadata"]["labels"].items()
assert nodes["spec"]["selector"]["matchLabels"].items() <= labels
ports = {port["name"]: port["containerPort"] for port in gateway["ports"]}
for (kind, name), it in objects.items():
    if kind == "Service":
        assert it["spec"]["selector"].items() <= labels, name
        for port in it["spec"]["ports"]:
            assert port.get("targetPort", port["port"]) in {*ports, *ports.values()}, name
    if kind == "PodDisruptionBudget":
        assert it["spec"]["selector"]["matchLabels"].items() <= labels, name
        assert it["spec"]["maxUnavailable"] < nodes["spec"]["replicas"]
assert ("Service", nodes["spec"]["serviceName"]) in objects

# the settings are strings that fit to the ports and to the time for a drain
assert all(isinstance(value, str) for value in settings.values())
assert settings["TOLLGATE_LISTEN"].endswith(f":{ports['api']}")
assert settings["TOLLGATE_ADMIN_LISTEN"].endswith(f":{ports['admin']}")
drain = sum(int(settings[f"TOLLGATE_DRAIN_{name}"]) for name in ("DELAY_SECONDS", "SECONDS"))
assert pod["spec"]["terminationGracePeriodSeconds"] > drain
readiness = gateway["readinessProbe"]
assert readiness["httpGet"]["path"] == "/readyz"
noticed = readiness["periodSeconds"] * readiness["failureThreshold"]
assert int(settings["TOLLGATE_DRAIN_DELAY_SECONDS"]) > noticed
assert gateway["livenessProbe"]["httpGet"]["path"] == "/healthz"

# every file is mounted from something, and the journal is on a volume of the node
volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
claims = {claim["metadata"]["name"] for claim in nodes["spec"]["volumeClaimTemplates"]}
mounts = {mount["mountPath"]: mount["name"] for mount in gateway["volumeMounts"]}
assert set(mounts.values()) == volumes | claims
assert mounts[gateway["args"][gateway["args"].index("--data-dir") + 1]] in claims
for key in ("STORE_PASSWORD_FILE", "TLS_CERT", "TLS_KEY"):
    assert settings[f"TOLLGATE_{key}"].rsplit("/", 1)[0] in mounts, key
secret = objects["Secret", "tollgate"]["stringData"]
for mount in gateway["volumeMounts"]:
    assert mount.get("subPath", "seal.key") in secret, mount
# Kubernetes would add variables like TOLLGATE_API_PORT, which are no settings
assert pod["spec"]["enableServiceLinks"] is False
