"""The fast path in a worker process: delivery of prefetched messages, and the thread pool.

``install_fast_path`` sets it up if prefetch is on. Otherwise these modules are not imported.
"""
