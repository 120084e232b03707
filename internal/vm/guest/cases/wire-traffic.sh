# Messages, READ, WRITE and atomics.
duet traffic
