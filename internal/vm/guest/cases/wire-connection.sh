# Private data, requests that are refused, and ends of connections.
duet connection
