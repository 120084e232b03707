# class: quick
# Private data, rejected requests and disconnects.
pairtest connection
