"""From a program to its law: what defines a program, servo-constraints, generated source, kernels, goals, limits."""
