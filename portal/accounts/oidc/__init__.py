"""Sign-in through the organisation's identity provider (OpenID Connect), on django-allauth.

What django-allauth leaves out is added here: the nonce, and the signature of the ID token also when it came
straight from the provider.
"""
