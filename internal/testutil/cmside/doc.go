// Package cmside has the sides of connections in tests of connection management, and
// waits for their events. It works with every implementation of cm.Transport.
package cmside
