"""The headless Service in front of a job's coordinator."""

from typing import Any

from ebbtide.core.values.job import Job
from ebbtide.manifests.metadata import child_metadata, coordinator_selector
from ebbtide.wire.names import COORDINATOR_PORT, METRICS_PORT, coordinator_service


def build_service(job: Job, attempt: int) -> dict[str, Any]:
    """Return the Service that leads to one attempt of the coordinator."""
    name = coordinator_service(job.key.name)
    ports = (("coordinator", COORDINATOR_PORT), ("metrics", METRICS_PORT))
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": child_metadata(job, name=name, component="coordinator"),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,  # workers look it up while it still starts
            "selector": coordinator_selector(job, attempt),
            "ports": [
                {"name": label, "port": port, "targetPort": port, "protocol": "TCP"}
                for label, port in ports
            ],
        },
    }
