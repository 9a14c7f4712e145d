"""What the hoop on a profile finds out itself: its profile, where it continues it, its initial condition."""
