// Package access decides which peers may connect to a soft device. Users says which
// users are allowed. UserLimit limits the number of connections of a user. ErrorLimit
// delays peers that have guessed remote keys, or violate the protocol often.
package access
