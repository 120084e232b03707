# Private data, rejected requests and disconnects.
duet connection
