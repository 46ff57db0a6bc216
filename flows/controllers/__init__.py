"""Language models as controllers: requests, replies, providers, prices."""
