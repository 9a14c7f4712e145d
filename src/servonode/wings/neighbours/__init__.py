"""Runs as other tools read them: ROS 2, Foxglove, rerun."""
