"""How the packaged machines are drawn, apart from their equations: no sympy is loaded for a picture."""
