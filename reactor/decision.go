package reactor

import "github.com/rdmaloop/rdmaloop/verbs"

// A decision says who has answered a connection request, or why the request has ended
// without an answer.
type decision uint32

// The decisions. Only the first decision of a request counts.
const (
	undecided     decision = iota
	byApplication          // the application has called Accept or Reject
	byDeadline             // Config.DecisionTimeout has passed
	byEngine               // the engine has rejected the request
	byPeer                 // the peer has withdrawn the request
	byRemoval              // the device of the request was removed
)

// err returns the error of a further answer to the request. If there is no decision yet,
// err() returns nil.
func (d decision) err() error {
	switch d {
	case byApplication:
		return ErrDecided
	case byDeadline:
		return ErrExpired
	case byEngine:
		return ErrShutdown
	case byPeer:
		return verbs.ErrPeerGone
	case byRemoval:
		return ErrDeviceRemoved
	}
	return nil
}
