"""
What operator, coordinator and trainer must spell the same.

Names (labels, environment, exit codes), the messages they send each other, and the frames those
travel in. Pure data and codecs: no I/O, no clock, and nothing of ours is imported here.
"""
