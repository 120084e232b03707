//go:build linux

package hostile

// KindLongRead exports kindLongRead.
const KindLongRead = kindLongRead

// LongViolationKinds returns how many violations of RoleLongViolator there are, by the
// kind of the error with which a connection must end at the server.
func LongViolationKinds() map[string]uint64 {
	n := make(map[string]uint64)
	for _, v := range longViolations() {
		n[v.kind]++
	}
	return n
}

// StreamViolationKinds returns how many violations of RoleStreamViolator there are, by
// the kind of the error with which a stream must end at the server.
func StreamViolationKinds() map[string]uint64 {
	n := make(map[string]uint64)
	for _, v := range streamViolations() {
		n[v.kind]++
	}
	return n
}
