"""Machines with their goals as environments of gymnasium."""
