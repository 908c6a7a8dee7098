"""
A world of an ordinary user, in a process of its own: `python user_world.py BINARY FOLDER`.

Runs a pod that writes to its volume and then waits, reads its log, and deletes it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from world.controlplane import Settings
from world.kubelet.detection import find_view
from world.network import CONTROL_PLANE_ADDRESS, enter
from world.samples import make_pod, make_pool
from world.session import Session
from world.world import World

SCRIPT = """
trap 'echo told to go; exit 82' TERM
hostname; echo kept >/volume/file
for folder in /tmp /var/tmp /run /root ''; do echo gone >$folder/file && cat $folder/file; done
echo written
while :; do sleep 0.1; done
"""


async def live(session: Session, folder: Path) -> dict[str, object]:
    """Run the pod from its creation to its end; return what became of it."""
    pool = make_pool()
    pod = make_pod("one", pool, script=SCRIPT)
    spec = pod["spec"]
    spec["volumes"] = [{"name": "volume", "hostPath": {"path": str(folder)}}]
    spec["containers"][0]["volumeMounts"] = [{"name": "volume", "mountPath": "/volume"}]
    async with World(session, pools=[pool], factor=0.05) as world:
        path = f"{world.path('pods')}/one"
        await world.api.request("POST", world.path("pods"), pod)
        async with asyncio.timeout(60):
            log = ""
            while "written" not in log:
                await world.until_pod("one", lambda found: found["status"]["phase"] != "Pending")
                log = await world.api.text("GET", f"{path}/log", None)
                await asyncio.sleep(0.1)
        await world.api.request("DELETE", path)
        ended = await world.until_pod(
            "one", lambda found: found["status"]["phase"] in {"Succeeded", "Failed"}
        )
        state = ended["status"]["containerStatuses"][0]["state"]["terminated"]
        faults = [repr(fault) for fault in world.faults]
    return {"log": log, "code": state["exitCode"], "faults": faults}


def main() -> None:
    """Print as JSON who ran what, and how it went."""
    user = os.geteuid()
    network = enter()
    binary, folder = (Path(word) for word in sys.argv[1:])
    settings = Settings(
        binary=binary, root=folder / "controlplane", advertise_address=CONTROL_PLANE_ADDRESS
    )
    with Session(network=network, settings=settings) as session:
        found = asyncio.run(live(session, folder / "volume"))
    sys.stdout.write(json.dumps({"user": user, "view": find_view().name, **found}))


if __name__ == "__main__":
    main()
