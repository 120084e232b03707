# class: quick
# Requests that fail, as both ends see them.
pairtest failure
