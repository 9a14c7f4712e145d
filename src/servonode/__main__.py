"""`python -m servonode`: the command line, also where the folder of scripts is not on the path."""

from servonode.cli.main import main

if __name__ == "__main__":
    main()
