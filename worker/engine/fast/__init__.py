"""The fast path: prefetch, run affinity, and a limit for CPU-bound rounds.

``worker/runtime/fast`` installs it; without it none of these modules is imported. Each module says
what it replaces, what it is worth, how to switch it off, and which private parts of other libraries
it uses.
"""
