"""`python -m servonode`: the command line, also where the folder of scripts is not on the path."""

from importlib import import_module

if __name__ == "__main__":
    import_module("servonode.cli.main").main()
