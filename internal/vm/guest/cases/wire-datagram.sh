# class: quick
# Datagrams, and the lookup of their queue pairs by SIDR.
pairtest datagram
