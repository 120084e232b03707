// Package resource recognizes errors of system calls that mean a lack of descriptors,
// memory or mappings, in this process or in the whole system.
package resource
