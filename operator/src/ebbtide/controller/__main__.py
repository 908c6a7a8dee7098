"""`python -m ebbtide.controller`: the operator."""

import argparse
import asyncio
import dataclasses
import logging
import sys
from pathlib import Path
from typing import Final

from ebbtide.cluster.client import Login
from ebbtide.cluster.errors import CredentialsError
from ebbtide.controller import logs
from ebbtide.controller.app import App, AppOptions, LeaseName
from ebbtide.controller.settings import ConfigurationError, read_configuration
from ebbtide.wire.names import EXIT_USAGE

logger = logging.getLogger("ebbtide.controller")

_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_NO_NAMESPACE: Final = "default"
_NESTING: Final = 12_000
"""The API server takes objects nested 10000 deep; to refuse such a job it must first be read."""


def main(arguments: list[str] | None = None) -> int:
    """Run the operator; return its exit status."""
    found = _parser().parse_args(arguments)
    logs.set_up(as_json=found.log_format == "json", verbose=found.verbose)
    sys.setrecursionlimit(_NESTING)
    try:
        return asyncio.run(_run(found))
    except (ConfigurationError, CredentialsError) as error:
        logger.error("%s", error)  # noqa: TRY400 -- the message says it all
        return EXIT_USAGE
    except KeyboardInterrupt:
        return 130


async def _run(found: argparse.Namespace) -> int:
    configuration = read_configuration(found.config)
    if found.namespace:
        configuration = dataclasses.replace(configuration, namespaces=tuple(found.namespace))
    options = AppOptions(
        configuration=configuration,
        login=Login(kubeconfig=found.kubeconfig, context=found.context),
        host=found.listen,
        health_port=found.health_port,
        metrics_port=found.metrics_port,
        lease=None
        if found.no_lease
        else LeaseName(namespace=_own_namespace(found.lease_namespace)),
    )
    return await App(options).run()


def _own_namespace(wanted: str) -> str:
    if wanted:
        return wanted
    try:
        return _NAMESPACE_FILE.read_text(encoding="utf-8").strip() or _NO_NAMESPACE
    except OSError:
        return _NO_NAMESPACE  # not in a pod


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m ebbtide.controller", description="The Ebbtide operator."
    )
    parser.add_argument("--config", type=Path, help="the configuration file (YAML)")
    parser.add_argument(
        "--kubeconfig", type=Path, help="default: the pod's own account, then kubectl's"
    )
    parser.add_argument("--context", help="of the kubeconfig")
    parser.add_argument(
        "--namespace", action="append", metavar="NS", help="look here only; may be repeated"
    )
    parser.add_argument("--listen", default="", help="address of health and metrics; default: all")
    parser.add_argument("--health-port", type=int, default=8081, help="0: a free one")
    parser.add_argument("--metrics-port", type=int, default=8080, help="0: a free one")
    parser.add_argument(
        "--no-lease", action="store_true", help="act without asking: no other operator is there"
    )
    parser.add_argument(
        "--lease-namespace", default="", help="where the Lease is; default: the pod's namespace"
    )
    parser.add_argument("--log-format", choices=("plain", "json"), default="plain")
    parser.add_argument("--verbose", action="store_true", help="say what every pass does")
    return parser


if __name__ == "__main__":
    sys.exit(main())
