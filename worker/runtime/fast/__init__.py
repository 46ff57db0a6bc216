"""The fast path in a worker process: the delivery of prefetched messages, and the thread pool.

``install_fast_path`` installs it if prefetch is on. Otherwise these modules are not imported.
"""
