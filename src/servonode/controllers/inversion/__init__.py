"""Stable inversion: the bounded solution of a program's unstable internal dynamics, and a law that follows it."""
