// Package resource recognizes errors of system calls that say that this process or the
// system has no more descriptors, memory or mappings.
package resource
