# Nothing that our device sends is dropped by the kernel's, and the other way round.
duet clean
