# class: quick
# rping on the kernel's device against the soft device.
rping_both
