// Package fdwait waits until a descriptor is readable, for calls that block and can be
// cancelled with a context.
package fdwait
