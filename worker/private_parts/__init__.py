"""The private parts of Celery and kombu that Perdure uses. Only this package touches such parts.

``table`` lists and checks them, and docs/internals/private-parts.md says for which feature each is
needed. The other modules give them public names, and do not know rounds, runs and stores.
"""
