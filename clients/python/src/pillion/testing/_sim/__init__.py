"""A simulated sidecar: what a real one does to a worker, with Kafka as lists in memory.

Data flow: a link (a real websocket or a pipe) posts what arrives as events; Sidecar.until() takes
them one by one and hands them to the Session, which checks everything that the protocol demands of
a worker; moves are what a sidecar does to a task. The scenario player and the TestDriver decide
which moves and when. Everything happens in one event loop.
"""
