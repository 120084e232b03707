// Package access decides which peers may connect to a soft device. Users has the users of
// this host that are allowed, UserLimit limits the connections of each user, and
// ErrorLimit makes sources of access errors wait before they may connect again.
package access
