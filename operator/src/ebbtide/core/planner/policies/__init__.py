"""
What to run next while capacity comes and goes: named policies behind one interface.

A policy sees a `Moment` and answers with a `Place`. It knows the past of its zones and nothing of
their future; chance, clocks and files are foreign to it. One policy is one module.
"""
