"""Texts of libraries that people read here and that the libraries' own catalogues lack, or say half in
English: they are translated with ours, which Django asks first."""

from collections.abc import Sequence

MESSAGES: Sequence[str | tuple[str, str]] = (
    # Django
    "Enter a valid email address.",
    "Email address",
    (
        "This password is too short. It must contain at least %d character.",
        "This password is too short. It must contain at least %d characters.",
    ),
    # Said with another word for "you" than everything else here.
    (
        "Your password must contain at least %(min_length)d character.",
        "Your password must contain at least %(min_length)d characters.",
    ),
    "Your password can’t be too similar to your other personal information.",
    "Your password can’t be a commonly used password.",
    "Your password can’t be entirely numeric.",
    # Django REST framework
    "A valid biginteger is required.",
    "Integer value too large to convert to float",
    "This field may not be null.",
    'Enter a valid "slug" consisting of Unicode letters, numbers, underscores, or hyphens.',
    # django-allauth
    "Bad Token",
    "Email Address",
    "Email address %(deleted_email)s has been removed from your account.",
    "Primary email address set.",
    "The password reset token was invalid.",
    "Username or email",
    "Verify Your Email Address",
    "You cannot activate two-factor authentication until you have verified your email address.",
    "You cannot remove your primary email address (%(email)s).",
    "You have confirmed %(email)s.",
    "Your account has no verified email address.",
    "This key does not indicate whether it is a passkey.",
)
