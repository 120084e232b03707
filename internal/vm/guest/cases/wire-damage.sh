# A bit of some packets is wrong. Those of the kernel's device have no checksum but
# the ICRC.
impair corrupt 1%
duet traffic
felt completer_retry_err
