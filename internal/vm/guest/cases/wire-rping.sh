# rping at the kernel's end, our device at the other.
rping_both
