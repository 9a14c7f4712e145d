"""From a program to its law: servo-constraints, generated source, kernels, goals; what it can realise."""
