package rsocket

import (
	"errors"
	"fmt"
)

var (
	// ErrProtocol reports that the peer has violated the protocol. The connection must
	// end.
	ErrProtocol = errors.New("the peer has violated the rsocket protocol")
	// ErrVersion reports that the peer has another version of the protocol, or another
	// protocol.
	ErrVersion = errors.New("the peer has another version of the rsocket protocol")
)

// violation returns an error that matches ErrProtocol.
func violation(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}

// A versionError reports the version of the peer.
type versionError struct{ got byte }

func (e *versionError) Error() string {
	return fmt.Sprintf("%v: %d instead of %d", ErrVersion, e.got, version)
}

// Unwrap returns ErrVersion.
func (e *versionError) Unwrap() error { return ErrVersion }
