"""
Readers of public data sets, one module for each source: its text in, samples or offers out.

They know columns, units and traps of their source, and no path: whoever has the file reads it.
"""
