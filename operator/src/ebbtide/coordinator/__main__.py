"""`python -m ebbtide.coordinator`: one job's coordinator, from its environment until SIGTERM."""

import asyncio
import logging
import os
import signal
import sys

from ebbtide.coordinator.server import Server
from ebbtide.coordinator.settings import Settings, UsageError, read_settings
from ebbtide.wire.names import EXIT_USAGE


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, or until the operator is done with it."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = Server(settings)
    await server.start()
    await server.run(stop)


def main() -> int:
    """Run, and return the exit code."""
    logging.basicConfig(
        level=logging.INFO, stream=sys.stdout, format="%(asctime)s coordinator: %(message)s"
    )
    try:
        settings = read_settings(os.environ)
    except UsageError as error:
        sys.stderr.write(f"ebbtide coordinator: {error}\n")
        return EXIT_USAGE
    asyncio.run(serve(settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
