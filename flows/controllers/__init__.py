"""Language models as controllers: requests, replies, providers and prices."""
