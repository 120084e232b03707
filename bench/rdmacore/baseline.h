/* The exchange of messages in C alone. */
#ifndef RDMALOOP_BASELINE_H
#define RDMALOOP_BASELINE_H

#include <stdint.h>

/* Exchanges chunks * rounds messages of size bytes with the peer. If first is not 0,
 * this side sends the first message, and times gets the nanoseconds of each chunk.
 * Returns 0 or an errno. */
int baseline(int size, int rounds, int chunks, int first, uint64_t *times);

#endif
