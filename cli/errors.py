"""How a command fails: one clear sentence for a person, exit code 1."""


class CommandError(Exception):
    """Something that the caller can put right. The message says what is wrong and what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
