"""Ebbtide: elastic distributed training on GPU capacity that comes and goes."""

__version__ = "0.1.0"
