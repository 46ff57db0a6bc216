"""The private parts of Celery and kombu that Perdure uses. Only this package touches such parts.

``table`` lists and checks them, and docs/internals/private-parts.md says what each is for. The
other modules give them public names, and know nothing of rounds, runs and stores.
"""
