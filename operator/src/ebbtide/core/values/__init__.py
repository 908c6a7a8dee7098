"""Frozen values that the core reasons about: job, pool, what is observed, what is decided."""
