"""The verbs of `presil`, one a file. Heavy libraries are imported inside the functions, so that `--help` is quick."""
