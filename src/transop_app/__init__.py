"""The application: command line and explorer, written with the public names of `transop`."""
