"""One step of a job: everything observed goes in, one decision comes out."""

from ebbtide.core.step.stepping import step

__all__ = ["step"]
