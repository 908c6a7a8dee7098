"""
The decisions, pure: no I/O, no clock, no chance of its own, no logging.

Time comes in as an argument, what is decided goes out as values with a reason. What runs in the
operator runs in the simulator.
"""
