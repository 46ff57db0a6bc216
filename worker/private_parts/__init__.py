"""The private parts of Celery and kombu that Perdure uses. No other package touches one.

``table`` lists and checks them, and docs/internals/private-parts.md says what each is for. The
other modules give them public names. They know nothing of rounds, runs and stores.
"""
