"""From a program to its law: the words of a program, servo-constraints, generated source, kernels, goals, limits."""
