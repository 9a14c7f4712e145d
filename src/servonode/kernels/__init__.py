"""Kernels: typed numerical functions as data, printed as text, LLVM IR or C, compiled, cached and called."""
