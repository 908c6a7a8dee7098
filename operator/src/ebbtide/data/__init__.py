"""
Embedded tables with their sources, licences and dates, and the shapes of public data sets.

Nothing here decides anything: text and JSON come in, tables for `ebbtide.core.models` go out.
"""
