# A bit of some packets is wrong. Those of the kernel's device have no checksum but
# the ICRC.
# Nor have those that tell where an address is; a wrong one would be believed.
/usr/bin/ip neigh change $PEER dev v0 nud permanent
/usr/bin/ip -n peer neigh change $ADDR dev v1 nud permanent
impair corrupt 1%
duet traffic
felt completer_retry_err
