"""The fast path: prefetch, run affinity, and a limit for CPU-bound rounds.

``worker/runtime/fast`` installs it. Otherwise none of these modules is imported. The docstring of
each module names the plain code that it replaces, its worth, its switch, and the private parts of
other libraries that it uses.
"""
