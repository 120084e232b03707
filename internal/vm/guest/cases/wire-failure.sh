# Requests that fail, as both ends see them.
duet failure
