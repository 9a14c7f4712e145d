"""What the ball on a turntable finds out itself: its angles, where it may start."""
