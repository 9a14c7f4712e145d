"""What the ball on a turntable finds out itself: its angles, its initial condition."""
