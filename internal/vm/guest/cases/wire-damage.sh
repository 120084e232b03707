# class: quick
# Single bits of some packets are flipped. Packets of the kernel's device have no checksum
# but the ICRC. ARP packets have no checksum at all, so the neighbour entries are made
# permanent.
/usr/bin/ip neigh change $PEER dev v0 nud permanent
/usr/bin/ip -n peer neigh change $ADDR dev v1 nud permanent
impair corrupt 1%
pairtest traffic
grown completer_retry_err
