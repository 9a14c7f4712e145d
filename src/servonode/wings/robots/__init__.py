"""Robots from files: URDF and MJCF, read by MuJoCo, as numbers and as machines."""
