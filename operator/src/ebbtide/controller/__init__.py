"""
The operator's shell: kopf handlers, queue, control loop, settings, metrics, health, lease.

It holds no rule of a job's life: a handler only finds the key of the job that something happened
to, and one loop looks, asks `step`, acts, writes the status and tells. kopf is known here only.
"""
