"""Replays of policies over traces in virtual time, and the yardstick that they are held against."""
