# Datagrams, and looking up who takes them.
duet datagram
