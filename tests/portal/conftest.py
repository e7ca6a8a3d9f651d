from tests.cast import cast, cheap_passwords

__all__ = ["cast", "cheap_passwords"]
