# class: quick
# Messages, READ, WRITE and atomics.
pairtest traffic
