"""
The per-job process that decides who trains together and who saves.

Rule of this package: everything but `server`, `settings` and `__main__` is told the time and what
was heard, and answers what to send; it opens no socket, reads no clock and waits for nothing.
"""
