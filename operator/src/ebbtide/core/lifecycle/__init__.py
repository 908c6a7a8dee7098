"""The rules of a job's life, one policy to a file: judging ends, replacing, conditions, the end."""
