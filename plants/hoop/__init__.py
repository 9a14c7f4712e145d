"""What the hoop on a profile finds out itself: its profile, where it goes on it, its initial condition."""
