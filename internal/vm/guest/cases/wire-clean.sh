# No packet of the soft device is dropped by the kernel's device, nor the reverse.
pairtest clean
