// Package resource recognizes errors that mean a lack of descriptors, memory or
// mappings.
package resource
