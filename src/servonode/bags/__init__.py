"""Recordings: all messages of a run as an MCAP file, what is read of one, and the controller run again on it."""
