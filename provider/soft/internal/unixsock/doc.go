// Package unixsock opens Unix sockets with abstract names, and sends packets and
// descriptors through them. See unix(7).
package unixsock
