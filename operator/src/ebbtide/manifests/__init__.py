"""
Pure builders: from a job and a decision to the object to apply, one kind of object per file.

They decide nothing and know no cluster; what they return is a plain dict.
"""

from ebbtide.manifests.coordinator import build_coordinator
from ebbtide.manifests.options import Options
from ebbtide.manifests.secret import build_secret
from ebbtide.manifests.server import build_server
from ebbtide.manifests.service import build_service
from ebbtide.manifests.worker import build_worker

__all__ = [
    "Options",
    "build_coordinator",
    "build_secret",
    "build_server",
    "build_service",
    "build_worker",
]
