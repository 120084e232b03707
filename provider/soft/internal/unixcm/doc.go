// Package unixcm is the transport of connection management on the local path. A conn and a
// listener use Unix sockets. A message is one packet of a socket. The kernel reports the
// user of the peer, and closes the socket when the peer's process ends. With a REP come
// the descriptors of the memory that both sides share.
package unixcm
