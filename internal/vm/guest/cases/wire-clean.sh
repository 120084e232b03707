# class: quick
# Neither device drops a packet of the other: the soft device and the kernel's device.
pairtest clean
