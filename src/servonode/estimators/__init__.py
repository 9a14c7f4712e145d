"""Estimators: a machine's state from what its sensors measure."""
