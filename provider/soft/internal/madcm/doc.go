// Package madcm is the transport of connection management on the wire path. A conn and a
// listener use the management datagrams of the InfiniBand specification. Datagrams may be
// lost, duplicated, reordered or forged. A conn retransmits messages and drops duplicates,
// so an ID gets each message once.
//
// The Mux of a device passes received datagrams to connections and listeners. They may
// belong to another event channel than the one that has read the socket. So the Mux queues
// a job in the inbox of their channel.
package madcm
