"""The errors a user can cause; the command line prints them as one line and exits with 2."""


class UserError(ValueError):
    """A mistake the user can mend; the message names what, the value and the remedy."""


class SettingsError(UserError):
    """A setting is unknown, of the wrong type or impossible."""


class DataError(UserError):
    """A data set cannot be found, read or used."""


class MissingExtra(UserError):
    """An optional part of the installation is not there."""


class ProcessLost(UserError):
    """A process of a data-parallel run ended before its work was done."""


class ArtifactError(UserError):
    """A file of a run folder is missing, damaged, foreign or from a newer version."""
